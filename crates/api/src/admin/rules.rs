//! Lifecycle rules of buckets. They are read back from the document of the S3 API, so that both have the same
//! limits.

use std::sync::Arc;

use archipel_model::{
    Error, Expiration, Lifecycle, LifecycleFilter, LifecycleRule, NoncurrentExpiration,
};
use axum::extract::State;

use super::Admin;
use super::answer::{At, NoContent, Read, ReadRules, Refusal, check_time};
use super::buckets::find;
use super::precondition::{Precondition, Tag, Tagged};
use super::settings::{named, pairs, refused};
use super::types::{BucketLifecycle, BucketRule};
use crate::s3::lifecycle;

/// Shows the lifecycle rules of a bucket.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/lifecycle", tag = "buckets",
    operation_id = "get_bucket_lifecycle",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The rules", body = BucketLifecycle)),
)]
pub(super) async fn show(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Tagged<BucketLifecycle>, Refusal> {
    let bucket = find(&admin, &name).await?;
    Ok(tagged(bucket.lifecycle.as_ref()))
}

/// Replaces the lifecycle rules of a bucket.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/lifecycle", tag = "buckets",
    operation_id = "set_bucket_lifecycle",
    params(("name" = String, Path, description = "The bucket"), Precondition),
    request_body = BucketLifecycle,
    responses((status = 200, description = "The rules", body = BucketLifecycle)),
)]
pub(super) async fn set(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    condition: Precondition,
    Read(set): ReadRules<BucketLifecycle>,
) -> Result<Tagged<BucketLifecycle>, Refusal> {
    if !(1..=lifecycle::MAX_RULES).contains(&set.rules.len()) {
        let most = lifecycle::MAX_RULES;
        let why = format!("rules: give 1 to {most}, or delete them");
        return Err(Refusal::invalid(why));
    }
    let rules: Vec<_> = set.rules.iter().map(rule).collect::<Result<_, _>>()?;
    let asked = Lifecycle {
        rules,
        minimum_size_varies: false,
    };
    let document = lifecycle::document(&asked).finish();
    let checked = lifecycle::parse(&document).map_err(|error| refused(&error))?;
    let bucket = find(&admin, &name).await?;
    let test = |now: Option<&Lifecycle>| condition.admits(now.map(Tag::of));
    let model = &admin.model;
    let stored = model.set_lifecycle_if(&bucket, Some(checked), test).await;
    let changed = stored.map_err(|error| match error {
        Error::TooLarge => Refusal::invalid("rules: they are too large"),
        error => condition.refusal(error),
    })?;
    Ok(tagged(changed.lifecycle.as_ref()))
}

/// Describes rules, with the tag of all that the S3 API has set of them.
fn tagged(lifecycle: Option<&Lifecycle>) -> Tagged<BucketLifecycle> {
    let rules = lifecycle.iter().flat_map(|lifecycle| &lifecycle.rules);
    let rules = BucketLifecycle {
        rules: rules.map(describe_rule).collect(),
    };
    Tagged(rules, lifecycle.map(Tag::of))
}

/// Deletes the lifecycle rules of a bucket.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}/lifecycle", tag = "buckets",
    operation_id = "delete_bucket_lifecycle",
    params(("name" = String, Path, description = "The bucket"), Precondition),
    responses((status = 204, description = "The bucket has no rules")),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    condition: Precondition,
) -> Result<NoContent, Refusal> {
    let bucket = find(&admin, &name).await?;
    let test = |now: Option<&Lifecycle>| condition.admits(now.map(Tag::of));
    let removed = admin.model.set_lifecycle_if(&bucket, None, test).await;
    removed.map_err(|error| condition.refusal(error))?;
    Ok(NoContent)
}

fn rule(asked: &BucketRule) -> Result<LifecycleRule, Refusal> {
    let refuse = |why: &str| Err(Refusal::invalid(format!("rule '{}': {why}", asked.id)));
    if let Some(at_ms) = asked.expire_at_ms {
        check_time("expire_at_ms", at_ms)?;
    }
    let expiration = match (asked.expire_days, asked.expire_at_ms, asked.expire_markers) {
        (None, None, None) => None,
        (Some(days), None, None) => Some(Expiration::Days(days)),
        (None, Some(at_ms), None) => Some(Expiration::Date(at_ms)),
        (None, None, Some(on)) => Some(Expiration::DeleteMarkers(on)),
        _ => return refuse("give one of expire_days, expire_at_ms and expire_markers"),
    };
    let noncurrent = match (asked.noncurrent_days, asked.noncurrent_keep) {
        (Some(days), keep) => Some(NoncurrentExpiration { days, keep }),
        (None, None) => None,
        (None, Some(_)) => return refuse("noncurrent_keep needs noncurrent_days"),
    };
    Ok(LifecycleRule {
        id: asked.id.clone(),
        enabled: !asked.disabled,
        filter: LifecycleFilter {
            old_form: false,
            prefix: asked.prefix.clone(),
            tags: pairs(&asked.tags),
            larger_than: asked.larger_than,
            smaller_than: asked.smaller_than,
        },
        expiration,
        noncurrent,
        abort_days: asked.abort_days,
    })
}

fn describe_rule(rule: &LifecycleRule) -> BucketRule {
    let filter = &rule.filter;
    let mut info = BucketRule {
        id: rule.id.clone(),
        disabled: !rule.enabled,
        prefix: filter.prefix.clone(),
        tags: named(&filter.tags),
        larger_than: filter.larger_than,
        smaller_than: filter.smaller_than,
        noncurrent_days: rule.noncurrent.map(|noncurrent| noncurrent.days),
        noncurrent_keep: rule.noncurrent.and_then(|noncurrent| noncurrent.keep),
        abort_days: rule.abort_days,
        ..BucketRule::default()
    };
    match rule.expiration {
        Some(Expiration::Days(days)) => info.expire_days = Some(days),
        Some(Expiration::Date(at_ms)) => info.expire_at_ms = Some(at_ms),
        Some(Expiration::DeleteMarkers(on)) => info.expire_markers = Some(on),
        None => {}
    }
    info
}

//! Settings of buckets: versions, object lock, tags and lifecycle rules.
//!
//! Tags and rules are read back from the documents of the S3 API, so that both have the same limits.

use std::sync::Arc;

use archipel_model::{
    Bucket, BucketLock, DefaultRetention, Error, Expiration, Lifecycle, LifecycleFilter,
    LifecycleRule, MAX_RETENTION_DAYS, NoncurrentExpiration, RetentionMode, RetentionPeriod, Tags,
    Usage, Versioning,
};
use axum::extract::State;

use super::Admin;
use super::answer::{At, Json, NoContent, Read, ReadRules, Refusal};
use super::buckets::find;
use super::types::{
    BucketLifecycle, BucketLockInfo, BucketRule, BucketTags, BucketVersioning, LockMode, NameValue,
    Quota, QuotaUse, VersioningState,
};
use crate::s3::error::{Code, S3Error};
use crate::s3::{lifecycle, tagging};

/// Shows whether a bucket keeps versions.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/versioning", tag = "buckets", operation_id = "get_versioning",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The state", body = BucketVersioning)),
)]
pub(super) async fn versioning(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<BucketVersioning>, Refusal> {
    Ok(Json(describe_versioning(&*find(&admin, &name).await?)))
}

/// Enables or suspends versioning. It counts for every write that begins after the answer.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/versioning", tag = "buckets", operation_id = "set_versioning",
    params(("name" = String, Path, description = "The bucket")),
    request_body = BucketVersioning,
    responses((status = 200, description = "The state", body = BucketVersioning)),
)]
pub(super) async fn set_versioning(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<BucketVersioning>,
) -> Result<Json<BucketVersioning>, Refusal> {
    let versioning = match set.state {
        VersioningState::Enabled => Versioning::Enabled,
        VersioningState::Suspended => Versioning::Suspended,
        VersioningState::Never => {
            let why = "state: versioning can be enabled and suspended, but it never ends";
            return Err(Refusal::invalid(why));
        }
    };
    let bucket = find(&admin, &name).await?;
    let changed = admin.model.set_versioning(&bucket, versioning);
    Ok(Json(describe_versioning(&*changed.await?)))
}

fn describe_versioning(bucket: &Bucket) -> BucketVersioning {
    let state = match bucket.versioning {
        Versioning::Never => VersioningState::Never,
        Versioning::Enabled => VersioningState::Enabled,
        Versioning::Suspended => VersioningState::Suspended,
    };
    BucketVersioning { state }
}

/// Shows the object lock of a bucket.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/lock", tag = "buckets", operation_id = "get_lock",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The object lock", body = BucketLockInfo)),
)]
pub(super) async fn lock(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<BucketLockInfo>, Refusal> {
    Ok(Json(describe_lock(&*find(&admin, &name).await?)))
}

/// Enables object lock, and sets the retention that new versions get. Needs a bucket with versioning
/// enabled.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/lock", tag = "buckets", operation_id = "set_lock",
    params(("name" = String, Path, description = "The bucket")),
    request_body = BucketLockInfo,
    responses((status = 200, description = "The object lock", body = BucketLockInfo)),
)]
pub(super) async fn set_lock(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<BucketLockInfo>,
) -> Result<Json<BucketLockInfo>, Refusal> {
    if !set.enabled {
        let why = "enabled: object lock cannot be taken back";
        return Err(Refusal::invalid(why));
    }
    let period = match (set.days, set.years) {
        (None, None) => None,
        (Some(days), None) => Some(RetentionPeriod::Days(days)),
        (None, Some(years)) => Some(RetentionPeriod::Years(years)),
        _ => return Err(Refusal::invalid("give days or years, not both")),
    };
    let default = match (set.mode, period) {
        (None, None) => None,
        (Some(mode), Some(period)) => {
            if !(1..=MAX_RETENTION_DAYS).contains(&period.days()) {
                return Err(Refusal::invalid("a retention lasts 1 day to 100 years"));
            }
            let mode = match mode {
                LockMode::Governance => RetentionMode::Governance,
                LockMode::Compliance => RetentionMode::Compliance,
            };
            Some(DefaultRetention { mode, period })
        }
        _ => {
            return Err(Refusal::invalid(
                "mode needs days or years, and they need mode",
            ));
        }
    };
    let lock = BucketLock { default };
    let bucket = find(&admin, &name).await?;
    let changed = admin.model.set_bucket_lock(&bucket, lock);
    Ok(Json(describe_lock(&*changed.await?)))
}

fn describe_lock(bucket: &Bucket) -> BucketLockInfo {
    let Some(lock) = &bucket.lock else {
        return BucketLockInfo::default();
    };
    let mut info = BucketLockInfo {
        enabled: true,
        ..BucketLockInfo::default()
    };
    if let Some(default) = lock.default {
        info.mode = Some(match default.mode {
            RetentionMode::Governance => LockMode::Governance,
            RetentionMode::Compliance => LockMode::Compliance,
        });
        match default.period {
            RetentionPeriod::Days(days) => info.days = Some(days),
            RetentionPeriod::Years(years) => info.years = Some(years),
        }
    }
    info
}

/// Shows the quota of a bucket, and what is used of it.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/quota", tag = "buckets", operation_id = "get_bucket_quota",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The quota", body = QuotaUse)),
)]
pub(super) async fn quota(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<QuotaUse>, Refusal> {
    describe_quota(&admin, &*find(&admin, &name).await?)
        .await
        .map(Json)
}

/// Replaces the quota of a bucket. It counts for every write that begins after the answer. A bucket
/// that holds more keeps it.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/quota", tag = "buckets", operation_id = "set_bucket_quota",
    params(("name" = String, Path, description = "The bucket")),
    request_body = Quota,
    responses((status = 200, description = "The quota", body = QuotaUse)),
)]
pub(super) async fn set_quota(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<Quota>,
) -> Result<Json<QuotaUse>, Refusal> {
    let bucket = admin.model.set_quota(&name, set.into()).await?;
    describe_quota(&admin, &bucket).await.map(Json)
}

async fn describe_quota(admin: &Admin, bucket: &Bucket) -> Result<QuotaUse, Refusal> {
    let usage = admin.model.bucket_usage(bucket).await?;
    Ok(quota_use(bucket.quota, usage))
}

/// Shows a quota beside what is used of it.
pub(super) fn quota_use(quota: Option<archipel_model::Quota>, usage: Usage) -> QuotaUse {
    QuotaUse {
        quota: quota.unwrap_or_default().into(),
        bytes: usage.bytes,
        objects: usage.objects,
    }
}

impl From<archipel_model::Quota> for Quota {
    fn from(quota: archipel_model::Quota) -> Quota {
        Quota {
            bytes: quota.bytes,
            objects: quota.objects,
        }
    }
}

impl From<Quota> for archipel_model::Quota {
    fn from(quota: Quota) -> archipel_model::Quota {
        archipel_model::Quota {
            objects: quota.objects,
            bytes: quota.bytes,
        }
    }
}

/// Shows the tags of a bucket.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/tags", tag = "buckets", operation_id = "get_bucket_tags",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The tags", body = BucketTags)),
)]
pub(super) async fn tags(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<BucketTags>, Refusal> {
    Ok(Json(BucketTags {
        tags: named(&find(&admin, &name).await?.tags),
    }))
}

/// Replaces the tags of a bucket.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/tags", tag = "buckets", operation_id = "set_bucket_tags",
    params(("name" = String, Path, description = "The bucket")),
    request_body = BucketTags,
    responses((status = 200, description = "The tags", body = BucketTags)),
)]
pub(super) async fn set_tags(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<BucketTags>,
) -> Result<Json<BucketTags>, Refusal> {
    let document = tagging::document(&pairs(&set.tags)).finish();
    let tags = tagging::of_bucket(&document).map_err(|error| refused(&error))?;
    let bucket = find(&admin, &name).await?;
    admin.model.set_bucket_tags(&bucket, tags.clone()).await?;
    Ok(Json(BucketTags { tags: named(&tags) }))
}

fn named(tags: &Tags) -> Vec<NameValue> {
    let named = |(name, value): &(String, String)| NameValue {
        name: name.clone(),
        value: value.clone(),
    };
    tags.iter().map(named).collect()
}

fn pairs(tags: &[NameValue]) -> Tags {
    let pair = |tag: &NameValue| (tag.name.clone(), tag.value.clone());
    tags.iter().map(pair).collect()
}

/// Shows the lifecycle rules of a bucket.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/lifecycle", tag = "buckets",
    operation_id = "get_bucket_lifecycle",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The rules", body = BucketLifecycle)),
)]
pub(super) async fn rules(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<BucketLifecycle>, Refusal> {
    Ok(Json(describe_rules(&*find(&admin, &name).await?)))
}

/// Replaces the lifecycle rules of a bucket.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/lifecycle", tag = "buckets",
    operation_id = "set_bucket_lifecycle",
    params(("name" = String, Path, description = "The bucket")),
    request_body = BucketLifecycle,
    responses((status = 200, description = "The rules", body = BucketLifecycle)),
)]
pub(super) async fn set_rules(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): ReadRules<BucketLifecycle>,
) -> Result<Json<BucketLifecycle>, Refusal> {
    if set.rules.is_empty() {
        return Err(Refusal::invalid("rules: give at least one, or delete them"));
    }
    let rules: Vec<_> = set.rules.iter().map(rule).collect::<Result<_, _>>()?;
    let asked = Lifecycle {
        rules,
        minimum_size_varies: false,
    };
    let document = lifecycle::document(&asked).finish();
    let checked = lifecycle::parse(&document).map_err(|error| refused(&error))?;
    let bucket = find(&admin, &name).await?;
    let stored = admin.model.set_lifecycle(&bucket, Some(checked)).await;
    let changed = stored.map_err(|error| match error {
        Error::TooLarge => Refusal::invalid("rules: they are too large"),
        error => error.into(),
    })?;
    Ok(Json(describe_rules(&changed)))
}

fn describe_rules(bucket: &Bucket) -> BucketLifecycle {
    let rules = bucket.lifecycle.iter().flat_map(|all| &all.rules);
    BucketLifecycle {
        rules: rules.map(describe_rule).collect(),
    }
}

/// Deletes the lifecycle rules of a bucket.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}/lifecycle", tag = "buckets",
    operation_id = "delete_bucket_lifecycle",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 204, description = "The bucket has no rules")),
)]
pub(super) async fn delete_rules(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<NoContent, Refusal> {
    let bucket = find(&admin, &name).await?;
    admin.model.set_lifecycle(&bucket, None).await?;
    Ok(NoContent)
}

fn rule(asked: &BucketRule) -> Result<LifecycleRule, Refusal> {
    let refuse = |why: &str| Err(Refusal::invalid(format!("rule '{}': {why}", asked.id)));
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

/// Checks that a document of the S3 API says what was asked for: it cannot hold control characters.
pub(super) fn same<T: PartialEq>(asked: &T, read: &T) -> Result<(), Refusal> {
    match asked == read {
        true => Ok(()),
        false => Err(Refusal::invalid("text with control characters")),
    }
}

/// Says what the S3 API finds wrong.
pub(super) fn refused(error: &S3Error) -> Refusal {
    match error.code() {
        Code::MalformedXML => Refusal::invalid("text with control characters, or a wrong number"),
        _ => Refusal::invalid(error.message()),
    }
}

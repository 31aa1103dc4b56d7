//! The CORS rules of buckets. The rules of the S3 API apply: what is asked for is read back from
//! its document.

use std::sync::Arc;

use archipel_model::CorsRule as StoredRule;
use axum::extract::State;

use super::Admin;
use super::answer::{At, NoContent, Read, ReadRules, Refusal};
use super::buckets::find;
use super::precondition::{Precondition, Tag, Tagged};
use super::settings::{refused, same};
use super::types::{BucketCors, CorsRule};
use crate::s3::cors;

/// Shows the CORS rules of a bucket: what scripts from other sites may do.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/cors", tag = "buckets", operation_id = "get_bucket_cors",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The rules", body = BucketCors)),
)]
pub(super) async fn show(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Tagged<BucketCors>, Refusal> {
    let bucket = find(&admin, &name).await?;
    Ok(tagged(&bucket.cors))
}

/// Replaces the CORS rules of a bucket.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/cors", tag = "buckets", operation_id = "set_bucket_cors",
    params(("name" = String, Path, description = "The bucket"), Precondition),
    request_body = BucketCors,
    responses((status = 200, description = "The rules", body = BucketCors)),
)]
pub(super) async fn set(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    condition: Precondition,
    Read(set): ReadRules<BucketCors>,
) -> Result<Tagged<BucketCors>, Refusal> {
    if !(1..=cors::MAX_RULES).contains(&set.rules.len()) {
        let why = format!("rules: give 1 to {}, or delete them", cors::MAX_RULES);
        return Err(Refusal::invalid(why));
    }
    let lacks = |rule: &CorsRule| rule.origins.is_empty() || rule.methods.is_empty();
    if set.rules.iter().any(lacks) {
        let why = "each rule needs at least one of origins and one of methods";
        return Err(Refusal::invalid(why));
    }
    let mut ids = set.rules.iter().filter_map(|rule| rule.id.as_ref());
    if ids.any(|id| id.len() > cors::MAX_ID_BYTES) {
        let why = format!("id: a rule's id has at most {} bytes", cors::MAX_ID_BYTES);
        return Err(Refusal::invalid(why));
    }
    let rules: Vec<_> = set.rules.into_iter().map(rule).collect();
    let document = cors::document(&rules).finish();
    let checked = cors::parse(&document).map_err(|error| refused(&error))?;
    same(&rules, &checked)?;
    let bucket = find(&admin, &name).await?;
    let test = |now: &[StoredRule]| condition.admits(tag(now));
    let changed = admin.model.set_cors_if(&bucket, checked, test).await;
    let changed = changed.map_err(|error| condition.refusal(error))?;
    Ok(tagged(&changed.cors))
}

/// Deletes the CORS rules of a bucket: scripts from other sites may do nothing.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}/cors", tag = "buckets", operation_id = "delete_bucket_cors",
    params(("name" = String, Path, description = "The bucket"), Precondition),
    responses((status = 204, description = "The bucket has no rules")),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    condition: Precondition,
) -> Result<NoContent, Refusal> {
    let bucket = find(&admin, &name).await?;
    let test = |now: &[StoredRule]| condition.admits(tag(now));
    let removed = admin.model.set_cors_if(&bucket, Vec::new(), test).await;
    removed.map_err(|error| condition.refusal(error))?;
    Ok(NoContent)
}

/// Returns the tag of the rules of a bucket; `None` if it has none.
fn tag(rules: &[StoredRule]) -> Option<Tag> {
    (!rules.is_empty()).then(|| Tag::of(rules))
}

fn rule(asked: CorsRule) -> StoredRule {
    StoredRule {
        id: asked.id,
        allowed_origins: asked.origins,
        allowed_methods: asked.methods,
        allowed_headers: asked.headers,
        expose_headers: asked.expose_headers,
        max_age_seconds: asked.max_age_seconds,
    }
}

fn tagged(stored: &[StoredRule]) -> Tagged<BucketCors> {
    let rules = stored.iter().cloned().map(|rule| CorsRule {
        id: rule.id,
        origins: rule.allowed_origins,
        methods: rule.allowed_methods,
        headers: rule.allowed_headers,
        expose_headers: rule.expose_headers,
        max_age_seconds: rule.max_age_seconds,
    });
    let rules = BucketCors {
        rules: rules.collect(),
    };
    Tagged(rules, tag(stored))
}

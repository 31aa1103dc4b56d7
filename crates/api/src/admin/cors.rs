//! The CORS rules of buckets. The rules of the S3 API apply: what is asked for is read back from its
//! document.

use std::sync::Arc;

use axum::extract::State;

use super::Admin;
use super::answer::{At, Json, NoContent, Read, ReadRules, Refusal};
use super::buckets::find;
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
) -> Result<Json<BucketCors>, Refusal> {
    let bucket = find(&admin, &name).await?;
    Ok(Json(describe(&bucket.cors)))
}

/// Replaces the CORS rules of a bucket.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/cors", tag = "buckets", operation_id = "set_bucket_cors",
    params(("name" = String, Path, description = "The bucket")),
    request_body = BucketCors,
    responses((status = 200, description = "The rules", body = BucketCors)),
)]
pub(super) async fn set(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): ReadRules<BucketCors>,
) -> Result<Json<BucketCors>, Refusal> {
    if !(1..=cors::MAX_RULES).contains(&set.rules.len()) {
        let why = format!("rules: give 1 to {}, or delete them", cors::MAX_RULES);
        return Err(Refusal::invalid(why));
    }
    let lacks = |rule: &CorsRule| rule.origins.is_empty() || rule.methods.is_empty();
    if set.rules.iter().any(lacks) {
        let why = "each rule needs at least one of origins and one of methods";
        return Err(Refusal::invalid(why));
    }
    let rules: Vec<_> = set.rules.into_iter().map(rule).collect();
    let document = cors::document(&rules).finish();
    let checked = cors::parse(&document).map_err(|error| refused(&error))?;
    same(&rules, &checked)?;
    let bucket = find(&admin, &name).await?;
    let changed = admin.model.set_cors(&bucket, checked).await?;
    Ok(Json(describe(&changed.cors)))
}

/// Deletes the CORS rules of a bucket: scripts from other sites may do nothing.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}/cors", tag = "buckets", operation_id = "delete_bucket_cors",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 204, description = "The bucket has no rules")),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<NoContent, Refusal> {
    let bucket = find(&admin, &name).await?;
    admin.model.set_cors(&bucket, Vec::new()).await?;
    Ok(NoContent)
}

fn rule(asked: CorsRule) -> archipel_model::CorsRule {
    archipel_model::CorsRule {
        id: asked.id,
        allowed_origins: asked.origins,
        allowed_methods: asked.methods,
        allowed_headers: asked.headers,
        expose_headers: asked.expose_headers,
        max_age_seconds: asked.max_age_seconds,
    }
}

fn describe(rules: &[archipel_model::CorsRule]) -> BucketCors {
    let rules = rules.iter().cloned().map(|rule| CorsRule {
        id: rule.id,
        origins: rule.allowed_origins,
        methods: rule.allowed_methods,
        headers: rule.allowed_headers,
        expose_headers: rule.expose_headers,
        max_age_seconds: rule.max_age_seconds,
    });
    BucketCors {
        rules: rules.collect(),
    }
}

//! The websites of buckets. The rules of the S3 API apply: what is asked for is read back from its
//! document.

use std::sync::Arc;

use archipel_model::website::{Pages, Redirect, RedirectAll, RoutingRule};
use archipel_model::{Bucket, Website};
use axum::extract::State;
use http::StatusCode;

use super::Admin;
use super::answer::{At, Json, NoContent, Read, ReadRules, Refusal};
use super::buckets::find;
use super::settings::{refused, same};
use super::types::{SetWebsite, WebsiteInfo, WebsiteRedirect, WebsiteRule};
use crate::s3::website;

/// Shows a bucket's website.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/website", tag = "buckets", operation_id = "get_website",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The website", body = WebsiteInfo)),
)]
pub(super) async fn show(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<WebsiteInfo>, Refusal> {
    describe(&*find(&admin, &name).await?).map(Json)
}

/// Ends a bucket's website. Its objects stay.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}/website", tag = "buckets", operation_id = "delete_website",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 204, description = "The bucket is no website")),
)]
pub(super) async fn end(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<NoContent, Refusal> {
    let bucket = find(&admin, &name).await?;
    admin.model.set_website(&bucket, |_| None).await?;
    Ok(NoContent)
}

/// Makes a bucket a website: its objects are pages, or all requests are redirected to another host.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/website", tag = "buckets", operation_id = "set_website",
    params(("name" = String, Path, description = "The bucket")),
    request_body = SetWebsite,
    responses((status = 200, description = "The website", body = WebsiteInfo)),
)]
pub(super) async fn set(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): ReadRules<SetWebsite>,
) -> Result<Json<WebsiteInfo>, Refusal> {
    let keeps_rules = set.rules.is_none();
    let asked = website(set)?;
    let document = website::document(&asked).finish();
    let checked = website::parse(&document).map_err(|error| refused(&error))?;
    same(&asked, &checked)?;
    let change = move |now: Option<&Website>| {
        let mut new = checked.clone();
        if let (Website::Pages(new), Some(Website::Pages(old))) = (&mut new, now)
            && keeps_rules
        {
            new.rules.clone_from(&old.rules);
        }
        Some(new)
    };
    let bucket = find(&admin, &name).await?;
    describe(&*admin.model.set_website(&bucket, change).await?).map(Json)
}

fn website(set: SetWebsite) -> Result<Website, Refusal> {
    match (set.index, set.redirect) {
        (Some(index), None) => Ok(Website::Pages(Pages {
            index,
            error: set.error,
            rules: set.rules.into_iter().flatten().map(rule).collect(),
        })),
        (None, Some(all)) if set.error.is_none() && set.rules.is_none() => {
            Ok(Website::Redirect(RedirectAll {
                host: all.host,
                protocol: all.protocol,
            }))
        }
        _ => Err(Refusal::invalid(
            "give index, with error and rules if you like, or redirect alone",
        )),
    }
}

fn rule(asked: WebsiteRule) -> RoutingRule {
    RoutingRule {
        key_prefix: asked.key_prefix,
        error_status: asked.error_status,
        redirect: Redirect {
            host: asked.host,
            protocol: asked.protocol,
            status: asked.status,
            key: asked.replace_key,
            key_prefix: asked.replace_prefix,
        },
    }
}

fn describe(bucket: &Bucket) -> Result<WebsiteInfo, Refusal> {
    let mut info = WebsiteInfo {
        bucket: bucket.name.clone(),
        index: None,
        error: None,
        rules: Vec::new(),
        redirect: None,
    };
    match &bucket.website {
        Some(Website::Pages(pages)) => {
            info.index = Some(pages.index.clone());
            info.error = pages.error.clone();
            info.rules = pages.rules.iter().cloned().map(describe_rule).collect();
        }
        Some(Website::Redirect(all)) => {
            info.redirect = Some(WebsiteRedirect {
                host: all.host.clone(),
                protocol: all.protocol.clone(),
            });
        }
        None => {
            let message = format!("the bucket {} is no website", bucket.name);
            return Err(Refusal::new(
                StatusCode::NOT_FOUND,
                "NoSuchWebsite",
                message,
            ));
        }
    }
    Ok(info)
}

fn describe_rule(rule: RoutingRule) -> WebsiteRule {
    let redirect = rule.redirect;
    WebsiteRule {
        key_prefix: rule.key_prefix,
        error_status: rule.error_status,
        host: redirect.host,
        protocol: redirect.protocol,
        status: redirect.status,
        replace_key: redirect.key,
        replace_prefix: redirect.key_prefix,
    }
}

//! Buckets, their names, grants and websites.

use std::sync::Arc;

use archipel_model::website::Pages;
use archipel_model::{Bucket, Error, GrantChange, Permissions, Website};
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{At, Created, Json, NoContent, Query, Read, Refusal};
use super::page::page;
use super::settings::quota_of;
use super::types::{
    AddAlias, BucketInfo, BucketSummary, ChangeGrant, CreateBucket, Grant, NameOfKey, Page,
    SetWebsite, WebsiteInfo,
};

/// Which buckets to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListBuckets {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only buckets after this name: the `next` of the former page.
    after: Option<String>,
    /// Only buckets whose name begins so.
    prefix: Option<String>,
}

/// Lists buckets, by name.
#[utoipa::path(
    get, path = "/v1/buckets", tag = "buckets", operation_id = "list_buckets",
    params(ListBuckets),
    responses((status = 200, description = "Buckets", body = Page<BucketSummary>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListBuckets>,
) -> Result<Json<Page<BucketSummary>>, Refusal> {
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let buckets = admin.model.buckets()?.into_iter();
    let buckets = buckets.filter(|bucket| bucket.name.starts_with(prefix));
    let part = page(buckets, |b| &b.name, query.limit, query.after.as_deref())?;
    let items = part.items.iter().map(|bucket| {
        Ok(BucketSummary {
            name: bucket.name.clone(),
            created_ms: bucket.created_ms,
            grants: admin.model.grants_of(bucket)?.len(),
        })
    });
    Ok(Json(Page {
        items: items.collect::<Result<_, Error>>()?,
        next: part.next,
    }))
}

/// Creates a bucket.
#[utoipa::path(
    post, path = "/v1/buckets", tag = "buckets", operation_id = "create_bucket",
    request_body = CreateBucket,
    responses((status = 201, description = "The new bucket", body = BucketInfo)),
)]
pub(super) async fn create(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<CreateBucket>,
) -> Result<Created<BucketInfo>, Refusal> {
    let bucket = admin
        .model
        .create_bucket(&ask.name, ask.owner.as_deref())
        .await?;
    Ok(Created(describe(&admin, &bucket).await?))
}

/// Shows a bucket's contents and the access keys that may use it.
#[utoipa::path(
    get, path = "/v1/buckets/{name}", tag = "buckets", operation_id = "get_bucket",
    params(("name" = String, Path, description = "The bucket: its name or an alias")),
    responses((status = 200, description = "The bucket", body = BucketInfo)),
)]
pub(super) async fn info(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<BucketInfo>, Refusal> {
    let bucket = find(&admin, &name).await?;
    Ok(Json(describe(&admin, &bucket).await?))
}

/// Deletes an empty bucket.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}", tag = "buckets", operation_id = "delete_bucket",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 204, description = "It is deleted")),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<NoContent, Refusal> {
    admin.model.delete_bucket(&name).await?;
    Ok(NoContent)
}

/// Returns the bucket of that name.
pub(super) async fn find(admin: &Admin, name: &str) -> Result<Arc<Bucket>, Refusal> {
    let bucket = admin.model.find_bucket(name).await?;
    Ok(bucket.ok_or(Error::NoSuchBucket)?)
}

async fn describe(admin: &Admin, bucket: &Bucket) -> Result<BucketInfo, Refusal> {
    let usage = admin.model.bucket_usage(bucket).await?;
    let grants = admin.model.grants_of(bucket)?.into_iter();
    let mut names_of_keys = Vec::new();
    for key in admin.model.access_keys()? {
        let own = key.names.iter().filter(|(_, alias)| alias.id == bucket.id);
        names_of_keys.extend(own.map(|(name, _)| NameOfKey {
            key: key.id.clone(),
            name: name.clone(),
        }));
    }
    Ok(BucketInfo {
        aliases: admin.model.aliases_of(bucket)?,
        names_of_keys,
        id: bucket.id.to_string(),
        name: bucket.name.clone(),
        created_ms: bucket.created_ms,
        objects: usage.objects,
        bytes: usage.bytes,
        quota: quota_of(bucket),
        grants: grants
            .map(|(key, permissions)| grant(&bucket.name, &key.id, permissions))
            .collect(),
    })
}

/// Gives a bucket a further name, for everybody or for one access key.
#[utoipa::path(
    post, path = "/v1/buckets/{name}/aliases", tag = "buckets", operation_id = "add_alias",
    params(("name" = String, Path, description = "The bucket")),
    request_body = AddAlias,
    responses((status = 200, description = "The bucket", body = BucketInfo)),
)]
pub(super) async fn add_alias(
    State(admin): State<Arc<Admin>>,
    At(bucket): At<String>,
    Read(ask): Read<AddAlias>,
) -> Result<Json<BucketInfo>, Refusal> {
    let named = match &ask.key {
        None => admin.model.add_alias(&bucket, &ask.name).await?,
        Some(key) => admin.model.add_name_of_key(&bucket, key, &ask.name).await?,
    };
    Ok(Json(describe(&admin, &named).await?))
}

/// Whose name to take away.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OfKey {
    /// The access key for which alone the name counts. Absent: the name that counts for everybody.
    key: Option<String>,
}

/// Takes a further name of a bucket away.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}/aliases/{alias}", tag = "buckets", operation_id = "remove_alias",
    params(
        ("name" = String, Path, description = "The bucket"),
        ("alias" = String, Path, description = "The further name"),
        OfKey,
    ),
    responses((status = 204, description = "The name is free")),
)]
pub(super) async fn remove_alias(
    State(admin): State<Arc<Admin>>,
    At((bucket, name)): At<(String, String)>,
    Query(of): Query<OfKey>,
) -> Result<NoContent, Refusal> {
    match &of.key {
        None => admin.model.remove_alias(&bucket, &name).await?,
        Some(key) => admin.model.remove_name_of_key(&bucket, key, &name).await?,
    };
    Ok(NoContent)
}

/// Shows a bucket's website.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/website", tag = "buckets", operation_id = "get_website",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The website", body = WebsiteInfo)),
)]
pub(super) async fn website(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<WebsiteInfo>, Refusal> {
    describe_website(&*find(&admin, &name).await?).map(Json)
}

/// Ends a bucket's website. Its objects stay.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}/website", tag = "buckets", operation_id = "delete_website",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 204, description = "The bucket is no website")),
)]
pub(super) async fn end_website(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<NoContent, Refusal> {
    admin.model.set_website(&name, |_| None).await?;
    Ok(NoContent)
}

/// Makes a bucket a website. Routing rules stay: only the S3 API changes them.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/website", tag = "buckets", operation_id = "set_website",
    params(("name" = String, Path, description = "The bucket")),
    request_body = SetWebsite,
    responses((status = 200, description = "The website", body = WebsiteInfo)),
)]
pub(super) async fn set_website(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<SetWebsite>,
) -> Result<Json<WebsiteInfo>, Refusal> {
    if set.index.is_empty() || set.index.contains('/') {
        return Err(Refusal::invalid(
            "index must be the name of a page without slash, such as index.html",
        ));
    }
    if set.error.as_deref() == Some("") {
        return Err(Refusal::invalid("error must be the key of a page"));
    }
    let change = move |now: Option<&Website>| {
        let rules = match now {
            Some(Website::Pages(pages)) => pages.rules.clone(),
            _ => Vec::new(),
        };
        Some(Website::Pages(Pages {
            index: set.index.clone(),
            error: set.error.clone(),
            rules,
        }))
    };
    describe_website(&*admin.model.set_website(&name, change).await?).map(Json)
}

fn describe_website(bucket: &Bucket) -> Result<WebsiteInfo, Refusal> {
    let mut info = WebsiteInfo {
        bucket: bucket.name.clone(),
        index: None,
        error: None,
        rules: 0,
        redirect: None,
    };
    match &bucket.website {
        Some(Website::Pages(pages)) => {
            info.index = Some(pages.index.clone());
            info.error = pages.error.clone();
            info.rules = pages.rules.len();
        }
        Some(Website::Redirect(all)) => {
            let scheme = all.protocol.as_ref().map(|protocol| format!("{protocol}:"));
            info.redirect = Some(format!("{}//{}", scheme.unwrap_or_default(), all.host));
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

/// Describes the permissions of `key` on `bucket`.
pub(super) fn grant(bucket: &str, key: &str, permissions: Permissions) -> Grant {
    Grant {
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        read: permissions.read,
        write: permissions.write,
        owner: permissions.owner,
    }
}

/// Changes the permissions of an access key on a bucket. What is absent stays as it is.
#[utoipa::path(
    patch, path = "/v1/buckets/{name}/grants/{key}", tag = "buckets", operation_id = "change_grant",
    params(
        ("name" = String, Path, description = "The bucket"),
        ("key" = String, Path, description = "The access key's id"),
    ),
    request_body = ChangeGrant,
    responses((status = 200, description = "The permissions after the change", body = Grant)),
)]
pub(super) async fn change_grant(
    State(admin): State<Arc<Admin>>,
    At((name, key)): At<(String, String)>,
    Read(change): Read<ChangeGrant>,
) -> Result<Json<Grant>, Refusal> {
    let change = GrantChange {
        read: change.read,
        write: change.write,
        owner: change.owner,
    };
    let (bucket, permissions) = admin.model.change_grant(&name, &key, change).await?;
    Ok(Json(grant(&bucket.name, &key, permissions)))
}

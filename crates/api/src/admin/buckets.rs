//! Buckets, their names and grants.

use std::sync::Arc;

use archipel_model::{AccessKey, Bucket, Error, GrantChange, Permissions};
use axum::Extension;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{At, Created, Json, NoContent, Query, Read, Refusal};
use super::auth::Caller;
use super::deletion::{Deletion, DryRun, Plan};
use super::page::page;
use super::types::{
    AddAlias, BucketInfo, BucketSummary, ChangeGrant, CreateBucket, Grant, NameOfKey, Page,
};
use super::{Admin, content};

/// The most incomplete uploads that are told of a bucket that is to be deleted.
const UPLOADS_OF_PLAN: usize = 20;

/// The filters of the list of buckets.
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
    let summary = |bucket: Arc<Bucket>| {
        Ok(BucketSummary {
            name: bucket.name.clone(),
            created_ms: bucket.created_ms,
            grants: admin.model.grants_of(&bucket)?.len(),
        })
    };
    part.try_map(summary).map(Json)
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
    let owner = ask.owner.as_deref();
    let created = admin.model.create_bucket(&ask.name, owner).await;
    let bucket = created.map_err(|error| Refusal::about(error, None, owner))?;
    Ok(Created(describe_new(&admin, &bucket, owner)))
}

/// Describes a bucket that was created just now. Nothing fails here: a client that hears of a failure tries
/// again, and is refused because the bucket exists.
fn describe_new(admin: &Admin, bucket: &Bucket, owner: Option<&str>) -> BucketInfo {
    let grants = match admin.model.grants_of(bucket) {
        Ok(grants) => shown(bucket, grants),
        // The owner may do everything.
        Err(_) => owner
            .map(|key| grant(&bucket.name, key, Permissions::ALL))
            .into_iter()
            .collect(),
    };
    BucketInfo {
        grants,
        ..empty(bucket)
    }
}

/// Describes a bucket that holds nothing, and that has no further names and no grants.
fn empty(bucket: &Bucket) -> BucketInfo {
    BucketInfo {
        aliases: Vec::new(),
        names_of_keys: Vec::new(),
        id: bucket.id.to_string(),
        name: bucket.name.clone(),
        created_ms: bucket.created_ms,
        objects: 0,
        bytes: 0,
        quota: bucket.quota.unwrap_or_default().into(),
        grants: Vec::new(),
    }
}

fn shown(bucket: &Bucket, grants: Vec<(Arc<AccessKey>, Permissions)>) -> Vec<Grant> {
    let grants = grants.into_iter();
    grants
        .map(|(key, permissions)| grant(&bucket.name, &key.id, permissions))
        .collect()
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
    params(("name" = String, Path, description = "The bucket"), DryRun),
    responses(Deletion),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Query(how): Query<DryRun>,
) -> Result<Deletion, Refusal> {
    if how.dry_run {
        return plan(&admin, &name).await;
    }
    let bucket = find(&admin, &name).await?;
    admin.model.delete_bucket(&bucket).await?;
    Ok(Deletion::Done)
}

async fn plan(admin: &Admin, name: &str) -> Result<Deletion, Refusal> {
    let bucket = find(admin, name).await?;
    let info = describe(admin, &bucket).await?;
    let mut obstacle = None;
    if !admin.model.is_empty(&bucket).await? {
        let (objects, bytes) = (info.objects, info.bytes);
        obstacle = Some(format!(
            "it is not empty: {objects} objects and versions with {bytes} bytes; delete markers and \
             K2V items are not counted"
        ));
    }
    let of_keys = info.names_of_keys.iter();
    let of_keys: Vec<String> = of_keys
        .map(|name| format!("{} of {}", name.name, name.key))
        .collect();
    let grants: Vec<String> = info.grants.into_iter().map(|grant| grant.key).collect();
    let (uploads, more) = content::part(admin, &bucket, "", None, UPLOADS_OF_PLAN).await?;
    let mut keys: Vec<String> = uploads.into_iter().map(|upload| upload.key).collect();
    keys.extend(more.then(|| "...".to_owned()));
    Ok(Plan::default()
        .blocked(obstacle)
        .takes("aliases", &info.aliases)
        .takes("names for single keys", &of_keys)
        .takes("permissions of keys", &grants)
        .takes("incomplete uploads", &keys)
        .finish())
}

/// Returns the bucket of that name.
pub(super) async fn find(admin: &Admin, name: &str) -> Result<Arc<Bucket>, Refusal> {
    let bucket = admin.model.find_bucket(name).await?;
    bucket.ok_or_else(|| Refusal::of_bucket(Error::NoSuchBucket, name))
}

async fn describe(admin: &Admin, bucket: &Bucket) -> Result<BucketInfo, Refusal> {
    let usage = admin.model.bucket_usage(bucket).await?;
    let grants = shown(bucket, admin.model.grants_of(bucket)?);
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
        objects: usage.objects,
        bytes: usage.bytes,
        grants,
        ..empty(bucket)
    })
}

/// Checks that the caller may change what names stand for. A token for one bucket may not: it could
/// take names that others use, and a name of a key alone comes before the names of other buckets.
fn check_names(caller: &Caller, key: Option<&str>) -> Result<(), Refusal> {
    caller.check_all_of("buckets")?;
    match key {
        Some(_) => caller.check_all_of("keys"),
        None => Ok(()),
    }
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
    Extension(caller): Extension<Caller>,
    At(bucket): At<String>,
    Read(ask): Read<AddAlias>,
) -> Result<Json<BucketInfo>, Refusal> {
    check_names(&caller, ask.key.as_deref())?;
    let key = ask.key.as_deref();
    let named = match key {
        None => admin.model.add_alias(&bucket, &ask.name).await,
        Some(key) => admin.model.add_name_of_key(&bucket, key, &ask.name).await,
    };
    let named = named.map_err(|error| Refusal::about(error, Some(&bucket), key))?;
    Ok(Json(describe(&admin, &named).await?))
}

/// The query of the removal of a name.
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
    Extension(caller): Extension<Caller>,
    At((bucket, name)): At<(String, String)>,
    Query(of): Query<OfKey>,
) -> Result<NoContent, Refusal> {
    check_names(&caller, of.key.as_deref())?;
    let key = of.key.as_deref();
    let removed = match key {
        None => admin.model.remove_alias(&bucket, &name).await,
        Some(key) => admin.model.remove_name_of_key(&bucket, key, &name).await,
    };
    removed.map_err(|error| Refusal::about(error, Some(&bucket), key))?;
    Ok(NoContent)
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

/// Changes the permissions of an access key on a bucket. Absent fields change nothing.
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
    let changed = admin.model.change_grant(&name, &key, change).await;
    let (bucket, permissions) =
        changed.map_err(|error| Refusal::about(error, Some(&name), Some(&key)))?;
    Ok(Json(grant(&bucket.name, &key, permissions)))
}

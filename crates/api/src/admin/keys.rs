//! Access keys.

use std::sync::Arc;

use archipel_model::identity::{KeyChange, NewKey};
use archipel_model::{AccessKey, Bucket, Error, Model, Secret};
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{At, Created, Json, Query, Read, Refusal, check_time};
use super::buckets::grant;
use super::deletion::{Deletion, DryRun, Plan};
use super::page::page;
use super::types::{ChangeKey, CreateKey, Grant, KeyInfo, KeyWithSecret, Page};

/// The filters of the list of access keys.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListKeys {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only keys after this id: the `next` of the former page.
    after: Option<String>,
    /// Only keys whose name for people contains this.
    name: Option<String>,
}

/// Lists access keys, by id. Their secrets are not shown.
#[utoipa::path(
    get, path = "/v1/keys", tag = "keys", operation_id = "list_keys",
    params(ListKeys),
    responses((status = 200, description = "Access keys", body = Page<KeyInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListKeys>,
) -> Result<Json<Page<KeyInfo>>, Refusal> {
    let buckets = admin.model.buckets()?;
    let part = query.name.as_deref().unwrap_or_default();
    let keys = admin.model.access_keys()?.into_iter();
    let keys = keys.filter(|key| key.name.contains(part));
    let keys = page(keys, |key| &key.id, query.limit, query.after.as_deref())?;
    Ok(Json(keys.map(|key| describe(&key, Some(&buckets)))))
}

/// Creates an access key, or imports one: with an id and a secret.
#[utoipa::path(
    post, path = "/v1/keys", tag = "keys", operation_id = "create_key",
    request_body = CreateKey,
    responses((status = 201, description = "The access key with its secret", body = KeyWithSecret)),
)]
pub(super) async fn create(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<CreateKey>,
) -> Result<Created<KeyWithSecret>, Refusal> {
    let model = &admin.model;
    let imported = match (ask.id, ask.secret) {
        (None, None) => None,
        (Some(id), Some(secret)) => Some((id, Secret::new(secret))),
        _ => return Err(Refusal::invalid("an import needs both id and secret")),
    };
    let key = model.create_key(NewKey {
        name: ask.name,
        may_create_buckets: ask.create_bucket,
        expires_ms: ask.expires_ms.map_or(Ok(None), |at| expiry(model, at))?,
        imported,
    });
    let key = key.await?;
    // A new key has no grants: what was made is shown whatever is known of buckets.
    Ok(Created(reveal(&key, &[])))
}

/// Shows an access key, without its secret.
#[utoipa::path(
    get, path = "/v1/keys/{id}", tag = "keys", operation_id = "get_key",
    params(("id" = String, Path, description = "The access key's id")),
    responses((status = 200, description = "The access key", body = KeyInfo)),
)]
pub(super) async fn info(
    State(admin): State<Arc<Admin>>,
    At(id): At<String>,
) -> Result<Json<KeyInfo>, Refusal> {
    let (key, buckets) = find(&admin, &id).await?;
    Ok(Json(describe(&key, Some(&buckets))))
}

/// Shows an access key with its secret. It has a path of its own because it takes more than
/// permission to read.
#[utoipa::path(
    get, path = "/v1/keys/{id}/secret", tag = "keys", operation_id = "get_key_secret",
    params(("id" = String, Path, description = "The access key's id")),
    responses((status = 200, description = "The access key with its secret", body = KeyWithSecret)),
)]
pub(super) async fn with_secret(
    State(admin): State<Arc<Admin>>,
    At(id): At<String>,
) -> Result<Json<KeyWithSecret>, Refusal> {
    let (key, buckets) = find(&admin, &id).await?;
    Ok(Json(reveal(&key, &buckets)))
}

/// Returns a key, and all buckets.
async fn find(admin: &Admin, id: &str) -> Result<(Arc<AccessKey>, Vec<Arc<Bucket>>), Refusal> {
    let key = admin.model.find_access_key(id).await?;
    let key = key.ok_or_else(|| Refusal::of_key(Error::NoSuchAccessKey, id))?;
    Ok((key, admin.model.buckets()?))
}

/// Changes an access key. Absent fields change nothing.
#[utoipa::path(
    patch, path = "/v1/keys/{id}", tag = "keys", operation_id = "change_key",
    params(("id" = String, Path, description = "The access key's id")),
    request_body = ChangeKey,
    responses((status = 200, description = "The access key", body = KeyInfo)),
)]
pub(super) async fn change(
    State(admin): State<Arc<Admin>>,
    At(id): At<String>,
    Read(change): Read<ChangeKey>,
) -> Result<Json<KeyInfo>, Refusal> {
    let expires_ms = change.expires_ms.map(|at| expiry(&admin.model, at));
    let change = KeyChange {
        name: change.name,
        may_create_buckets: change.create_bucket,
        disabled: change.disabled,
        expires_ms: expires_ms.transpose()?,
    };
    let changed = admin.model.change_key(&id, change).await;
    let key = changed.map_err(|error| Refusal::of_key(error, &id))?.value;
    // The key is changed by now, and shown also if nothing is known of buckets.
    let buckets = admin.model.buckets().ok();
    Ok(Json(describe(&key, buckets.as_deref())))
}

/// Reads a time of expiry. 0 is none; a time that has passed is refused.
fn expiry(model: &Model, at_ms: u64) -> Result<Option<u64>, Refusal> {
    let at_ms = check_time("expires_ms", at_ms)?;
    if (1..=model.cluster().now_ms()).contains(&at_ms) {
        let why = "expires_ms: the time has passed; disable or delete the key instead";
        return Err(Refusal::invalid(why));
    }
    Ok((at_ms != 0).then_some(at_ms))
}

/// Deletes an access key. Requests that are signed with it are refused from then on.
#[utoipa::path(
    delete, path = "/v1/keys/{id}", tag = "keys", operation_id = "delete_key",
    params(("id" = String, Path, description = "The access key's id"), DryRun),
    responses(Deletion),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(id): At<String>,
    Query(how): Query<DryRun>,
) -> Result<Deletion, Refusal> {
    if how.dry_run {
        let (key, buckets) = find(&admin, &id).await?;
        let grants = grants(&key, &buckets).into_iter();
        let buckets: Vec<String> = grants.map(|grant| grant.bucket).collect();
        let names: Vec<String> = key.names.keys().cloned().collect();
        return Ok(Plan::default()
            .takes("permissions for buckets", &buckets)
            .takes("names that only it has for buckets", &names)
            .finish());
    }
    let deleted = admin.model.delete_access_key(&id).await;
    deleted.map_err(|error| Refusal::of_key(error, &id))?;
    Ok(Deletion::Done)
}

pub(super) fn reveal(key: &AccessKey, buckets: &[Arc<Bucket>]) -> KeyWithSecret {
    KeyWithSecret {
        key: describe(key, Some(buckets)),
        secret: key.secret.expose().to_owned(),
    }
}

fn grants(key: &AccessKey, buckets: &[Arc<Bucket>]) -> Vec<Grant> {
    let grants = buckets.iter().filter_map(|bucket| {
        let permissions = bucket.permissions(key);
        (!permissions.is_empty()).then(|| grant(&bucket.name, &key.id, permissions))
    });
    grants.collect()
}

/// Describes a key. `buckets` is `None` if they are not known.
pub(super) fn describe(key: &AccessKey, buckets: Option<&[Arc<Bucket>]>) -> KeyInfo {
    KeyInfo {
        id: key.id.clone(),
        name: key.name.clone(),
        created_ms: key.created_ms,
        create_bucket: key.may_create_buckets,
        user: key.user.as_ref().map(|user| user.name.clone()),
        disabled: key.disabled,
        expires_ms: key.expires_ms,
        grants: buckets.map(|buckets| grants(key, buckets)),
    }
}

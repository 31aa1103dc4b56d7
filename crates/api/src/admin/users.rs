//! Users.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_model::AccessKey;
use archipel_model::identity::{Attached, Group, NewUser, ROOT_PATH, Reference, User, UserChange};
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{At, Created, Json, Query, Read, Refusal};
use super::deletion::{Deletion, DryRun, Plan};
use super::page::entities;
use super::policies::{attached, attachments, inline_names};
use super::settings::quota_use;
use super::types::{ChangeUser, CreateUser, KeyWithSecret, Page, Quota, QuotaUse, UserInfo};

/// The access keys of each user.
type Keys = BTreeMap<Reference, Vec<Arc<AccessKey>>>;

/// The filters of the list of users.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListUsers {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only users after this name: the `next` of the former page.
    after: Option<String>,
    /// Only users whose name begins so.
    prefix: Option<String>,
    /// Only users of this group.
    group: Option<String>,
    /// True for disabled users only, false for the others only.
    disabled: Option<bool>,
}

/// Lists users, by name.
#[utoipa::path(
    get, path = "/v1/users", tag = "users", operation_id = "list_users",
    params(ListUsers),
    responses((status = 200, description = "Users", body = Page<UserInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListUsers>,
) -> Result<Json<Page<UserInfo>>, Refusal> {
    let (model, after) = (&admin.model, query.after.as_deref());
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let is_wanted = |user: &User| {
        let is_in = |asked: &String| user.groups.iter().any(|group| group.name == *asked);
        user.name.starts_with(prefix)
            && query.group.as_ref().is_none_or(is_in)
            && query.disabled.is_none_or(|asked| user.disabled == asked)
    };
    let users = entities(model, is_wanted, query.limit, after)?;
    let keys = model.keys_of_users()?;
    Ok(Json(users.map(|user| describe(&user, &keys))))
}

/// Creates a user without keys.
#[utoipa::path(
    post, path = "/v1/users", tag = "users", operation_id = "create_user",
    request_body = CreateUser,
    responses((status = 201, description = "The user", body = UserInfo)),
)]
pub(super) async fn create(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<CreateUser>,
) -> Result<Created<UserInfo>, Refusal> {
    let model = &admin.model;
    let policies = attachments(model, ask.attach, Vec::new()).await?;
    let user = model.create_user(NewUser {
        name: ask.name,
        path: ask.path.unwrap_or_else(|| ROOT_PATH.to_owned()),
        attach: policies.attach,
        tags: Vec::new(),
    });
    let user = user.await?;
    Ok(Created(describe(&user, &Keys::new())))
}

/// Shows a user.
#[utoipa::path(
    get, path = "/v1/users/{name}", tag = "users", operation_id = "get_user",
    params(("name" = String, Path, description = "The user's name")),
    responses((status = 200, description = "The user", body = UserInfo)),
)]
pub(super) async fn info(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<UserInfo>, Refusal> {
    let user = admin.model.find_entity::<User>(&name).await?;
    Ok(Json(describe(&user, &admin.model.keys_of_users()?)))
}

/// Attaches managed policies to a user, and detaches some; disables the user, or enables it again.
#[utoipa::path(
    patch, path = "/v1/users/{name}", tag = "users", operation_id = "change_user",
    params(("name" = String, Path, description = "The user's name")),
    request_body = ChangeUser,
    responses((status = 200, description = "The user", body = UserInfo)),
)]
pub(super) async fn change(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(change): Read<ChangeUser>,
) -> Result<Json<UserInfo>, Refusal> {
    let model = &admin.model;
    let change = UserChange {
        disabled: change.disabled,
        policies: attachments(model, change.attach, change.detach).await?,
    };
    let changed = model.change_user(&name, change).await?;
    Ok(Json(describe(&changed.value, &model.keys_of_users()?)))
}

/// Deletes a user that has no access keys, groups and policies any more.
#[utoipa::path(
    delete, path = "/v1/users/{name}", tag = "users", operation_id = "delete_user",
    params(("name" = String, Path, description = "The user's name"), DryRun),
    responses(Deletion),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Query(how): Query<DryRun>,
) -> Result<Deletion, Refusal> {
    if how.dry_run {
        let Json(user) = info(State(admin.clone()), At(name)).await?;
        let mut groups = Vec::new();
        for group in user.groups {
            // A group that is gone is none.
            groups.extend(admin.model.entity::<Group>(&group)?.map(|_| group));
        }
        return Ok(Plan::default()
            .blocked_by("access keys", &user.keys)
            .blocked_by("groups", &groups)
            .blocked_by("inline policies", &user.inline_policies)
            .blocked_by("attached policies", &user.policies)
            .finish());
    }
    admin.model.delete_user(&name).await?;
    Ok(Deletion::Done)
}

/// Creates an access key of a user.
#[utoipa::path(
    post, path = "/v1/users/{name}/keys", tag = "users", operation_id = "create_user_key",
    params(("name" = String, Path, description = "The user's name")),
    responses((status = 201, description = "The access key with its secret", body = KeyWithSecret)),
)]
pub(super) async fn create_key(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Created<KeyWithSecret>, Refusal> {
    let key = admin.model.create_user_key(&name).await?;
    Ok(Created(super::keys::reveal(&key, &[])))
}

/// Shows the quota of a user, and what the buckets hold that the user created.
#[utoipa::path(
    get, path = "/v1/users/{name}/quota", tag = "users", operation_id = "get_user_quota",
    params(("name" = String, Path, description = "The user's name")),
    responses((status = 200, description = "The quota", body = QuotaUse)),
)]
pub(super) async fn quota(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<QuotaUse>, Refusal> {
    let user = admin.model.find_entity::<User>(&name).await?;
    describe_quota(&admin, &user).await.map(Json)
}

/// Replaces the quota of a user. It counts for every write that begins after the answer. Buckets that hold
/// more keep it.
#[utoipa::path(
    put, path = "/v1/users/{name}/quota", tag = "users", operation_id = "set_user_quota",
    params(("name" = String, Path, description = "The user's name")),
    request_body = Quota,
    responses((status = 200, description = "The quota", body = QuotaUse)),
)]
pub(super) async fn set_quota(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<Quota>,
) -> Result<Json<QuotaUse>, Refusal> {
    let changed = admin.model.set_user_quota(&name, set.into()).await?;
    describe_quota(&admin, &changed.value).await.map(Json)
}

async fn describe_quota(admin: &Admin, user: &User) -> Result<QuotaUse, Refusal> {
    let (_, usage) = admin.model.user_usage(user).await?;
    Ok(quota_use(user.quota, usage))
}

fn describe(user: &User, keys: &Keys) -> UserInfo {
    let keys = keys.get(&Reference::to(user)).into_iter().flatten();
    UserInfo {
        name: user.name.clone(),
        path: user.path.clone(),
        id: user.id(),
        arn: user.arn(),
        created_ms: user.created_ms,
        disabled: user.disabled,
        groups: user.groups.iter().map(|group| group.name.clone()).collect(),
        inline_policies: inline_names(user),
        policies: attached(user),
        keys: keys.map(|key| key.id.clone()).collect(),
    }
}

//! Roles.

use std::sync::Arc;

use archipel_model::identity::{Attached, NewRole, ROOT_PATH, Role, RoleChange};
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{At, Created, Json, Query, Read, Refusal};
use super::deletion::{Deletion, DryRun, Plan};
use super::page::entities;
use super::policies::{attached, attachments, inline_names};
use super::precondition::{Precondition, Tag, Tagged};
use super::types::{ChangeRole, CreateRole, Page, RoleInfo};

/// The filters of the list of roles.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListRoles {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only roles after this name: the `next` of the former page.
    after: Option<String>,
    /// Only roles whose name begins so.
    prefix: Option<String>,
}

/// Lists roles, by name.
#[utoipa::path(
    get, path = "/v1/roles", tag = "users", operation_id = "list_roles",
    params(ListRoles),
    responses((status = 200, description = "Roles", body = Page<RoleInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListRoles>,
) -> Result<Json<Page<RoleInfo>>, Refusal> {
    let (model, after) = (&admin.model, query.after.as_deref());
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let is_wanted = |role: &Role| role.name.starts_with(prefix);
    let roles = entities(model, is_wanted, query.limit, after)?;
    Ok(Json(roles.map(|role| describe(&role))))
}

/// Creates a role without policies.
#[utoipa::path(
    post, path = "/v1/roles", tag = "users", operation_id = "create_role",
    request_body = CreateRole,
    responses((status = 201, description = "The role", body = RoleInfo)),
)]
pub(super) async fn create(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<CreateRole>,
) -> Result<Created<RoleInfo>, Refusal> {
    let role = admin.model.create_role(NewRole {
        name: ask.name,
        path: ask.path.unwrap_or_else(|| ROOT_PATH.to_owned()),
        description: ask.description,
        max_session_s: ask.max_session_seconds,
        trust: ask.trust,
        tags: Vec::new(),
    });
    let role = role.await?;
    Ok(Created(describe(&role)))
}

/// Shows a role.
#[utoipa::path(
    get, path = "/v1/roles/{name}", tag = "users", operation_id = "get_role",
    params(("name" = String, Path, description = "The role's name")),
    responses((status = 200, description = "The role", body = RoleInfo)),
)]
pub(super) async fn info(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Tagged<RoleInfo>, Refusal> {
    let role = admin.model.find_entity::<Role>(&name).await?;
    Ok(tagged(&role))
}

/// Changes a role; attaches managed policies and detaches some.
#[utoipa::path(
    patch, path = "/v1/roles/{name}", tag = "users", operation_id = "change_role",
    params(("name" = String, Path, description = "The role's name"), Precondition),
    request_body = ChangeRole,
    responses((status = 200, description = "The role", body = RoleInfo)),
)]
pub(super) async fn change(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    condition: Precondition,
    Read(change): Read<ChangeRole>,
) -> Result<Tagged<RoleInfo>, Refusal> {
    let model = &admin.model;
    let change = RoleChange {
        description: change.description,
        max_session_s: change.max_session_seconds,
        trust: change.trust,
        policies: attachments(model, change.attach, change.detach).await?,
    };
    let seen = condition.clone();
    let test = move |now: &Role| seen.admits(Some(Tag::of(&describe(now))));
    let changed = model.change_role_if(&name, change, test).await;
    let changed = changed.map_err(|error| condition.refusal(error))?;
    Ok(tagged(&changed.value))
}

/// Deletes a role that has no policies any more. Its sessions end.
#[utoipa::path(
    delete, path = "/v1/roles/{name}", tag = "users", operation_id = "delete_role",
    params(("name" = String, Path, description = "The role's name"), DryRun),
    responses(Deletion),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Query(how): Query<DryRun>,
) -> Result<Deletion, Refusal> {
    if how.dry_run {
        let Tagged(role, _) = info(State(admin), At(name)).await?;
        return Ok(Plan::default()
            .blocked_by("inline policies", &role.inline_policies)
            .blocked_by("attached policies", &role.policies)
            .finish());
    }
    admin.model.delete_role(&name).await?;
    Ok(Deletion::Done)
}

fn tagged(role: &Role) -> Tagged<RoleInfo> {
    let info = describe(role);
    let tag = Tag::of(&info);
    Tagged(info, Some(tag))
}

fn describe(role: &Role) -> RoleInfo {
    RoleInfo {
        name: role.name.clone(),
        path: role.path.clone(),
        id: role.id(),
        arn: role.arn(),
        created_ms: role.created_ms,
        description: role.description.clone(),
        max_session_seconds: role.max_session_s,
        trust: role.trust.text().to_owned(),
        inline_policies: inline_names(role),
        policies: attached(role),
    }
}

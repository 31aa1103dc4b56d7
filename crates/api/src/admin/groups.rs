//! Groups of users.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_model::identity::{Attached, Group, GroupChange, ROOT_PATH, Reference, User};
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{At, Created, Json, Query, Read, Refusal};
use super::deletion::{Deletion, DryRun, Plan};
use super::page::entities;
use super::policies::{attached, attachments, inline_names};
use super::types::{ChangeGroup, CreateGroup, GroupInfo, Page};

/// The users of each group.
type Members = BTreeMap<Reference, Vec<Arc<User>>>;

/// The filters of the list of groups.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListGroups {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only groups after this name: the `next` of the former page.
    after: Option<String>,
    /// Only groups whose name begins so.
    prefix: Option<String>,
}

/// Lists groups, by name.
#[utoipa::path(
    get, path = "/v1/groups", tag = "users", operation_id = "list_groups",
    params(ListGroups),
    responses((status = 200, description = "Groups", body = Page<GroupInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListGroups>,
) -> Result<Json<Page<GroupInfo>>, Refusal> {
    let (model, after) = (&admin.model, query.after.as_deref());
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let is_wanted = |group: &Group| group.name.starts_with(prefix);
    let groups = entities(model, is_wanted, query.limit, after)?;
    let members = model.members()?;
    Ok(Json(groups.map(|group| describe(&group, &members))))
}

/// Creates a group without users and policies.
#[utoipa::path(
    post, path = "/v1/groups", tag = "users", operation_id = "create_group",
    request_body = CreateGroup,
    responses((status = 201, description = "The group", body = GroupInfo)),
)]
pub(super) async fn create(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<CreateGroup>,
) -> Result<Created<GroupInfo>, Refusal> {
    let model = &admin.model;
    let path = ask.path.as_deref().unwrap_or(ROOT_PATH);
    let group = model.create_group(&ask.name, path).await?;
    Ok(Created(describe(&group, &Members::new())))
}

/// Shows a group, its users and policies.
#[utoipa::path(
    get, path = "/v1/groups/{name}", tag = "users", operation_id = "get_group",
    params(("name" = String, Path, description = "The group's name")),
    responses((status = 200, description = "The group", body = GroupInfo)),
)]
pub(super) async fn info(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<GroupInfo>, Refusal> {
    let group = admin.model.find_entity::<Group>(&name).await?;
    Ok(Json(describe(&group, &admin.model.members()?)))
}

/// Adds users to a group and removes some; attaches managed policies and detaches some.
#[utoipa::path(
    patch, path = "/v1/groups/{name}", tag = "users", operation_id = "change_group",
    params(("name" = String, Path, description = "The group's name")),
    request_body = ChangeGroup,
    responses((status = 200, description = "The group", body = GroupInfo)),
)]
pub(super) async fn change(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(change): Read<ChangeGroup>,
) -> Result<Json<GroupInfo>, Refusal> {
    let model = &admin.model;
    let change = GroupChange {
        add_users: change.add_users,
        remove_users: change.remove_users,
        policies: attachments(model, change.attach, change.detach).await?,
    };
    let changed = model.change_group(&name, change).await?;
    Ok(Json(describe(&changed.value, &model.members()?)))
}

/// Deletes a group that has no users and policies any more.
#[utoipa::path(
    delete, path = "/v1/groups/{name}", tag = "users", operation_id = "delete_group",
    params(("name" = String, Path, description = "The group's name"), DryRun),
    responses(Deletion),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Query(how): Query<DryRun>,
) -> Result<Deletion, Refusal> {
    if how.dry_run {
        let Json(group) = info(State(admin), At(name)).await?;
        return Ok(Plan::default()
            .blocked_by("users", &group.users)
            .blocked_by("inline policies", &group.inline_policies)
            .blocked_by("attached policies", &group.policies)
            .finish());
    }
    admin.model.delete_group(&name).await?;
    Ok(Deletion::Done)
}

fn describe(group: &Group, members: &Members) -> GroupInfo {
    let users = members.get(&Reference::to(group)).into_iter().flatten();
    GroupInfo {
        name: group.name.clone(),
        path: group.path.clone(),
        id: group.id(),
        arn: group.arn(),
        created_ms: group.created_ms,
        users: users.map(|user| user.name.clone()).collect(),
        inline_policies: inline_names(group),
        policies: attached(group),
    }
}

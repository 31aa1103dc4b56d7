//! The layout: who holds what, what is staged, and making it so.

use std::sync::Arc;
use std::time::Duration;

use archipel_cluster as cluster;
use archipel_cluster::change::{LayoutChange, Progress, Staged};
use archipel_cluster::layout::{self, Layout, PARTITIONS};
use archipel_model::Error as ModelError;
use archipel_storage as storage;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Json, NoContent, Query, Read, Refusal};
use super::page::{self, MAX_ITEMS};
use super::types::{
    Apply, HistoryInfo, LayoutInfo, LayoutNode, Page, ProgressInfo, Redundancy, RemoveDead,
    RemovedInfo, Stage, StagedInfo, StagedNode, StagedRole,
};
use super::{Admin, nodes, upkeep};

mod changes;
mod warnings;

/// The timeout for the staged changes. After it, the layout is shown without them.
const STAGED_TIMEOUT: Duration = Duration::from_secs(5);

/// Shows the layout, the staged changes and the progress of a change.
#[utoipa::path(
    get, path = "/v1/layout", tag = "layout", operation_id = "get_layout",
    responses((status = 200, description = "The layout", body = LayoutInfo)),
)]
pub(super) async fn show(State(admin): State<Arc<Admin>>) -> Result<Json<LayoutInfo>, Refusal> {
    describe(&admin).await.map(Json)
}

/// Returns the layout, the staged changes and the progress of a change. This node knows the layout,
/// so it is shown even if no majority can tell the staged changes.
async fn describe(admin: &Admin) -> Result<LayoutInfo, Refusal> {
    let cluster = admin.model.cluster();
    let epoch = cluster.epoch().ok_or_else(no_layout)?;
    let newest = epoch.newest();
    let staged = tokio::time::timeout(STAGED_TIMEOUT, cluster.layouts().staged());
    let progress = cluster.layouts().driven_progress_of(&epoch);
    // At once: both wait for other nodes.
    let (staged, progress) = tokio::join!(staged, progress);
    let (staged, staged_unknown) = match staged {
        Ok(Ok(staged)) if is_empty(&staged, newest) => (None, None),
        Ok(Ok(staged)) => (Some(describe_staged(admin, newest, &staged).await), None),
        Ok(Err(error)) => (None, Some(error.to_string())),
        Err(_) => (None, Some("too few nodes answer".to_owned())),
    };
    Ok(LayoutInfo {
        version: newest.version,
        epoch: epoch.number(),
        redundancy: shown_redundancy(newest.redundancy),
        partitions: PARTITIONS.into(),
        nodes: describe_nodes(newest),
        staged,
        staged_unknown,
        progress: describe_progress(admin, progress).await,
    })
}

/// Stages further changes: nothing moves before they are applied. Shows what they would do.
#[utoipa::path(
    post, path = "/v1/layout/stage", tag = "layout", operation_id = "stage_layout",
    request_body = Stage,
    responses((status = 200, description = "The layout with the staged changes", body = LayoutInfo)),
)]
pub(super) async fn stage(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<Stage>,
) -> Result<Json<LayoutInfo>, Refusal> {
    let cluster = admin.model.cluster();
    let epoch = cluster.epoch().ok_or_else(no_layout)?;
    let staged = cluster.layouts().staged().await.map_err(refusal)?;
    let known = nodes::known(&admin);
    let changes = changes::of(&ask, &known, &cluster.me().node, &epoch, &staged)?;
    if changes.is_empty() {
        return Err(Refusal::invalid(
            "nothing to stage; fix: name at least one of assign, remove and redundancy",
        ));
    }
    cluster.layouts().stage(changes).await.map_err(refusal)?;
    describe(&admin).await.map(Json)
}

/// Makes the staged changes the next layout version. Data begins to move.
#[utoipa::path(
    post, path = "/v1/layout/apply", tag = "layout", operation_id = "apply_layout",
    request_body = Apply,
    responses((status = 200, description = "The new layout", body = LayoutInfo)),
)]
pub(super) async fn apply(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<Apply>,
) -> Result<Json<LayoutInfo>, Refusal> {
    let cluster = admin.model.cluster();
    cluster.epoch().ok_or_else(no_layout)?;
    cluster
        .layouts()
        .apply(ask.version, ask.revision)
        .await
        .map_err(refusal)?;
    describe(&admin).await.map(Json)
}

/// Stops waiting for a node that is lost for good. Without `confirm` it is a dry run: the answer
/// tells what would be lost.
#[utoipa::path(
    post, path = "/v1/layout/remove-dead", tag = "layout", operation_id = "remove_dead_node",
    request_body = RemoveDead,
    responses((status = 200, description = "The consequences", body = RemovedInfo)),
)]
pub(super) async fn remove_dead(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<RemoveDead>,
) -> Result<Json<RemovedInfo>, Refusal> {
    let cluster = admin.model.cluster();
    cluster.epoch().ok_or_else(no_layout)?;
    let known = nodes::known(&admin);
    let node = nodes::find(&known, &cluster.me().node, &ask.node)?;
    let id = node.id.parse().map_err(|_| {
        let short = &node.short;
        Refusal::invalid(format!("node {short}: its id is no id"))
    })?;
    let risk = if ask.confirm {
        cluster.layouts().remove_dead(&id).await.map_err(refusal)?
    } else {
        cluster.layouts().removal_risk(&id).await.map_err(refusal)?
    };
    Ok(Json(RemovedInfo {
        id: node.id.clone(),
        version: risk.version,
        may_lose: risk.may_lose(),
        risk: risk.explain(),
        done: ask.confirm,
    }))
}

/// Discards the staged changes.
#[utoipa::path(
    delete, path = "/v1/layout/staged", tag = "layout", operation_id = "discard_staged_layout",
    responses((status = 204, description = "Nothing is staged")),
)]
pub(super) async fn revert(State(admin): State<Arc<Admin>>) -> Result<NoContent, Refusal> {
    let cluster = admin.model.cluster();
    cluster.epoch().ok_or_else(no_layout)?;
    cluster
        .layouts()
        .stage(vec![LayoutChange::Revert])
        .await
        .map_err(refusal)?;
    Ok(NoContent)
}

/// The filters of the list of layouts.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListHistory {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only epochs after this one: the `next` of the former page.
    after: Option<u64>,
    /// Only epochs that began at this time or later, in milliseconds since 1970.
    since_ms: Option<u64>,
}

/// Lists the epochs of the layout so far, oldest first.
#[utoipa::path(
    get, path = "/v1/layout/history", tag = "layout", operation_id = "list_layout_history",
    params(ListHistory),
    responses((status = 200, description = "Epochs", body = Page<HistoryInfo>)),
)]
pub(super) async fn history(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListHistory>,
) -> Result<Json<Page<HistoryInfo>>, Refusal> {
    let limit = page::size(query.limit, MAX_ITEMS)?;
    let cluster = admin.model.cluster();
    cluster.epoch().ok_or_else(no_layout)?;
    let entries = cluster.layouts().history().await.map_err(refusal)?;
    let after = query.after.unwrap_or(0);
    let mut entries = entries.into_iter().filter(|entry| {
        entry.epoch > after
            && query
                .since_ms
                .is_none_or(|since_ms| entry.at_ms >= since_ms)
    });
    let shown = entries.by_ref().take(limit).map(|entry| HistoryInfo {
        epoch: entry.epoch,
        versions: entry.versions,
        at_ms: entry.at_ms,
    });
    let items: Vec<HistoryInfo> = shown.collect();
    let last = items.last().map(|entry| entry.epoch.to_string());
    let next = entries.next().and(last);
    Ok(Json(Page { items, next }))
}

/// Returns true if applying would change nothing that is asked for.
fn is_empty(staged: &Staged, current: &Layout) -> bool {
    shown_change(staged, current).is_none() && shown_roles(staged, current).next().is_none()
}

/// Returns the staged redundancy, if it differs.
fn shown_change(staged: &Staged, current: &Layout) -> Option<Redundancy> {
    let differs = staged.redundancy.filter(|r| *r != current.redundancy);
    differs.map(shown_redundancy)
}

/// Returns the staged roles of nodes, without those that were taken back.
fn shown_roles(staged: &Staged, current: &Layout) -> impl Iterator<Item = StagedNode> {
    let roles = staged.roles.iter();
    let real = roles.filter(|(node, role)| role.as_ref() != current.role_of(node));
    real.map(|(node, role)| StagedNode {
        id: node.to_string(),
        short: node.short(),
        role: role.as_ref().map(|role| StagedRole {
            zone: role.zone.clone(),
            capacity_bytes: role.capacity_bytes,
        }),
    })
}

async fn describe_staged(admin: &Admin, current: &Layout, staged: &Staged) -> StagedInfo {
    let mut info = StagedInfo {
        version: staged.version,
        revision: staged.revision,
        nodes: shown_roles(staged, current).collect(),
        redundancy: shown_change(staged, current),
        plan: Vec::new(),
        refused: None,
        result: Vec::new(),
    };
    match admin.model.cluster().layouts().plan(staged.clone()).await {
        Ok(plan) => {
            info.plan = plan.explanation;
            let (known, announced) = (nodes::known(admin), admin.node.nodes());
            info.plan
                .extend(warnings::of(staged, current, &known, &announced));
            info.result = describe_nodes(&plan.layout);
        }
        Err(error) => info.refused = Some(refusal(error).message),
    }
    info
}

fn describe_nodes(layout: &Layout) -> Vec<LayoutNode> {
    let mut counts = vec![0_u32; layout.roles.len()];
    for place in &layout.assignment {
        // A layout is checked when it is read: every place exists.
        if let Some(count) = counts.get_mut(usize::from(*place)) {
            *count += 1;
        }
    }
    let all = layout.assignment.len().max(1) as f64;
    let places = layout.roles.iter().zip(counts).enumerate();
    let mut nodes: Vec<LayoutNode> = places
        .map(|(place, (role, partitions))| LayoutNode {
            id: role.store.node.to_string(),
            short: role.store.node.short(),
            zone: role.zone.clone(),
            capacity_bytes: role.capacity_bytes,
            partitions,
            share: f64::from(partitions) / all,
            control: layout.control.iter().any(|c| usize::from(*c) == place),
        })
        .collect();
    nodes.sort_by(|a, b| (&a.zone, &a.id).cmp(&(&b.zone, &b.id)));
    nodes
}

/// Describes the progress of a change, if one is under way. A row that cannot be moved is named as
/// operators know it, too.
pub(super) async fn describe_progress(
    admin: &Admin,
    progress: Option<Progress>,
) -> Option<ProgressInfo> {
    let mut progress = progress?;
    if let (Some(row), Some(trouble)) = (&progress.row, &mut progress.trouble) {
        let name = upkeep::name_of_row(admin, row, upkeep::names_deadline()).await;
        if !trouble.contains(&name) {
            *trouble = format!("{trouble} (the row is {name})");
        }
    }
    Some(ProgressInfo {
        from_version: progress.from_version,
        to_version: progress.to_version,
        partitions: progress.partitions,
        done: progress.done,
        rows: progress.rows,
        trouble: progress.trouble,
        driver: progress.driver.to_string(),
    })
}

fn shown_redundancy(redundancy: layout::Redundancy) -> Redundancy {
    Redundancy {
        replicas: redundancy.replicas,
        zones: redundancy.zones,
    }
}

fn no_layout() -> Refusal {
    Refusal::new(
        StatusCode::CONFLICT,
        "NoLayout",
        "this node is in no layout yet; fix: on a node that is in one, archipel layout assign with this node's id (archipel node id)",
    )
}

/// Turns a refusal of the cluster into an error of the client; all others as the model's errors.
pub(super) fn refusal(error: cluster::Error) -> Refusal {
    match error {
        cluster::Error::Storage(storage::Error::Refused(why)) => {
            Refusal::new(StatusCode::CONFLICT, "Refused", why)
        }
        other => ModelError::from(other).into(),
    }
}

//! Long operations: everything that goes on in the background, in one shape, with its progress.
//!
//! Each of them also has a resource of its own that says more, and that starts it where an operator
//! may: `/v1/layout`, `/v1/verify`, `/v1/scrub`, `/v1/repair`, `/v1/lifecycle`.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{At, Json, Query, Refusal};
use super::page::page;
use super::types::{OperationInfo, OperationKind, OperationState, Page, RepairNode};
use super::{Admin, repair, upkeep, verify};

/// Which operations to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListOperations {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only operations after this id: the `next` of the former page.
    after: Option<String>,
    /// Only operations of this kind.
    kind: Option<OperationKind>,
    /// Only operations in this state.
    state: Option<OperationState>,
}

/// Lists the long operations of the cluster with their progress, by id. A node that does not answer
/// is listed with operations whose state is unknown. Lifecycle rules and garbage collection are
/// those of the node that is asked.
#[utoipa::path(
    get, path = "/v1/operations", tag = "maintenance", operation_id = "list_operations",
    params(ListOperations),
    responses((status = 200, description = "Operations", body = Page<OperationInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListOperations>,
) -> Result<Json<Page<OperationInfo>>, Refusal> {
    let mut all = operations(&admin).await;
    all.retain(|one| {
        query.kind.is_none_or(|kind| one.kind == kind)
            && query.state.is_none_or(|state| one.state == state)
    });
    page(all, |one| &one.id, query.limit, query.after.as_deref()).map(Json)
}

/// Shows a long operation.
#[utoipa::path(
    get, path = "/v1/operations/{id}", tag = "maintenance", operation_id = "get_operation",
    params(("id" = String, Path, description = "The id, as in the list")),
    responses((status = 200, description = "The operation", body = OperationInfo)),
)]
pub(super) async fn info(
    State(admin): State<Arc<Admin>>,
    At(id): At<String>,
) -> Result<Json<OperationInfo>, Refusal> {
    let all = operations(&admin).await;
    let found = all.into_iter().find(|one| one.id == id);
    found.map(Json).ok_or_else(|| {
        let why = format!("no operation has the id {id:?}; GET /v1/operations lists them");
        Refusal::new(StatusCode::NOT_FOUND, "NoSuchOperation", why)
    })
}

/// Returns all operations, by id.
async fn operations(admin: &Admin) -> Vec<OperationInfo> {
    let mut all = vec![lifecycle(admin), verification(admin)];
    all.extend(garbage_collection(admin).await);
    let told = repair::gather(admin, None).await;
    all.extend(told.moving.map(|moving| OperationInfo {
        done: moving.done.into(),
        all: Some(moving.partitions.into()),
        unit: Some("partitions".into()),
        problems: moving.trouble.iter().count() as u64,
        trouble: moving.trouble.clone(),
        ..OperationInfo::new(
            OperationKind::LayoutChange,
            None,
            match moving.trouble {
                Some(_) => OperationState::Stuck,
                None => OperationState::Running,
            },
        )
    }));
    for node in &told.nodes {
        all.extend(of_node(node));
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

fn of_node(node: &RepairNode) -> [OperationInfo; 3] {
    use OperationKind::{AntiEntropy, BlockRepair, Scrub};
    if let Some(why) = &node.away {
        let unknown = |kind| OperationInfo {
            trouble: Some(why.clone()),
            ..OperationInfo::new(kind, Some(node), OperationState::Unknown)
        };
        return [Scrub, BlockRepair, AntiEntropy].map(unknown);
    }
    let (scrub, repair) = (&node.scrub, &node.repair);
    let rows: u64 = node.behind.iter().map(|behind| behind.rows).sum();
    let trouble = node.behind.iter().find_map(|other| other.trouble.clone());
    let active = |is_active: bool| match is_active {
        true => OperationState::Running,
        false => OperationState::Idle,
    };
    [
        OperationInfo {
            began_ms: some(scrub.began_ms),
            ended_ms: some(scrub.ended_ms),
            next_ms: scrub.next_ms,
            done: scrub.bytes,
            all: Some(scrub.stored_bytes),
            unit: Some("bytes".into()),
            problems: scrub.damaged,
            ..OperationInfo::new(Scrub, Some(node), active(scrub.running))
        },
        OperationInfo {
            done: repair.repaired,
            all: Some(repair.repaired + repair.waiting),
            unit: Some("blocks".into()),
            problems: repair.stuck,
            trouble: repair.troubles.first().map(|first| first.why.clone()),
            ..OperationInfo::new(
                BlockRepair,
                Some(node),
                match (repair.waiting, repair.stuck) {
                    (0, _) => OperationState::Idle,
                    (waiting, stuck) if waiting == stuck => OperationState::Stuck,
                    _ => OperationState::Running,
                },
            )
        },
        OperationInfo {
            left: Some(rows),
            unit: Some("rows".into()),
            trouble,
            ..OperationInfo::new(AntiEntropy, Some(node), active(rows > 0))
        },
    ]
}

fn verification(admin: &Admin) -> OperationInfo {
    let info = verify::describe(admin);
    let state = match (info.began_ms, info.ended_ms) {
        (0, _) => OperationState::Idle,
        (_, 0) => OperationState::Running,
        _ => OperationState::Done,
    };
    OperationInfo {
        began_ms: some(info.began_ms),
        ended_ms: some(info.ended_ms),
        done: info.nodes.iter().filter(|node| node.ended).count() as u64,
        all: Some(info.nodes.len() as u64),
        unit: Some("nodes".into()),
        problems: info.problems(),
        trouble: info.unchecked().into_iter().next(),
        ..OperationInfo::new(OperationKind::Verification, None, state)
    }
}

fn lifecycle(admin: &Admin) -> OperationInfo {
    let info = upkeep::lifecycle_info(admin);
    let state = match info.running {
        true => OperationState::Running,
        false => OperationState::Idle,
    };
    OperationInfo {
        began_ms: some(info.began_ms),
        ended_ms: some(info.ended_ms),
        next_ms: info.next_ms,
        done: info.parts_done,
        all: Some(info.parts),
        unit: Some("parts of buckets".into()),
        problems: info.failed,
        ..OperationInfo::new(OperationKind::Lifecycle, None, state)
    }
}

/// Returns nothing if storage does not answer.
async fn garbage_collection(admin: &Admin) -> Option<OperationInfo> {
    let tasks = upkeep::describe(admin).await.gc?.tasks;
    let state = match tasks {
        0 => OperationState::Idle,
        _ => OperationState::Running,
    };
    Some(OperationInfo {
        left: Some(tasks),
        unit: Some("tasks".into()),
        ..OperationInfo::new(OperationKind::GarbageCollection, None, state)
    })
}

/// Times of 0 stand for none.
fn some(time_ms: u64) -> Option<u64> {
    (time_ms > 0).then_some(time_ms)
}

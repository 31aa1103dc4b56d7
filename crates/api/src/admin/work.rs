//! Long operations: everything that goes on in the background, in one shape, with its progress.
//!
//! Each of them also has a resource of its own that says more, and that starts it where an operator
//! may: `/v1/layout`, `/v1/verify`, `/v1/scrub`, `/v1/repair`, `/v1/lifecycle`.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Accepted, At, Json, Query, Refusal};
use super::node::STATUS_TIMEOUT;
use super::page::page;
use super::types::{OperationInfo, OperationKind, OperationState, Page, ProgressInfo, RepairNode};
use super::{Admin, repair, upkeep, verify};

/// The trouble of an operation that was cancelled.
const STOPPED: &str = "it was stopped before it had done everything";

/// The filters of the list of operations.
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

/// Cancels a long operation that runs: a scrub, the verification that this node was asked for, or what
/// lifecycle rules do on this node. It ends after the step that it is at, so it may still run for a
/// while.
#[utoipa::path(
    post, path = "/v1/operations/{id}/cancel", tag = "maintenance",
    operation_id = "cancel_operation",
    params(("id" = String, Path, description = "The id, as in the list")),
    responses((
        status = 202, description = "It is about to end", body = OperationInfo,
        headers(("Location" = String, description = "The operation")),
    )),
)]
pub(super) async fn cancel(
    State(admin): State<Arc<Admin>>,
    At(id): At<String>,
) -> Result<Accepted<OperationInfo>, Refusal> {
    let Json(one) = info(State(admin.clone()), At(id)).await?;
    let cannot = |why: &str| {
        let why = format!("{}: {why}", one.id);
        Err(Refusal::new(StatusCode::CONFLICT, "CannotCancel", why))
    };
    match (one.kind, &one.node) {
        (OperationKind::Scrub | OperationKind::Verification | OperationKind::Lifecycle, _)
            if !matches!(one.state, OperationState::Running | OperationState::Stuck) =>
        {
            return cannot("it does not run");
        }
        (OperationKind::Scrub, Some(node)) => {
            let node = node
                .parse()
                .map_err(|_| Refusal::invalid("the node's id"))?;
            let stopped = admin.model.cluster().upkeep().stop_scrub_of(node).await;
            stopped.map_err(archipel_model::Error::from)?;
        }
        (OperationKind::Verification, None) => {
            admin.model.cluster().upkeep().verify_stop();
        }
        (OperationKind::Verification, Some(_)) => {
            return cannot("another node was asked for it; fix: ask that node to cancel it");
        }
        (OperationKind::Lifecycle, _) => {
            admin.model.stop_expiry();
        }
        (OperationKind::LayoutChange, _) => {
            return cannot("data that moved stays moved; fix: stage and apply another layout");
        }
        (OperationKind::Snapshot, _) => return cannot("a snapshot ends by itself"),
        _ => return cannot("it goes on whenever there is something to do, as it must"),
    }
    let Json(now) = info(State(admin), At(one.id)).await?;
    Ok(Accepted(now.id.clone(), now))
}

/// Returns all operations, by id.
async fn operations(admin: &Admin) -> Vec<OperationInfo> {
    let mut all = vec![lifecycle(admin), verification(admin)];
    all.extend(garbage_collection(admin).await);
    all.push(rotation(admin).await);
    all.push(snapshot(admin));
    let told = repair::gather(admin, None).await;
    let me = admin.model.cluster().me().node.to_string();
    let others = told.nodes.iter().filter(|node| node.node != me);
    all.extend(others.filter_map(verification_of));
    all.push(layout_change(told.moving));
    for node in &told.nodes {
        all.extend(of_node(node));
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

/// Returns the change of the layout. It is there without one, too, so that its end can be seen.
fn layout_change(moving: Option<ProgressInfo>) -> OperationInfo {
    let of = |state| OperationInfo::new(OperationKind::LayoutChange, None, state);
    let Some(moving) = moving else {
        return of(OperationState::Idle);
    };
    OperationInfo {
        done: moving.done.into(),
        all: Some(moving.partitions.into()),
        unit: Some("partitions".into()),
        rows: Some(moving.rows),
        problems: moving.trouble.iter().count() as u64,
        trouble: moving.trouble.clone(),
        ..of(match moving.trouble {
            Some(_) => OperationState::Stuck,
            None => OperationState::Running,
        })
    }
}

/// Returns the operations that each node has: scrub, repair of blocks, anti-entropy.
pub(super) fn of_node(node: &RepairNode) -> [OperationInfo; 3] {
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
    let scrubs = match scrub.running {
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
            trouble: scrub.stopped.then(|| STOPPED.to_owned()),
            ..OperationInfo::new(Scrub, Some(node), scrubs)
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
            ..OperationInfo::new(AntiEntropy, Some(node), anti_entropy_state(node))
        },
    ]
}

/// Returns the state of a node's anti-entropy. A pass that broke off or left rows is followed by another
/// one after a pause, and for a node that is away, once it is back.
fn anti_entropy_state(node: &RepairNode) -> OperationState {
    let mut others = node.behind.iter();
    if node.comparing {
        OperationState::Running
    } else if others.any(|other| other.rows > 0 || other.trouble.is_some()) {
        OperationState::Stuck
    } else {
        OperationState::Idle
    }
}

fn verification(admin: &Admin) -> OperationInfo {
    let info = verify::describe(admin);
    let state = match (info.began_ms, info.ended_ms) {
        (0, _) => OperationState::Idle,
        (_, 0) => OperationState::Running,
        _ => OperationState::Done,
    };
    let stopped = info.stopped.then(|| STOPPED.to_owned());
    OperationInfo {
        began_ms: some(info.began_ms),
        ended_ms: some(info.ended_ms),
        done: info.nodes.iter().filter(|node| node.ended).count() as u64,
        all: Some(info.nodes.len() as u64),
        unit: Some("nodes".into()),
        problems: info.problems(),
        trouble: info.unchecked().into_iter().next().or(stopped),
        ..OperationInfo::new(OperationKind::Verification, None, state)
    }
}

/// Returns the verification that another node was asked for.
fn verification_of(node: &RepairNode) -> Option<OperationInfo> {
    let asked = node.verification.as_ref()?;
    Some(OperationInfo {
        began_ms: some(asked.began_ms),
        ended_ms: some(asked.ended_ms),
        done: asked.nodes_done,
        all: Some(asked.nodes),
        unit: Some("nodes".into()),
        problems: asked.problems,
        trouble: asked.trouble.clone(),
        ..OperationInfo::new(
            OperationKind::Verification,
            Some(node),
            match asked.ended_ms {
                0 => OperationState::Running,
                _ => OperationState::Done,
            },
        )
    })
}

/// Returns the last snapshot that this node was asked for.
fn snapshot(admin: &Admin) -> OperationInfo {
    let last = admin.snapshots.lock().clone();
    let state = match (last.began_ms, last.ended_ms, &last.trouble) {
        (0, ..) => OperationState::Idle,
        (_, 0, _) => OperationState::Running,
        (_, _, Some(_)) => OperationState::Stuck,
        _ => OperationState::Done,
    };
    OperationInfo {
        trouble: last.trouble.clone(),
        began_ms: some(last.began_ms),
        ended_ms: some(last.ended_ms),
        done: last.bytes,
        unit: Some("bytes".into()),
        problems: last.trouble.iter().count() as u64,
        ..OperationInfo::new(OperationKind::Snapshot, None, state)
    }
}

fn lifecycle(admin: &Admin) -> OperationInfo {
    let status = admin.model.expiry_status();
    // Those of earlier walks are tried again in this one.
    let problems = status.counts.failed.saturating_sub(status.failed_before);
    let info = upkeep::lifecycle_info(status);
    let state = match (info.running, info.waiting) {
        (false, true) if info.trouble.is_some() => OperationState::Stuck,
        (false, false) => OperationState::Idle,
        _ => OperationState::Running,
    };
    let is_left = state == OperationState::Idle && info.parts_done < info.parts;
    let stopped = is_left.then(|| STOPPED.to_owned());
    OperationInfo {
        began_ms: some(info.began_ms),
        ended_ms: some(info.ended_ms),
        next_ms: info.next_ms,
        done: info.parts_done,
        all: Some(info.parts),
        unit: Some("parts of buckets".into()),
        problems,
        trouble: info.trouble.or(stopped),
        ..OperationInfo::new(OperationKind::Lifecycle, None, state)
    }
}

/// Returns the rotation of the keyring: all of the cluster work on it.
async fn rotation(admin: &Admin) -> OperationInfo {
    let of = |state| OperationInfo::new(OperationKind::KeyringRotation, None, state);
    let unknown = |why: String| OperationInfo {
        trouble: Some(why),
        ..of(OperationState::Unknown)
    };
    let ring = match tokio::time::timeout(STATUS_TIMEOUT, admin.model.keyring_status()).await {
        Ok(Ok(ring)) => ring,
        Ok(Err(error)) => return unknown(error.to_string()),
        Err(_) => return unknown("the keyring cannot be read in time".into()),
    };
    // After a pass that found nothing to wrap again, only the last one is to come.
    let state = match (ring.is_rotating, ring.last_pass_ms) {
        (true, None) => OperationState::Running,
        _ => OperationState::Idle,
    };
    OperationInfo {
        began_ms: ring
            .keys
            .last()
            .filter(|_| ring.is_rotating)
            .map(|key| key.made_ms),
        next_ms: ring.last_pass_ms,
        done: ring.buckets_done,
        all: Some(ring.buckets),
        unit: Some("buckets".into()),
        problems: if ring.is_rotating {
            ring.counts.failed
        } else {
            0
        },
        trouble: ring.trouble,
        ..of(state)
    }
}

/// Returns nothing if storage does not answer.
async fn garbage_collection(admin: &Admin) -> Option<OperationInfo> {
    let tasks = upkeep::gc_info(admin).await?.tasks;
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

/// Returns the time; `None` for 0, which stands for none.
fn some(time_ms: u64) -> Option<u64> {
    (time_ms > 0).then_some(time_ms)
}

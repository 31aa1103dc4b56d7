//! Scrubbing, repair and anti-entropy.

use std::sync::Arc;

use archipel_cluster::{AntiEntropyStatus, PeerStatus, RepairStatus, ScrubStatus};
use archipel_model::ExpiryStatus;
use archipel_storage::RowKey;
use axum::extract::State;
use tokio::time::{Instant, timeout_at};

use super::Admin;
use super::answer::{Accepted, Json, Read, Refusal};
use super::node::STATUS_TIMEOUT;
use super::types::{
    AntiEntropyInfo, BlockTrouble, GcInfo, LifecycleInfo, OperationKind, RepairCounts, ScrubInfo,
    StartScrub, Upkeep,
};

/// Stands for the name of something that storage did not tell in time.
const UNNAMED: &str = "something whose name cannot be read now";

/// Shows scrubbing, repair and anti-entropy on this node.
#[utoipa::path(
    get, path = "/v1/scrub", tag = "maintenance", operation_id = "get_scrub",
    responses((status = 200, description = "The maintenance of this node", body = Upkeep)),
)]
pub(super) async fn show(State(admin): State<Arc<Admin>>) -> Json<Upkeep> {
    Json(describe(&admin).await)
}

/// Returns how scrubbing, repair and anti-entropy go on this node.
pub(super) async fn describe(admin: &Admin) -> Upkeep {
    let cluster = admin.model.cluster();
    Upkeep {
        scrub: scrub_info(cluster.upkeep().scrub_status()),
        repair: repair_counts(admin, cluster.upkeep().repair_status(), names_deadline()).await,
        anti_entropy: anti_entropy_info(&cluster.upkeep().anti_entropy_status()),
        gc: gc_info(admin).await,
    }
}

/// Shows what this node does about lifecycle rules.
#[utoipa::path(
    get, path = "/v1/lifecycle", tag = "lifecycle", operation_id = "get_lifecycle",
    responses((status = 200, description = "Lifecycle rules on this node", body = LifecycleInfo)),
)]
pub(super) async fn lifecycle(State(admin): State<Arc<Admin>>) -> Json<LifecycleInfo> {
    Json(lifecycle_info(admin.model.expiry_status()))
}

pub(super) fn lifecycle_info(status: ExpiryStatus) -> LifecycleInfo {
    let counts = status.counts;
    let is_left = status.waiting || status.parts_done < status.parts;
    LifecycleInfo {
        day_seconds: status.day_ms / 1000,
        buckets: status.buckets,
        running: status.running,
        waiting: status.waiting,
        began_ms: status.began_ms,
        ended_ms: status.ended_ms,
        next_ms: status.next_ms,
        parts: status.parts,
        parts_done: status.parts_done,
        examined: counts.examined,
        expired_objects: counts.objects,
        expired_versions: counts.versions,
        expired_markers: counts.markers,
        expired_bytes: counts.bytes,
        aborted_uploads: counts.uploads,
        skipped: counts.skipped,
        failed: counts.failed,
        trouble: status.trouble.filter(|_| is_left),
    }
}

/// Returns the state of garbage collection; `None` if storage does not tell.
pub(super) async fn gc_info(admin: &Admin) -> Option<GcInfo> {
    match tokio::time::timeout(STATUS_TIMEOUT, admin.model.gc_tasks()).await {
        Ok(Ok(tasks)) => Some(GcInfo {
            tasks,
            dead_grants: admin.model.is_dropping_dead_grants(),
        }),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the queue of garbage collection cannot be read");
            None
        }
        Err(_) => None,
    }
}

fn anti_entropy_info(anti_entropy: &AntiEntropyStatus) -> AntiEntropyInfo {
    let peers = &anti_entropy.peers;
    let sum = |of: fn(&PeerStatus) -> u64| peers.iter().map(of).sum::<u64>();
    AntiEntropyInfo {
        away: sum(|peer| u64::from(peer.away)),
        partitions: sum(|peer| peer.partitions),
        rows: sum(|peer| peer.rows),
        waiting_bytes: anti_entropy.waiting_bytes,
        came_rows: anti_entropy.rows,
        came_bytes: anti_entropy.block_bytes,
        trouble: peers.iter().find_map(|peer| peer.trouble.clone()),
    }
}

/// Begins a pass of scrubbing on this node now. Waiting repairs are tried again, too.
#[utoipa::path(
    post, path = "/v1/scrub/start", tag = "maintenance", operation_id = "start_scrub",
    request_body = StartScrub,
    responses((
        status = 202, description = "It has begun", body = Upkeep,
        headers(("Location" = String, description = "The operation")),
    )),
)]
pub(super) async fn start(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<StartScrub>,
) -> Result<Accepted<Upkeep>, Refusal> {
    if ask.rate == Some(0) {
        return Err(Refusal::invalid(
            "a rate of 0 would never end: stop the scrub instead",
        ));
    }
    let cluster = admin.model.cluster();
    cluster
        .upkeep()
        .scrub_start(ask.rate)
        .await
        .map_err(failed)?;
    cluster.upkeep().retry_repairs();
    let operation = id(&admin, OperationKind::Scrub);
    Ok(Accepted(operation, describe(&admin).await))
}

/// Returns the id of an operation of this node.
pub(super) fn id(admin: &Admin, kind: OperationKind) -> String {
    let me = admin.model.cluster().me().node;
    format!("{}:{}", kind.name(), me.short())
}

/// Applies all lifecycle rules once more, on this node: it removes what has expired by now. A walk that
/// was cancelled begins again.
#[utoipa::path(
    post, path = "/v1/lifecycle/start", tag = "lifecycle", operation_id = "start_lifecycle",
    responses((
        status = 202, description = "It begins", body = LifecycleInfo,
        headers(("Location" = String, description = "The operation")),
    )),
)]
pub(super) async fn start_lifecycle(State(admin): State<Arc<Admin>>) -> Accepted<LifecycleInfo> {
    admin.model.start_expiry();
    let operation = OperationKind::Lifecycle.name().to_owned();
    Accepted(operation, lifecycle_info(admin.model.expiry_status()))
}

/// Ends what lifecycle rules do on this node, after the step that it is at. They go on the next day, or
/// when they are started again.
#[utoipa::path(
    post, path = "/v1/lifecycle/stop", tag = "lifecycle", operation_id = "stop_lifecycle",
    responses((status = 200, description = "Lifecycle rules on this node", body = LifecycleInfo)),
)]
pub(super) async fn stop_lifecycle(State(admin): State<Arc<Admin>>) -> Json<LifecycleInfo> {
    admin.model.stop_expiry();
    lifecycle(State(admin)).await
}

/// Compares this node's data with those of all other nodes soon, instead of when it is due.
#[utoipa::path(
    post, path = "/v1/anti-entropy/start", tag = "maintenance", operation_id = "start_anti_entropy",
    responses((
        status = 202, description = "It begins", body = Upkeep,
        headers(("Location" = String, description = "The operation")),
    )),
)]
pub(super) async fn start_anti_entropy(State(admin): State<Arc<Admin>>) -> Accepted<Upkeep> {
    admin.model.cluster().upkeep().anti_entropy_start();
    let operation = id(&admin, OperationKind::AntiEntropy);
    Accepted(operation, describe(&admin).await)
}

/// Ends the current pass of scrubbing on this node.
#[utoipa::path(
    post, path = "/v1/scrub/stop", tag = "maintenance", operation_id = "stop_scrub",
    responses((status = 200, description = "The maintenance of this node", body = Upkeep)),
)]
pub(super) async fn stop(State(admin): State<Arc<Admin>>) -> Result<Json<Upkeep>, Refusal> {
    admin
        .model
        .cluster()
        .upkeep()
        .scrub_stop()
        .await
        .map_err(failed)?;
    Ok(Json(describe(&admin).await))
}

fn failed(error: archipel_cluster::Error) -> Refusal {
    archipel_model::Error::from(error).into()
}

/// Describes scrubbing.
pub(super) fn scrub_info(scrub: ScrubStatus) -> ScrubInfo {
    ScrubInfo {
        running: scrub.running,
        stopped: scrub.stopped,
        asked: scrub.asked,
        rate: scrub.rate,
        began_ms: scrub.began_ms,
        ended_ms: scrub.ended_ms,
        next_ms: scrub.next_ms,
        blocks: scrub.blocks,
        bytes: scrub.bytes,
        stored_bytes: scrub.stored_bytes,
        damaged: scrub.damaged,
    }
}

/// Returns the time until which names of damaged things are waited for.
pub(super) fn names_deadline() -> Instant {
    Instant::now() + STATUS_TIMEOUT
}

/// Returns the name of what a row is. Some names are read from storage, which may hang: after
/// `deadline` none is asked for any more.
pub(super) async fn name_of_row(admin: &Admin, row: &RowKey, deadline: Instant) -> String {
    let name = match Instant::now() < deadline {
        true => timeout_at(deadline, admin.model.name_of_row(row))
            .await
            .ok(),
        false => None,
    };
    name.unwrap_or_else(|| UNNAMED.into())
}

/// Returns the state of repair, with damaged things by name, as far as the names are known before
/// `deadline`.
pub(super) async fn repair_counts(
    admin: &Admin,
    repair: RepairStatus,
    deadline: Instant,
) -> RepairCounts {
    let mut troubles = Vec::with_capacity(repair.troubles.len());
    for trouble in repair.troubles {
        let mut used_by = Vec::with_capacity(trouble.rows.len());
        for row in &trouble.rows {
            used_by.push(name_of_row(admin, row, deadline).await);
        }
        used_by.dedup();
        troubles.push(BlockTrouble {
            block: trouble.hash.to_string(),
            why: trouble.why,
            used_by,
        });
    }
    RepairCounts {
        waiting: repair.waiting,
        repaired: repair.repaired,
        failed: repair.failed,
        stuck: repair.stuck,
        troubles,
    }
}

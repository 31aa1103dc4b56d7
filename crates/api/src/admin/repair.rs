//! Faults of the cluster, and their repair.

use std::sync::Arc;

use archipel_base::NodeId;
use archipel_cluster::{Lagging, MaintenanceStatus, VerificationState};
use axum::extract::State;
use tokio::time::Instant;

use super::answer::{Accepted, Json, Read, Refusal};
use super::types::{
    BehindInfo, DiskSpace, OperationKind, RepairBlocks, RepairInfo, RepairNode,
    VerificationSummary, VerifyInfo,
};
use super::{Admin, layout, node, upkeep, verify};

/// The default rate of a repairing scrub, in bytes a second.
const RATE: u64 = 64 << 20;

/// Shows the faults that all nodes report, and what is done about them.
#[utoipa::path(
    get, path = "/v1/repair", tag = "maintenance", operation_id = "get_repair",
    responses((status = 200, description = "Faults and repairs", body = RepairInfo)),
)]
pub(super) async fn show(State(admin): State<Arc<Admin>>) -> Json<RepairInfo> {
    Json(gather(&admin, None).await)
}

/// Starts a verification and repair of stored blocks on all nodes.
#[utoipa::path(
    post, path = "/v1/repair/blocks", tag = "maintenance", operation_id = "repair_blocks",
    request_body = RepairBlocks,
    responses((
        status = 202, description = "The scrubs have begun", body = RepairInfo,
        headers(("Location" = String, description = "The operation of the node that was asked")),
    )),
)]
pub(super) async fn blocks(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<RepairBlocks>,
) -> Result<Accepted<RepairInfo>, Refusal> {
    if ask.rate == Some(0) {
        return Err(Refusal::invalid("a rate of 0 would never end"));
    }
    let told = gather(&admin, Some(ask.rate.unwrap_or(RATE))).await;
    Ok(Accepted(upkeep::id(&admin, OperationKind::Scrub), told))
}

pub(super) async fn gather(admin: &Admin, scrub: Option<u64>) -> RepairInfo {
    let cluster = admin.model.cluster();
    let condition = node::cluster(admin);
    let mut told = Vec::new();
    let moving = async {
        let epoch = cluster.epoch()?;
        cluster.layouts().driven_progress_of(&epoch).await
    };
    let statuses = cluster.upkeep().maintenance_of_all(scrub);
    let (statuses, moving) = tokio::join!(statuses, moving);
    let deadline = upkeep::names_deadline();
    for (node, status) in statuses {
        told.push(describe(admin, node, status, deadline).await);
    }
    let verified: VerifyInfo = verify::describe(admin);
    RepairInfo {
        advice: condition.map(|status| status.advice).unwrap_or_default(),
        moving: layout::describe_progress(admin, moving).await,
        nodes: told,
        verified_ms: verified.ended_ms,
        verified_problems: verified.problems(),
    }
}

async fn describe(
    admin: &Admin,
    node: NodeId,
    status: Result<MaintenanceStatus, String>,
    deadline: Instant,
) -> RepairNode {
    let told = RepairNode {
        node: node.to_string(),
        short: node.short(),
        ..RepairNode::default()
    };
    match status {
        Err(why) => RepairNode {
            away: Some(why),
            ..told
        },
        Ok(status) => RepairNode {
            scrub: upkeep::scrub_info(status.scrub),
            repair: upkeep::repair_counts(admin, status.repairs, deadline).await,
            failed_disks: status
                .failed_disks
                .into_iter()
                .map(|(number, why)| format!("disk {number}: {why}"))
                .collect(),
            space: status.space.map(|space| DiskSpace {
                used_bytes: space.used,
                free_bytes: space.free,
                capacity_bytes: space.total,
            }),
            behind: status.lagging.into_iter().map(behind).collect(),
            comparing: status.comparing,
            verification: status.verification.map(verification),
            ..told
        },
    }
}

fn verification(state: VerificationState) -> VerificationSummary {
    VerificationSummary {
        began_ms: state.began_ms,
        ended_ms: state.ended_ms,
        nodes: state.nodes,
        nodes_done: state.done,
        problems: state.problems,
        trouble: state.trouble,
    }
}

fn behind(behind: Lagging) -> BehindInfo {
    BehindInfo {
        node: behind.node.short(),
        away: behind.away,
        partitions: behind.partitions,
        rows: behind.rows,
        trouble: behind.trouble,
    }
}

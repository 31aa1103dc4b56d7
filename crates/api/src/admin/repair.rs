//! Faults of the cluster, and their repair.

use archipel_base::NodeId;
use archipel_cluster::{Lagging, MaintenanceStatus};

use super::answer::Refusal;
use super::types::{BehindInfo, RepairBlocks, RepairInfo, RepairNode, VerifyInfo};
use super::{Admin, condition, layout, nodes, upkeep, verify};

/// The default rate of a repairing scrub, in bytes a second.
const RATE: u64 = 64 << 20;

/// Returns the faults that all nodes report.
pub(super) async fn show(admin: &Admin) -> RepairInfo {
    gather(admin, None).await
}

/// Starts a verification and repair of stored blocks on all nodes.
pub(super) async fn blocks(admin: &Admin, ask: RepairBlocks) -> Result<RepairInfo, Refusal> {
    if ask.rate == Some(0) {
        return Err(Refusal::invalid("a rate of 0 would never end"));
    }
    Ok(gather(admin, Some(ask.rate.unwrap_or(RATE))).await)
}

async fn gather(admin: &Admin, scrub: Option<u64>) -> RepairInfo {
    let cluster = admin.model.cluster();
    let epoch = cluster.epoch();
    let condition = epoch.map(|epoch| condition::assess(&epoch, &nodes::list(admin)));
    let mut told = Vec::new();
    for (node, status) in cluster.upkeep().maintenance_of_all(scrub).await {
        told.push(describe(admin, node, status).await);
    }
    let verified: VerifyInfo = verify::show(admin);
    RepairInfo {
        advice: condition.map(|status| status.advice).unwrap_or_default(),
        moving: cluster.layouts().progress().map(layout::describe_progress),
        nodes: told,
        verified_ms: verified.ended_ms,
        verified_problems: verified.problems(),
    }
}

async fn describe(
    admin: &Admin,
    node: NodeId,
    status: Result<MaintenanceStatus, String>,
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
            repair: upkeep::repair_counts(admin, status.repairs).await,
            failed_disks: status
                .failed_disks
                .into_iter()
                .map(|(number, why)| format!("disk {number}: {why}"))
                .collect(),
            behind: status.lagging.into_iter().map(behind).collect(),
            ..told
        },
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

//! What is wrong with the cluster, and what is done about it.

use archipel_base::NodeId;
use archipel_cluster::{Behind, Care};

use super::answer::Refusal;
use super::types::{BehindInfo, RepairBlocks, RepairInfo, RepairNode, VerifyInfo};
use super::{Admin, condition, layout, nodes, upkeep, verify};

/// How fast a scrub goes that repairs, if nothing else is asked for, in bytes a second.
const RATE: u64 = 64 << 20;

/// What is wrong, as all nodes tell.
pub(super) async fn show(admin: &Admin) -> RepairInfo {
    gather(admin, None).await
}

/// Has all nodes verify and mend what they store.
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
    for (node, care) in cluster.care_of_all(scrub).await {
        told.push(describe(admin, node, care).await);
    }
    let verified: VerifyInfo = verify::show(admin);
    RepairInfo {
        advice: condition.map(|status| status.advice).unwrap_or_default(),
        moving: cluster.progress().map(layout::describe_progress),
        nodes: told,
        verified_ms: verified.ended_ms,
        verified_problems: verified.problems(),
    }
}

async fn describe(admin: &Admin, node: NodeId, care: Result<Care, String>) -> RepairNode {
    let told = RepairNode {
        node: node.to_string(),
        short: node.short(),
        ..RepairNode::default()
    };
    match care {
        Err(why) => RepairNode {
            away: Some(why),
            ..told
        },
        Ok(care) => RepairNode {
            scrub: upkeep::scrub_info(care.scrub),
            mending: upkeep::mending_info(admin, care.mending).await,
            failed_disks: care
                .failed_disks
                .into_iter()
                .map(|(number, why)| format!("disk {number}: {why}"))
                .collect(),
            behind: care.behind.into_iter().map(behind).collect(),
            ..told
        },
    }
}

fn behind(behind: Behind) -> BehindInfo {
    BehindInfo {
        node: behind.node.short(),
        away: behind.away,
        partitions: behind.partitions,
        rows: behind.rows,
        trouble: behind.trouble,
    }
}

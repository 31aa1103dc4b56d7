//! `archipel status`

use archipel_api::admin::types::{
    AntiEntropyInfo, ClusterState, ClusterStatus, DiskStatus, NodeStatus,
};

use super::anti_entropy;
use super::scrub;
use super::table;
use super::target::Target;
use crate::client::Failure;
use crate::config::size;

/// Shows a running node. Fails if the node has problems or if a part of the cluster is unavailable,
/// so that scripts notice.
pub async fn run(target: &Target) -> Result<(), Failure> {
    let client = target.client()?;
    let mut status: NodeStatus = client.get("/v1/status").await?;
    if target.json {
        table::print_json(&status)?
    } else {
        let before = status.upkeep.anti_entropy.clone();
        if anti_entropy::is_running(&before) {
            tokio::time::sleep(anti_entropy::SAMPLE).await;
            status = client.get("/v1/status").await?;
        }
        show(&status, &before)?;
    }
    if !status.troubles.is_empty() {
        let troubles = status.troubles.join("; ");
        return Err(Failure::new(format!("the node has problems: {troubles}")));
    }
    let stuck = status.upkeep.repair.stuck;
    if stuck > 0 {
        return Err(Failure::new(format!(
            "{} could not be repaired yet: archipel scrub status tells more",
            table::count(stuck, "damaged block")
        )));
    }
    let state = status.cluster.map(|cluster| cluster.state);
    match state {
        Some(ClusterState::Unavailable) => Err(Failure::new(
            "too many nodes are unreachable: part of the data can be neither read nor written"
                .into(),
        )),
        _ => Ok(()),
    }
}

/// Prints the status. `before` is the state of anti-entropy one [`anti_entropy::SAMPLE`] ago.
fn show(status: &NodeStatus, before: &AntiEntropyInfo) -> Result<(), Failure> {
    table::print_pairs(&pairs(status, before))?;
    for line in &status.warnings {
        table::text(&format!("  warning: {line}"))?;
    }
    for line in status.cluster.iter().flat_map(|cluster| &cluster.advice) {
        table::text(&format!("  {line}"))?;
    }
    table::text("")?;
    let row = |disk: &DiskStatus| {
        let (used, free) = (size::show(disk.used_bytes), size::show(disk.free_bytes));
        let capacity = size::show(disk.capacity_bytes);
        [disk.path.clone(), disk.state.clone(), used, free, capacity]
    };
    let rows: Vec<_> = status.disks.iter().map(row).collect();
    table::print(["DISK", "STATE", "USED", "FREE", "CAPACITY"], &rows)
}

/// Returns the lines about the node, each with its name.
fn pairs(status: &NodeStatus, before: &AntiEntropyInfo) -> [(&'static str, String); 13] {
    let commit = status
        .commit
        .as_ref()
        .map(|c| format!(" ({c})"))
        .unwrap_or_default();
    [
        ("node", status.node_id.clone()),
        (
            "version",
            format!("{}{commit}, feature level {}", status.version, status.level),
        ),
        (
            "up",
            format!("{} s, start number {}", status.uptime_seconds, status.boot),
        ),
        (
            "S3",
            format!("{}, region {}", status.s3_endpoint, status.region),
        ),
        (
            "websites",
            status.web_endpoint.clone().unwrap_or("none".into()),
        ),
        (
            "metadata",
            format!(
                "{}, {}, {}",
                status.engine,
                status.durability,
                size::show(status.metadata_bytes)
            ),
        ),
        ("buckets", count(status.buckets)),
        ("access keys", count(status.access_keys)),
        ("cluster", cluster(status.cluster.as_ref())),
        ("scrub", scrub::scrub_line(&status.upkeep.scrub)),
        ("damaged", scrub::repair_line(&status.upkeep.repair)),
        (
            "anti-entropy",
            anti_entropy::line(&status.upkeep.anti_entropy, before),
        ),
        (
            "other nodes",
            match &status.transport {
                Some(transport) => format!("over {transport}"),
                None => "none: the settings have no [cluster] section".into(),
            },
        ),
    ]
}

/// Shows a number, if it is known.
fn count(known: Option<u64>) -> String {
    known.map_or("not known".into(), |count| count.to_string())
}

fn cluster(status: Option<&ClusterStatus>) -> String {
    let Some(cluster) = status else {
        return "not in a layout yet".into();
    };
    format!(
        "{}: {} in {}, layout version {}, feature level {}",
        cluster.state.name(),
        table::count(cluster.nodes.into(), "node"),
        table::count(cluster.zones.into(), "zone"),
        cluster.layout_version,
        cluster.level
    )
}

//! `archipel status`

use archipel_api::admin::types::{ClusterState, ClusterStatus, HealingInfo, NodeStatus};

use super::healing;
use super::scrub;
use super::table;
use super::target::Target;
use crate::client::Failure;
use crate::config::size;

/// Shows a running node. Fails if it has troubles or something in the cluster is unavailable, so that
/// scripts notice.
pub async fn run(target: &Target) -> Result<(), Failure> {
    let client = target.client()?;
    let mut status: NodeStatus = client.get("/v1/status").await?;
    match target.json {
        true => table::print_json(&status)?,
        false => {
            let before = status.upkeep.healing.clone();
            if healing::is_under_way(&before) {
                tokio::time::sleep(healing::SAMPLE).await;
                status = client.get("/v1/status").await?;
            }
            show(&status, &before)?;
        }
    }
    if !status.troubles.is_empty() {
        let troubles = status.troubles.join("; ");
        return Err(Failure(format!("the node has troubles: {troubles}")));
    }
    let stuck = status.upkeep.mending.stuck;
    if stuck > 0 {
        return Err(Failure(format!(
            "{stuck} damaged blocks could not be mended yet: archipel scrub status names them"
        )));
    }
    let state = status.cluster.map(|cluster| cluster.state);
    match state {
        Some(ClusterState::Unavailable) => Err(Failure(
            "too many nodes are away: part of the data cannot be read or written".into(),
        )),
        _ => Ok(()),
    }
}

/// `before`: how healing was [`healing::SAMPLE`] ago.
fn show(status: &NodeStatus, before: &HealingInfo) -> Result<(), Failure> {
    let commit = status
        .commit
        .as_ref()
        .map(|c| format!(" ({c})"))
        .unwrap_or_default();
    table::print_pairs(&[
        ("node", status.node_id.clone()),
        ("version", format!("{}{commit}", status.version)),
        (
            "up",
            format!("{} s, start number {}", status.uptime_seconds, status.boot),
        ),
        (
            "S3",
            format!("{}, region {}", status.s3_endpoint, status.region),
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
        ("buckets", status.buckets.to_string()),
        ("access keys", status.access_keys.to_string()),
        ("cluster", cluster(status.cluster.as_ref())),
        ("scrub", scrub::scrub(&status.upkeep.scrub)),
        ("damaged", scrub::mending(&status.upkeep.mending)),
        ("healing", healing::line(&status.upkeep.healing, before)),
        (
            "other nodes",
            match &status.transport {
                Some(transport) => format!("over {transport}"),
                None => "none: there is no [cluster] in the settings".into(),
            },
        ),
    ])?;
    let advice = status.cluster.iter().flat_map(|cluster| &cluster.advice);
    advice
        .into_iter()
        .try_for_each(|line| table::text(&format!("  {line}")))?;
    table::text("")?;
    let rows: Vec<[String; 5]> = status
        .disks
        .iter()
        .map(|d| {
            let (used, free) = (size::show(d.used_bytes), size::show(d.free_bytes));
            let capacity = size::show(d.capacity_bytes);
            [d.path.clone(), d.state.clone(), used, free, capacity]
        })
        .collect();
    table::print(["DISK", "STATE", "USED", "FREE", "CAPACITY"], &rows)
}

fn cluster(status: Option<&ClusterStatus>) -> String {
    let Some(cluster) = status else {
        return "in no layout yet".into();
    };
    let count = |count: u32, name: &str| match count {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    };
    format!(
        "{}: {} in {}, layout version {}",
        cluster.state.name(),
        count(cluster.nodes, "node"),
        count(cluster.zones, "zone"),
        cluster.layout_version
    )
}

//! `archipel repair`

use archipel_api::admin::types::{RepairBlocks, RepairInfo, RepairNode};
use clap::Subcommand;

use super::progress::{LOOK, Progress, bar};
use super::scrub;
use super::table;
use super::target::Target;
use crate::client::{Client, Failure};

/// What can be repaired.
#[derive(Subcommand)]
pub enum Command {
    /// Have all nodes read and verify what they store, mend what is damaged, and wait for it
    Blocks {
        /// How fast each node reads, in MB a second
        #[arg(long, value_name = "MB/S")]
        rate: Option<u64>,
    },
}

/// Tells what is wrong, or repairs.
pub async fn run(target: &Target, command: Option<Command>) -> Result<(), Failure> {
    let client = target.client()?;
    let info = match command {
        None => client.get("/v1/repair").await?,
        Some(Command::Blocks { rate }) => {
            let rate = rate.map(|megabytes| megabytes.saturating_mul(1_000_000));
            blocks(&client, RepairBlocks { rate }).await?
        }
    };
    match target.json {
        true => table::print_json(&info)?,
        false => words(&info).iter().try_for_each(|line| table::text(line))?,
    }
    let stuck: u64 = info.nodes.iter().map(|node| node.mending.stuck).sum();
    match stuck {
        0 => Ok(()),
        stuck => Err(Failure(format!(
            "{stuck} damaged blocks could not be mended"
        ))),
    }
}

/// Begins on all nodes and waits until they have read everything and mended what can be.
async fn blocks(client: &Client, ask: RepairBlocks) -> Result<RepairInfo, Failure> {
    let mut info: RepairInfo = client.post("/v1/repair/blocks", &ask).await?;
    let away = info.nodes.iter().filter(|node| node.away.is_some());
    for node in away {
        let why = node.away.as_deref().unwrap_or_default();
        table::text(&format!("node {} could not be asked: {why}", node.short))?;
    }
    let mut progress = Progress::new();
    while info.nodes.iter().any(is_busy) {
        progress.show(&line(&info));
        tokio::time::sleep(LOOK).await;
        info = client.get("/v1/repair").await?;
    }
    progress.end();
    Ok(info)
}

fn is_busy(node: &RepairNode) -> bool {
    let waiting = node.mending.waiting > node.mending.stuck;
    node.away.is_none() && (node.scrub.running || waiting)
}

fn line(info: &RepairInfo) -> String {
    let each = info.nodes.iter().map(|node| {
        let scrub = &node.scrub;
        let all = scrub.stored_bytes.max(scrub.bytes);
        let done = match scrub.running {
            true => scrub.bytes.min(all.saturating_sub(1)),
            false => all,
        };
        let mended = node.mending.mended;
        format!("{} {} {mended} mended", node.short, bar(done, all.max(1)))
    });
    each.collect::<Vec<_>>().join("  ")
}

/// What is wrong, what the cluster does about it, what is to be done.
fn words(info: &RepairInfo) -> Vec<String> {
    let mut lines = info.advice.clone();
    if let Some(moving) = &info.moving {
        lines.push(format!(
            "data moves to layout version {}: {} of {} partitions are done{}",
            moving.to_version,
            moving.done,
            moving.partitions,
            moving
                .trouble
                .as_ref()
                .map(|why| format!("; it does not go on: {why}"))
                .unwrap_or_default()
        ));
    }
    info.nodes
        .iter()
        .for_each(|node| about_node(node, &mut lines));
    match (info.verified_ms, info.verified_problems) {
        (0, _) | (_, 0) => {}
        (ended, problems) => lines.push(format!(
            "a verification found {problems} things wrong {} ago; to do: archipel verify shows whether they still are",
            table::age(ended)
        )),
    }
    if lines.is_empty() {
        lines.push("nothing is known to be wrong; archipel verify --deep looks closer".into());
    }
    lines
}

fn about_node(node: &RepairNode, lines: &mut Vec<String>) {
    let short = &node.short;
    if let Some(why) = &node.away {
        lines.push(format!(
            "node {short} could not be asked what is damaged there: {why}"
        ));
    }
    for disk in &node.failed_disks {
        lines.push(format!(
            "node {short}, {disk}: it takes no more writes, and what can be read moves to the node's other disks; \
             to do: replace it (docs/operations/disk-failed.md)"
        ));
    }
    for behind in node.behind.iter().filter(|behind| behind.partitions > 0) {
        let (other, partitions) = (&behind.node, behind.partitions);
        let trouble = behind
            .trouble
            .as_ref()
            .map(|why| format!("; the last attempt ended: {why}"));
        lines.push(format!(
            "node {short} differs from node {other} in {partitions} partitions, by at most {} rows: they are being \
             exchanged in the background{}",
            behind.rows,
            trouble.unwrap_or_default()
        ));
    }
    let mending = &node.mending;
    if mending.waiting > mending.stuck {
        let blocks = mending.waiting - mending.stuck;
        lines.push(format!(
            "node {short}: {blocks} damaged blocks are being replaced by good copies of other nodes"
        ));
    }
    for trouble in &mending.troubles {
        lines.push(format!(
            "node {short}: block {} of {} cannot be mended: {}; it is tried again within the hour; to do: bring back \
             nodes that are away, or put the object again, or delete it",
            trouble.block,
            trouble.used_by.join(", "),
            trouble.why
        ));
    }
    if node.scrub.running {
        lines.push(format!(
            "node {short} verifies what it stores: {}",
            scrub::scrub(&node.scrub)
        ));
    }
}

#[cfg(test)]
mod tests;

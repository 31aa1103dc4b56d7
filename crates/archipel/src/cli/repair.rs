//! `archipel repair`

use archipel_api::admin::types::{RepairBlocks, RepairInfo, RepairNode};
use clap::Subcommand;

use super::progress::{LOOK, Progress, bar};
use super::scrub;
use super::table;
use super::target::Target;
use crate::client::{Client, Failure};

/// The subcommands of `archipel repair`.
#[derive(Subcommand)]
pub enum Command {
    /// Read and verify the blocks of all nodes, repair damaged ones, and wait for the end
    Blocks {
        /// The read rate of each node, in MB a second
        #[arg(long, value_name = "MB/S")]
        rate: Option<u64>,
    },
}

/// Shows problems, or runs a repair.
pub async fn run(target: &Target, command: Option<Command>) -> Result<(), Failure> {
    let client = target.client()?;
    let info = match command {
        None => client.get("/v1/repair").await?,
        Some(Command::Blocks { rate }) => {
            let rate = rate.map(|megabytes| megabytes.saturating_mul(1_000_000));
            blocks(&client, RepairBlocks { rate }).await?
        }
    };
    if target.json {
        table::print_json(&info)?
    } else {
        describe(&info)
            .iter()
            .try_for_each(|line| table::text(line))?
    }
    let stuck: u64 = info.nodes.iter().map(|node| node.repair.stuck).sum();
    match stuck {
        0 => Ok(()),
        stuck => Err(Failure::new(format!(
            "{stuck} damaged blocks could not be repaired"
        ))),
    }
}

/// Starts a scrub on all nodes and waits until everything was read and repaired as far as possible.
async fn blocks(client: &Client, ask: RepairBlocks) -> Result<RepairInfo, Failure> {
    let mut info: RepairInfo = client.post("/v1/repair/blocks", &ask).await?;
    let mut progress = Progress::new();
    while info.nodes.iter().any(is_busy) {
        progress.show(&progress_line(&info));
        tokio::time::sleep(LOOK).await;
        info = client.get("/v1/repair").await?;
    }
    progress.end();
    Ok(info)
}

fn is_busy(node: &RepairNode) -> bool {
    let waiting = node.repair.waiting > node.repair.stuck;
    node.away.is_none() && (node.scrub.running || waiting)
}

fn progress_line(info: &RepairInfo) -> String {
    let each = info.nodes.iter().map(|node| {
        if node.away.is_some() {
            return format!("{} did not answer", node.short);
        }
        let scrub = &node.scrub;
        let all = scrub.stored_bytes.max(scrub.bytes);
        let done = if scrub.running {
            scrub.bytes.min(all.saturating_sub(1))
        } else {
            all
        };
        let repaired = node.repair.repaired;
        format!(
            "{} {} {repaired} repaired",
            node.short,
            bar(done, all.max(1))
        )
    });
    each.collect::<Vec<_>>().join("  ")
}

/// Describes the problems, what the cluster does about them, and what the operator can do.
fn describe(info: &RepairInfo) -> Vec<String> {
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
                .map(|why| format!("; the change is blocked: {why}"))
                .unwrap_or_default()
        ));
    }
    info.nodes
        .iter()
        .for_each(|node| describe_node(node, &mut lines));
    match (info.verified_ms, info.verified_problems) {
        (0, _) | (_, 0) => {}
        (ended, problems) => lines.push(format!(
            "a verification found {problems} problems {} ago; to do: run archipel verify again",
            table::age(ended)
        )),
    }
    if lines.is_empty() {
        lines.push("no problems are known; archipel verify --deep checks every block".into());
    }
    lines
}

fn describe_node(node: &RepairNode, lines: &mut Vec<String>) {
    let short = &node.short;
    if let Some(why) = &node.away {
        lines.push(format!(
            "node {short} did not answer, so its damaged blocks are unknown: {why}"
        ));
    }
    for disk in &node.failed_disks {
        lines.push(format!(
            "node {short}, {disk}: the disk takes no more writes, and its readable blocks move to the node's other disks; \
             to do: replace it (docs/operations/disk-failed.md)"
        ));
    }
    for behind in node.behind.iter().filter(|behind| behind.partitions > 0) {
        let (other, partitions) = (&behind.node, behind.partitions);
        let trouble = behind
            .trouble
            .as_ref()
            .map(|why| format!("; the last attempt failed: {why}"));
        lines.push(format!(
            "node {short} differs from node {other} in {partitions} partitions, by at most {} rows, which are being \
             exchanged in the background{}",
            behind.rows,
            trouble.unwrap_or_default()
        ));
    }
    let repair = &node.repair;
    if repair.waiting > repair.stuck {
        let blocks = repair.waiting - repair.stuck;
        lines.push(format!(
            "node {short}: {blocks} damaged blocks are being replaced by good copies from other nodes"
        ));
    }
    for trouble in &repair.troubles {
        lines.push(format!(
            "node {short}: block {} of {} cannot be repaired: {}; the next attempt is within the hour; to do: bring back \
             unreachable nodes, or upload the object again, or delete it",
            trouble.block,
            trouble.used_by.join(", "),
            trouble.why
        ));
    }
    if node.scrub.running {
        lines.push(format!(
            "node {short} verifies its data: {}",
            scrub::scrub_line(&node.scrub)
        ));
    }
}

#[cfg(test)]
mod tests;

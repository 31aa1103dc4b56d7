//! `archipel repair`

use std::collections::BTreeMap;

use archipel_api::admin::types::{RepairBlocks, RepairInfo, RepairNode};
use clap::Subcommand;
use tokio::time::Instant;

use super::progress::{LOOK, PATIENCE, Progress, attended, bar};
use super::scrub;
use super::table;
use super::target::Target;
use crate::client::{Client, Failure};

/// The message to a person who ends the wait.
const GOES_ON: &str = "the nodes go on in the background: archipel repair shows what they found, and archipel operation list --kind scrub how far they are";

/// The subcommands of `archipel repair`.
#[derive(Subcommand)]
pub enum Command {
    /// Read and verify the blocks of all nodes, repair damaged ones, and wait for the end
    Blocks {
        /// The read rate of each node, in MiB a second
        #[arg(long, value_name = "MIB/S")]
        rate: Option<u64>,
    },
}

/// Shows problems, or runs a repair.
pub async fn run(target: &Target, command: Option<Command>) -> Result<(), Failure> {
    let client = target.client()?;
    let (info, not_read) = match command {
        None => (client.get("/v1/repair").await?, Vec::new()),
        Some(Command::Blocks { rate }) => {
            let rate = rate.map(scrub::bytes_a_second);
            let ask = RepairBlocks { rate };
            let started: RepairInfo = client.post("/v1/repair/blocks", &ask).await?;
            attended(GOES_ON, blocks(&client, &started)).await?
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
    match (stuck, not_read.as_slice()) {
        (0, []) => Ok(()),
        (0, nodes) => Err(Failure::new(format!(
            "not all blocks of these nodes were read, because they did not answer or their scrub \
             was stopped: {}; fix: run the command again",
            nodes.join(" ")
        ))),
        (stuck, _) => Err(Failure::new(format!(
            "{} could not be repaired",
            table::count(stuck, "damaged block")
        ))),
    }
}

/// Waits until all nodes have read everything since `started`, and repaired it as far as possible.
/// Returns the state then, and the nodes that have not read everything.
async fn blocks(
    client: &Client,
    started: &RepairInfo,
) -> Result<(RepairInfo, Vec<String>), Failure> {
    let (mut info, mut missed) = (started.clone(), BTreeMap::new());
    let mut progress = Progress::new();
    loop {
        let now = Instant::now();
        note_missed(&info, &mut missed, now);
        let mut nodes = info.nodes.iter();
        if !nodes.any(|node| is_busy(node, started, &missed, now)) {
            break;
        }
        progress.show(&progress_line(&info));
        tokio::time::sleep(LOOK).await;
        info = client.get("/v1/repair").await?;
    }
    progress.end();
    let not_read = not_read(started, &info);
    Ok((info, not_read))
}

/// Notes since when each node does not answer.
fn note_missed(info: &RepairInfo, missed: &mut BTreeMap<String, Instant>, now: Instant) {
    for node in &info.nodes {
        match node.away {
            Some(_) => {
                missed.entry(node.node.clone()).or_insert(now);
            }
            None => {
                missed.remove(&node.node);
            }
        }
    }
}

/// Returns true if a node reads or repairs, or may do so: it has not answered for a short time.
/// `started` is the answer to the start.
fn is_busy(
    node: &RepairNode,
    started: &RepairInfo,
    missed: &BTreeMap<String, Instant>,
    now: Instant,
) -> bool {
    if node.away.is_some() {
        let since = missed.get(&node.node);
        return since.is_none_or(|since| now.duration_since(*since) < PATIENCE);
    }
    // A node that was away then did not begin. If one reads now, it is a scheduled scrub, which may
    // take weeks.
    let mut began = started.nodes.iter();
    let took_part = began.any(|began| began.node == node.node && began.away.is_none());
    (took_part && node.scrub.running) || node.repair.waiting > node.repair.stuck
}

/// Returns the nodes that have not read all their blocks since `started`.
fn not_read(started: &RepairInfo, now: &RepairInfo) -> Vec<String> {
    let has_read_all = |node: &&RepairNode| {
        let mut others = now.nodes.iter();
        let now = others.find(|other| other.node == node.node && other.away.is_none());
        let now = now.filter(|_| node.away.is_none());
        now.is_some_and(|now| scrub::has_read_all(&node.scrub, &now.scrub))
    };
    let left = started.nodes.iter().filter(|node| !has_read_all(node));
    left.map(|node| node.short.clone()).collect()
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
            "a verification found {} {} ago; to do: run archipel verify again",
            table::count(problems, "problem"),
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

//! `archipel anti-entropy`, and one line about the rows and blocks that a node must still fetch
//! from other nodes.

use std::time::Duration;

use archipel_api::admin::types::{AntiEntropyInfo, Upkeep};
use clap::Subcommand;

use super::table;
use super::target::Target;
use crate::client::Failure;
use crate::config::size;

/// The time between the two samples of a rate.
pub const SAMPLE: Duration = Duration::from_secs(2);

/// The subcommands of `archipel anti-entropy`.
#[derive(Subcommand)]
pub enum Command {
    /// Compare the server's data with those of all other nodes soon, instead of when it is due
    Start,
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let Command::Start = command;
    let upkeep: Upkeep = target.client()?.post("/v1/anti-entropy/start", &()).await?;
    if target.json {
        return table::print_json(&upkeep);
    }
    let now = &upkeep.anti_entropy;
    table::print_pairs(&[("anti-entropy", line(now, now))])
}

/// Returns true if the node knows of something to fetch.
pub fn is_running(anti_entropy: &AntiEntropyInfo) -> bool {
    anti_entropy.rows > 0 || anti_entropy.waiting_bytes > 0
}

/// Describes what is left and the time it takes at the rate since `before`, one [`SAMPLE`] ago.
pub fn line(now: &AntiEntropyInfo, before: &AntiEntropyInfo) -> String {
    let mut line = if is_running(now) {
        left(now, before)
    } else {
        "up to date as far as known".into()
    };
    if now.came_rows > 0 {
        let bytes = size::show(now.came_bytes);
        line += &format!(
            "; {} and {bytes} received since the start",
            table::count(now.came_rows, "row")
        );
    }
    match now.away {
        0 => {}
        1 => line += "; 1 node to compare with is unreachable",
        away => line += &format!("; {away} nodes to compare with are unreachable"),
    }
    if let Some(why) = &now.trouble {
        line += &format!("; the last attempt failed: {why}");
    }
    line
}

fn left(now: &AntiEntropyInfo, before: &AntiEntropyInfo) -> String {
    let mut line = format!(
        "still to fetch: at most {} of {}, and {} of blocks",
        table::count(now.rows, "row"),
        table::count(now.partitions, "partition"),
        size::show(now.waiting_bytes)
    );
    if let Some(seconds) = seconds_left(now, before) {
        line += &format!(", about {} at the current rate", table::span(seconds));
    }
    line
}

/// Returns the longer of the times for rows and for blocks, or `None` if one made no progress.
fn seconds_left(now: &AntiEntropyInfo, before: &AntiEntropyInfo) -> Option<u64> {
    let rows = seconds(now.rows, before.rows.saturating_sub(now.rows));
    let came = now.came_bytes.saturating_sub(before.came_bytes);
    let blocks = seconds(now.waiting_bytes, came);
    Some(rows?.max(blocks?))
}

/// Returns the time for `left` at a rate of `moved` per [`SAMPLE`].
fn seconds(left: u64, moved: u64) -> Option<u64> {
    match (left, moved) {
        (0, _) => Some(0),
        (_, 0) => None,
        (left, moved) => Some(left.saturating_mul(SAMPLE.as_secs()) / moved),
    }
}

#[cfg(test)]
mod tests;

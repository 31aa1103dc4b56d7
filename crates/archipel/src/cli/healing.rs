//! How far a node is with fetching what other nodes have newer, and how long that will take.

use std::time::Duration;

use archipel_api::admin::types::HealingInfo;

use super::table;
use crate::config::size;

/// How long lies between the two looks that a rate is taken from.
pub const SAMPLE: Duration = Duration::from_secs(2);

/// Whether something is still to come, as far as the node knows.
pub fn is_under_way(healing: &HealingInfo) -> bool {
    healing.rows > 0 || healing.waiting_bytes > 0
}

/// In a line: what is left, and how long it takes at the rate since `before`, a [`SAMPLE`] ago.
pub fn line(now: &HealingInfo, before: &HealingInfo) -> String {
    let mut line = match is_under_way(now) {
        true => left(now, before),
        false => "nothing is known to be missing here".into(),
    };
    if now.came_rows > 0 {
        let bytes = size::show(now.came_bytes);
        line += &format!("; {} rows and {bytes} came since the start", now.came_rows);
    }
    match now.away {
        0 => {}
        1 => line += "; 1 node to compare with is away",
        away => line += &format!("; {away} nodes to compare with are away"),
    }
    if let Some(why) = &now.trouble {
        line += &format!("; the last attempt ended: {why}");
    }
    line
}

fn left(now: &HealingInfo, before: &HealingInfo) -> String {
    let mut line = format!(
        "at most {} rows of {} partitions and {} of blocks are still to come",
        now.rows,
        now.partitions,
        size::show(now.waiting_bytes)
    );
    if let Some(seconds) = seconds_left(now, before) {
        line += &format!(", about {} at the present rate", table::span(seconds));
    }
    line
}

/// What takes longest of rows and blocks; `None` if nothing moved.
fn seconds_left(now: &HealingInfo, before: &HealingInfo) -> Option<u64> {
    let rows = seconds(now.rows, before.rows.saturating_sub(now.rows));
    let came = now.came_bytes.saturating_sub(before.came_bytes);
    let blocks = seconds(now.waiting_bytes, came);
    Some(rows?.max(blocks?))
}

/// How long so much takes if `moved` of it took a [`SAMPLE`].
fn seconds(left: u64, moved: u64) -> Option<u64> {
    match (left, moved) {
        (0, _) => Some(0),
        (_, 0) => None,
        (left, moved) => Some(left.saturating_mul(SAMPLE.as_secs()) / moved),
    }
}

#[cfg(test)]
mod tests;

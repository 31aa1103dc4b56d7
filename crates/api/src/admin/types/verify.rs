//! Verification and repair.

use serde::{Deserialize, Serialize};

use super::{MendingInfo, ProgressInfo, ScrubInfo};

/// `POST /v1/verify`: begin a verification of all nodes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartVerify {
    /// Whether every block is read and compared with its name.
    #[serde(default)]
    pub deep: bool,
}

/// `GET /v1/verify`: the last verification that this node was asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VerifyInfo {
    /// Whether every block is read.
    pub deep: bool,
    /// When it began, in milliseconds since 1970; 0 if there was none.
    pub began_ms: u64,
    /// When it ended; 0 while it runs.
    pub ended_ms: u64,
    /// Whether data moved to a newer layout version when it began.
    #[serde(default)]
    pub moving: bool,
    /// The nodes' parts.
    pub nodes: Vec<VerifyNode>,
}

/// A node's part of a verification.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VerifyNode {
    /// The node's id.
    pub node: String,
    /// Its first digits.
    pub short: String,
    /// Whether its part has ended.
    pub ended: bool,
    /// Why it could not be asked, if so.
    pub away: Option<String>,
    /// What it does now, in words.
    pub step: String,
    /// How many are done,
    pub done: u64,
    /// of how many; 0 if that is not known.
    pub all: u64,
    /// Rows that it looked at.
    pub rows: u64,
    /// Blocks that its index has.
    pub blocks: u64,
    /// Blocks that were read and verified.
    pub verified: u64,
    /// Partitions that were compared with other replicas.
    pub compared: u64,
    /// How many things are wrong.
    pub problems: u64,
    /// The first hundred of them, in words.
    pub told: Vec<String>,
    /// What could not be checked, and why.
    pub unchecked: Vec<String>,
}

impl VerifyInfo {
    /// How many things are wrong.
    pub fn problems(&self) -> u64 {
        self.nodes.iter().map(|node| node.problems).sum()
    }

    /// What could not be checked, and why.
    pub fn unchecked(&self) -> Vec<String> {
        let each = self.nodes.iter().flat_map(|node| {
            let away = node.away.as_ref();
            let away = away.map(|why| format!("node {} could not be asked: {why}", node.short));
            let parts = node.unchecked.iter();
            let parts = parts.map(|what| format!("node {}: {what}", node.short));
            away.into_iter().chain(parts)
        });
        let moving = self.moving.then(|| {
            "data moves to a newer layout version: places that are being filled were not compared".into()
        });
        moving.into_iter().chain(each).collect()
    }
}

/// `POST /v1/repair/blocks`: all nodes read and verify what they store, and mend what is damaged.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepairBlocks {
    /// How fast each node reads, in bytes a second; 64 MiB a second if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
}

/// `GET /v1/repair`: what is wrong, what is done about it, and what is to be done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RepairInfo {
    /// What is away and what to do, as in the cluster's status.
    pub advice: Vec<String>,
    /// A change of the layout that is under way.
    pub moving: Option<ProgressInfo>,
    /// The nodes of the layout.
    pub nodes: Vec<RepairNode>,
    /// When the last verification ended that this node was asked for; 0 for never.
    pub verified_ms: u64,
    /// How many things it found.
    pub verified_problems: u64,
}

/// How a node looks after what it stores.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RepairNode {
    /// The node's id.
    pub node: String,
    /// Its first digits.
    pub short: String,
    /// Why it could not be asked, if so.
    pub away: Option<String>,
    /// Reading and verifying.
    pub scrub: ScrubInfo,
    /// Replacing what is damaged.
    pub mending: MendingInfo,
    /// Disks that failed: number and reason.
    pub failed_disks: Vec<String>,
    /// The nodes from which it has rows to fetch, or may have.
    #[serde(default)]
    pub behind: Vec<BehindInfo>,
}

/// What a node has to fetch from another, as far as it knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BehindInfo {
    /// The first digits of the other node's id.
    pub node: String,
    /// Whether it seems to be away.
    pub away: bool,
    /// Partitions in which the two differ.
    pub partitions: u64,
    /// Rows to look at, at most.
    pub rows: u64,
    /// Why it does not go on, if so.
    pub trouble: Option<String>,
}

/// A snapshot of a node's metadata: `GET`, `POST /v1/snapshots`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SnapshotInfo {
    /// Its name.
    pub name: String,
    /// When it was made, in milliseconds since 1970.
    pub made_ms: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

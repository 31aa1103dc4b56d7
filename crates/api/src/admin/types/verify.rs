//! Verification and repair.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ProgressInfo, RepairCounts, ScrubInfo};

/// `POST /v1/verify`: begin a verification of all nodes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartVerify {
    /// True to read every block and compare it with its name.
    #[serde(default)]
    pub deep: bool,
}

/// `GET /v1/verify`: the last verification that this node was asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct VerifyInfo {
    /// True if every block is read.
    pub deep: bool,
    /// The start, in milliseconds since 1970; 0 if there was no verification.
    pub began_ms: u64,
    /// The end; 0 while it runs.
    pub ended_ms: u64,
    /// True if data moved to a newer layout version at the start.
    #[serde(default)]
    pub moving: bool,
    /// True if an operator stopped it before it had verified everything.
    #[serde(default)]
    pub stopped: bool,
    /// The nodes' parts.
    pub nodes: Vec<VerifyNode>,
}

/// A node's part of a verification.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct VerifyNode {
    /// The node's id.
    pub node: String,
    /// Its first digits.
    pub short: String,
    /// True if its part has ended.
    pub ended: bool,
    /// The reason why the node could not be asked, if there is one.
    pub away: Option<String>,
    /// The current step, in words.
    pub step: String,
    /// The number of finished items.
    pub done: u64,
    /// The number of all items; 0 if it is unknown.
    pub all: u64,
    /// Rows that it read.
    pub rows: u64,
    /// The digest of these rows, in hexadecimal digits: the same for the same rows.
    #[serde(default)]
    pub digest: String,
    /// Blocks in its index.
    pub blocks: u64,
    /// Blocks that were read and verified.
    pub verified: u64,
    /// Partitions that were compared with other replicas.
    pub compared: u64,
    /// The number of faults.
    pub problems: u64,
    /// The first hundred of them, in words.
    pub told: Vec<String>,
    /// Things that could not be checked, with the reasons.
    pub unchecked: Vec<String>,
}

impl VerifyInfo {
    /// Returns the number of faults.
    pub fn problems(&self) -> u64 {
        self.nodes.iter().map(|node| node.problems).sum()
    }

    /// Returns what could not be checked, with the reasons.
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

/// `POST /v1/repair/blocks`: all nodes verify their blocks and repair damaged ones.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepairBlocks {
    /// The rate at which each node reads, in bytes a second; 64 MiB a second if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
}

/// `GET /v1/repair`: faults, running repairs and advice.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct RepairInfo {
    /// Absences and advice, as in the cluster's status.
    pub advice: Vec<String>,
    /// A change of the layout that is under way.
    pub moving: Option<ProgressInfo>,
    /// The nodes of the layout.
    pub nodes: Vec<RepairNode>,
    /// The end of the last verification that this node was asked for; 0 for never.
    pub verified_ms: u64,
    /// The number of faults that it found.
    pub verified_problems: u64,
}

/// The maintenance of a node's data.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct RepairNode {
    /// The node's id.
    pub node: String,
    /// Its first digits.
    pub short: String,
    /// The reason why the node could not be asked, if there is one.
    pub away: Option<String>,
    /// Scrubbing.
    pub scrub: ScrubInfo,
    /// Repair of damaged blocks.
    pub repair: RepairCounts,
    /// Disks that failed: number and reason.
    pub failed_disks: Vec<String>,
    /// The space of its other disks; absent if the node could not be asked, or has an older release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<DiskSpace>,
    /// The nodes from which it has rows to fetch, or may have.
    #[serde(default)]
    pub behind: Vec<BehindInfo>,
    /// True while it compares its rows with another node, or is about to because it was asked to.
    #[serde(default)]
    pub comparing: bool,
    /// The last verification that this node was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationSummary>,
}

/// The space of the disks of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DiskSpace {
    /// The bytes that blocks take.
    pub used_bytes: u64,
    /// The bytes that may still be written.
    pub free_bytes: u64,
    /// The size of the disks in bytes.
    pub capacity_bytes: u64,
}

/// A verification in short, as the node that was asked for it tells others.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct VerificationSummary {
    /// The time at which it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// The time at which it ended; 0 while it runs.
    pub ended_ms: u64,
    /// The nodes that it asks.
    pub nodes: u64,
    /// The nodes whose part has ended.
    pub nodes_done: u64,
    /// The number of faults that it found.
    pub problems: u64,
    /// The first part that could not be checked, with the reason.
    pub trouble: Option<String>,
}

/// The data that a node has to fetch from another, as far as it knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct BehindInfo {
    /// The first digits of the other node's id.
    pub node: String,
    /// True if the other node seems to be away.
    pub away: bool,
    /// Partitions in which the two differ.
    pub partitions: u64,
    /// The most rows that are still to be compared.
    pub rows: u64,
    /// The reason why it is stuck, if it is.
    pub trouble: Option<String>,
}

/// A snapshot of a node's metadata: `GET`, `POST /v1/snapshots`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct SnapshotInfo {
    /// Its name.
    pub name: String,
    /// The time of its creation, in milliseconds since 1970.
    pub made_ms: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

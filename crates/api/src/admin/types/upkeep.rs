//! Scrubbing and mending.

use serde::{Deserialize, Serialize};

/// How the node looks after what it stores: part of `GET /v1/status`, and `GET /v1/scrub`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Upkeep {
    /// Reading and verifying everything that is stored here.
    pub scrub: ScrubInfo,
    /// Replacing what is damaged.
    pub mending: MendingInfo,
    /// Fetching what other nodes have newer.
    #[serde(default)]
    pub healing: HealingInfo,
}

/// Fetching what other nodes have newer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HealingInfo {
    /// Nodes with which it shares partitions and which do not answer.
    pub away: u64,
    /// Partitions in which another node was found to differ.
    pub partitions: u64,
    /// Rows at most that are still to be compared or fetched.
    pub rows: u64,
    /// Bytes of blocks that rows at hand wait for.
    pub waiting_bytes: u64,
    /// Rows that came since the node's start.
    pub came_rows: u64,
    /// Bytes of blocks that came with them.
    pub came_bytes: u64,
    /// Why the last attempt with another node ended early, if one did.
    pub trouble: Option<String>,
}

/// Reading and verifying everything that is stored here.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ScrubInfo {
    /// Whether a pass runs.
    pub running: bool,
    /// Whether somebody asked for it.
    pub asked: bool,
    /// How fast it goes, in bytes a second.
    pub rate: u64,
    /// When the pass that runs, or else the last one, began: milliseconds since 1970, 0 for never.
    pub began_ms: u64,
    /// When the last whole pass ended.
    pub ended_ms: u64,
    /// When the next one begins by itself, if none runs and it does.
    pub next_ms: Option<u64>,
    /// Blocks that the pass verified.
    pub blocks: u64,
    /// Bytes that it read.
    pub bytes: u64,
    /// Bytes that are stored, about.
    pub stored_bytes: u64,
    /// Damaged blocks that it found.
    pub damaged: u64,
}

/// Replacing what is damaged, since the node's start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MendingInfo {
    /// Blocks that are damaged or missing, and wait.
    pub waiting: u64,
    /// Blocks that were replaced by a good copy.
    pub mended: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// How many of those that wait could not be mended yet.
    pub stuck: u64,
    /// The first of them.
    pub troubles: Vec<BlockTrouble>,
}

/// A block that no replica could give yet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BlockTrouble {
    /// Its hash.
    pub block: String,
    /// Why.
    pub why: String,
    /// What it is part of, such as `object photos/cat.jpg`: some of it.
    pub used_by: Vec<String>,
}

/// `POST /v1/scrub/start`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartScrub {
    /// How fast, in bytes a second; 64 MiB a second if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
}

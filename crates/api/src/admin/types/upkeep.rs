//! Scrubbing, repair and lifecycle rules.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The maintenance of a node's data: part of `GET /v1/status`, and `GET /v1/scrub`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Upkeep {
    /// Scrubbing: reads and verifies everything that the node stores.
    pub scrub: ScrubInfo,
    /// Repair: replaces damaged blocks.
    pub repair: RepairCounts,
    /// Anti-entropy: fetches rows that are newer on other nodes.
    #[serde(default)]
    pub anti_entropy: AntiEntropyInfo,
    /// Dropping what nothing refers to any more; absent if storage does not answer.
    #[serde(default)]
    pub gc: Option<GcInfo>,
}

/// Dropping what nothing refers to any more: garbage collection.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct GcInfo {
    /// Tasks that wait in the node's queue. At 0 there is no garbage of this node's requests.
    pub tasks: u64,
    /// True while the node removes permissions that deleted keys, users and roles had. They permit
    /// nothing any more.
    #[serde(default)]
    pub dead_grants: bool,
}

/// The work of a node on lifecycle rules: `GET /v1/lifecycle`. Each node walks its share of the
/// buckets. Counts are since the start of the node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LifecycleInfo {
    /// The length of a day in seconds; 86400 outside tests.
    pub day_seconds: u64,
    /// Buckets with rules that may remove something.
    pub buckets: u64,
    /// True while a walk runs.
    pub running: bool,
    /// True if a walk was asked for that has not begun.
    #[serde(default)]
    pub waiting: bool,
    /// The start of the current or last walk in milliseconds since 1970; 0 for none.
    pub began_ms: u64,
    /// The end of the last walk; 0 for none.
    pub ended_ms: u64,
    /// The time of the next walk, unless rules change before; absent without rules.
    pub next_ms: Option<u64>,
    /// The parts of buckets that the walk has to look at.
    pub parts: u64,
    /// Those that it has done.
    pub parts_done: u64,
    /// Rows that were looked at.
    pub examined: u64,
    /// Objects that were removed or, where there are versions, covered by a delete marker.
    pub expired_objects: u64,
    /// Noncurrent versions that were removed.
    #[serde(default)]
    pub expired_versions: u64,
    /// Delete markers that were removed because they were the only version.
    #[serde(default)]
    pub expired_markers: u64,
    /// The bytes of what was removed.
    pub expired_bytes: u64,
    /// Uploads that were aborted.
    pub aborted_uploads: u64,
    /// Removals that found another version, other rules or another protection than the walk had
    /// seen.
    pub skipped: u64,
    /// Removals that failed. They are tried again.
    pub failed: u64,
    /// The reason why a walk that was asked for cannot begin, or why the last one ended before it
    /// was through; absent if neither is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A target of event notifications: an item of `GET /v1/event-targets`. Each node delivers the events
/// of its share of the keys. Counts are of the node that is asked, since its start.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventTargetInfo {
    /// The name that the rules of buckets use.
    pub name: String,
    /// The kind of target, such as `webhook`; absent if the settings of this node declare no such target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The state of the target.
    pub state: EventTargetState,
    /// Events that wait, as of the last 10 s.
    pub waiting: u64,
    /// Events that the target took.
    pub delivered: u64,
    /// Attempts that failed. They are repeated.
    pub failed: u64,
    /// Events that a replica of the node dropped, because too many waited.
    pub dropped: u64,
    /// The reason why the last attempt failed; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The time of the next attempt, in milliseconds since 1970; absent if the node does not pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_ms: Option<u64>,
}

/// The state of a target of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventTargetState {
    /// Nothing waits for it.
    Idle,
    /// Events wait, and the last attempt did not fail.
    Waiting,
    /// The last attempt failed.
    Failing,
}

impl EventTargetState {
    /// Returns the name of the state.
    pub fn name(self) -> &'static str {
        match self {
            EventTargetState::Idle => "idle",
            EventTargetState::Waiting => "waiting",
            EventTargetState::Failing => "failing",
        }
    }
}

/// Anti-entropy: fetches rows that are newer on other nodes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct AntiEntropyInfo {
    /// Nodes with which it shares partitions and which do not answer.
    pub away: u64,
    /// Partitions in which another node was found to differ.
    pub partitions: u64,
    /// The most rows that are still to be compared or fetched.
    pub rows: u64,
    /// The bytes of blocks that received rows wait for.
    pub waiting_bytes: u64,
    /// Rows that arrived since the node's start.
    pub came_rows: u64,
    /// Bytes of blocks that arrived with them.
    pub came_bytes: u64,
    /// The reason why the last attempt with another node ended early, if it did.
    pub trouble: Option<String>,
}

/// Scrubbing: reads and verifies everything that the node stores.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ScrubInfo {
    /// True while a pass runs.
    pub running: bool,
    /// True if the last pass was stopped before its end.
    #[serde(default)]
    pub stopped: bool,
    /// True if an operator asked for it.
    pub asked: bool,
    /// The rate in bytes a second.
    pub rate: u64,
    /// The start of the current pass or else of the last one, in milliseconds since 1970; 0 for
    /// never.
    pub began_ms: u64,
    /// The end of the last complete pass.
    pub ended_ms: u64,
    /// The start of the next scheduled pass, if none runs and there is one.
    pub next_ms: Option<u64>,
    /// Blocks that the pass verified.
    pub blocks: u64,
    /// Bytes that it read.
    pub bytes: u64,
    /// The approximate number of stored bytes.
    pub stored_bytes: u64,
    /// Damaged blocks that it found.
    pub damaged: u64,
}

/// Repair since the node's start.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct RepairCounts {
    /// Damaged or missing blocks that wait for repair.
    pub waiting: u64,
    /// Blocks that were replaced by a good copy.
    pub repaired: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// The number of waiting blocks that could not be repaired yet.
    pub stuck: u64,
    /// The first of them.
    pub troubles: Vec<BlockTrouble>,
}

/// A block that no replica could give yet.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct BlockTrouble {
    /// Its hash.
    pub block: String,
    /// The reason.
    pub why: String,
    /// Some of the things that contain it, such as `object photos/cat.jpg`.
    pub used_by: Vec<String>,
}

/// `POST /v1/scrub/start`
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartScrub {
    /// The rate in bytes a second; 64 MiB a second if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
}

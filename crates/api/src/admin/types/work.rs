//! Long operations.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::RepairNode;

/// The kind of an operation: its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OperationKind {
    /// Moves data to a newer layout version.
    LayoutChange,
    /// Verifies the data of all nodes.
    Verification,
    /// Reads and verifies everything that a node stores.
    Scrub,
    /// Replaces a node's damaged blocks.
    BlockRepair,
    /// Fetches rows that are newer on other nodes.
    AntiEntropy,
    /// Removes objects and uploads that expire by lifecycle rules.
    Lifecycle,
    /// Makes a snapshot of a node's metadata.
    Snapshot,
    /// Wraps the keys of encrypted objects, and secrets, by the newest key of the keyring.
    KeyringRotation,
    /// Drops blocks and rows that nothing refers to any more.
    #[default]
    GarbageCollection,
}

impl OperationKind {
    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::LayoutChange => "layout-change",
            OperationKind::Verification => "verification",
            OperationKind::Scrub => "scrub",
            OperationKind::BlockRepair => "block-repair",
            OperationKind::AntiEntropy => "anti-entropy",
            OperationKind::Lifecycle => "lifecycle",
            OperationKind::Snapshot => "snapshot",
            OperationKind::KeyringRotation => "keyring-rotation",
            OperationKind::GarbageCollection => "garbage-collection",
        }
    }
}

/// The state of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperationState {
    /// It has nothing to do now.
    #[default]
    Idle,
    /// It works.
    Running,
    /// It has ended.
    Done,
    /// It cannot go on now. Some operations do so later, by themselves.
    Stuck,
    /// The node does not answer.
    Unknown,
}

impl OperationState {
    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            OperationState::Idle => "idle",
            OperationState::Running => "running",
            OperationState::Done => "done",
            OperationState::Stuck => "stuck",
            OperationState::Unknown => "unknown",
        }
    }
}

/// A long operation with its progress.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct OperationInfo {
    /// Its id: the kind, and the node if each node has its own.
    pub id: String,
    /// Its kind.
    pub kind: OperationKind,
    /// The id of its node; absent if it is one of the cluster, or of the node that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its state.
    pub state: OperationState,
    /// The start of the current or last run, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ms: Option<u64>,
    /// The end of the last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// The start of the next scheduled run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_ms: Option<u64>,
    /// The work that is done, in `unit`.
    pub done: u64,
    /// The whole work, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<u64>,
    /// The work that is left, for operations that know only that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
    /// The unit of `done`, `all` and `left`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The rows that a layout change has looked at. They also rise while a partition moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// The number of faults that it found or could not repair.
    pub problems: u64,
    /// The first reason why something cannot be done or is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl OperationInfo {
    /// Makes an operation of a node, or of the cluster.
    pub fn new(
        kind: OperationKind,
        node: Option<&RepairNode>,
        state: OperationState,
    ) -> OperationInfo {
        let of = node.map(|node| format!(":{}", node.short));
        OperationInfo {
            id: format!("{}{}", kind.name(), of.unwrap_or_default()),
            kind,
            node: node.map(|node| node.node.clone()),
            state,
            ..OperationInfo::default()
        }
    }
}

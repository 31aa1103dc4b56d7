//! The progress of anti-entropy, for metrics and `status`.

use std::collections::BTreeMap;

use archipel_base::NodeId;

use super::{AntiEntropy, FloorProgress};
use crate::upkeep::Upkeep;

/// The progress of anti-entropy on a node since its start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AntiEntropyStatus {
    /// The nodes that share partitions with it.
    pub peers: Vec<PeerStatus>,
    /// True while a pass is under way, or about to begin because it was asked for.
    pub busy: bool,
    /// Passes that ended, whole or not.
    pub passes: u64,
    /// Calls made.
    pub calls: u64,
    /// Bytes of these calls and their answers, without blocks.
    pub call_bytes: u64,
    /// Rows applied.
    pub rows: u64,
    /// Blocks fetched for them.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub block_bytes: u64,
    /// Bytes of blocks that received rows still wait for.
    pub waiting_bytes: u64,
    /// The progress of floors.
    pub floors: FloorProgress,
}

/// The progress of a node against one other node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerStatus {
    /// The other node.
    pub node: NodeId,
    /// True while a pass is under way.
    pub running: bool,
    /// True if the other node is suspected: passes wait for it.
    pub away: bool,
    /// In how many milliseconds the next pass is due.
    pub due_ms: u64,
    /// Partitions in which the two nodes differ, as far as the current or last pass knows.
    pub partitions: u64,
    /// Rows of the hours that differ and were not looked at yet. At most this many rows are to be
    /// fetched.
    pub rows: u64,
    /// When the last whole pass ended, in milliseconds since 1970; 0 for never.
    pub whole_ms: u64,
    /// The reason why the last pass was not whole.
    pub trouble: Option<String>,
}

/// The notes of passes.
#[derive(Default)]
pub(super) struct Progress {
    pub total: AntiEntropyStatus,
    pub peers: BTreeMap<NodeId, PeerStatus>,
}

impl AntiEntropy {
    /// Changes the notes about one node.
    pub(super) fn note(&self, node: NodeId, change: impl FnOnce(&mut PeerStatus)) {
        change(self.progress().peers.entry(node).or_default());
    }

    /// Changes the counters of all passes.
    pub(super) fn count(&self, change: impl FnOnce(&mut AntiEntropyStatus)) {
        change(&mut self.progress().total);
    }
}

impl Upkeep {
    /// Compares with all nodes that share data with this one, soon.
    pub fn anti_entropy_start(&self) {
        self.anti_entropy.hurry_all();
    }

    /// Returns the progress of anti-entropy on this node.
    pub fn anti_entropy_status(&self) -> AntiEntropyStatus {
        let state = &self.anti_entropy;
        let now_ms = state.now_ms();
        let schedule = state.schedule();
        let progress = state.progress();
        let peers = schedule.nodes().into_iter().map(|node| {
            let noted = progress.peers.get(&node).cloned().unwrap_or_default();
            let (running, away, due_ms) = schedule.look(&node, now_ms).unwrap_or_default();
            PeerStatus {
                node,
                running,
                away,
                due_ms,
                ..noted
            }
        });
        AntiEntropyStatus {
            peers: peers.collect(),
            busy: schedule.is_busy(),
            floors: state.floors.look(),
            ..progress.total.clone()
        }
    }
}

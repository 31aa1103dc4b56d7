//! How healing goes, for metrics and `status`.

use std::collections::BTreeMap;

use archipel_base::NodeId;

use super::{FloorProgress, Heal};
use crate::cluster::Cluster;

/// How a node is brought up to date by others, since its start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Healing {
    /// The nodes that it shares partitions with.
    pub peers: Vec<PeerHealing>,
    /// Passes that ended, whole or not.
    pub passes: u64,
    /// Calls made.
    pub calls: u64,
    /// Bytes of these calls and their answers, without blocks.
    pub call_bytes: u64,
    /// Rows taken.
    pub rows: u64,
    /// Blocks fetched for them.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub block_bytes: u64,
    /// Bytes of blocks that rows at hand still wait for.
    pub waiting_bytes: u64,
    /// How floors stand.
    pub floors: FloorProgress,
}

/// How this node and another one compare.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerHealing {
    /// The other.
    pub node: NodeId,
    /// Whether a pass is under way.
    pub running: bool,
    /// Whether the other seems to be away: passes wait for it.
    pub away: bool,
    /// In how many milliseconds the next pass is due.
    pub due_ms: u64,
    /// Partitions in which the two differ, as far as the pass that runs, or else the last one, knows.
    pub partitions: u64,
    /// Rows of the hours that differ and were not looked at yet: at most so many are to be fetched.
    pub rows: u64,
    /// When the last whole pass ended, in milliseconds since 1970; 0 for never.
    pub whole_ms: u64,
    /// Why the last one was not whole.
    pub trouble: Option<String>,
}

/// What passes note.
#[derive(Default)]
pub(super) struct Progress {
    pub total: Healing,
    pub peers: BTreeMap<NodeId, PeerHealing>,
}

impl Heal {
    /// Notes what a pass with a node does.
    pub(super) fn note(&self, node: NodeId, change: impl FnOnce(&mut PeerHealing)) {
        change(self.progress().peers.entry(node).or_default());
    }

    /// Notes what is counted over all passes.
    pub(super) fn count(&self, change: impl FnOnce(&mut Healing)) {
        change(&mut self.progress().total);
    }
}

impl Cluster {
    /// How this node is brought up to date by others.
    pub fn healing(&self) -> Healing {
        let heal = &self.0.heal;
        let now_ms = heal.now_ms();
        let schedule = heal.schedule();
        let progress = heal.progress();
        let peers = schedule.nodes().into_iter().map(|node| {
            let noted = progress.peers.get(&node).cloned().unwrap_or_default();
            let (running, away, due_ms) = schedule.look(&node, now_ms).unwrap_or_default();
            PeerHealing {
                node,
                running,
                away,
                due_ms,
                ..noted
            }
        });
        Healing {
            peers: peers.collect(),
            floors: heal.floors.look(),
            ..progress.total.clone()
        }
    }
}

//! The schedule of passes: pure. Times are milliseconds since the driver began.

use std::collections::BTreeMap;

use archipel_base::NodeId;

/// A pass with a node that is new, that came back, or that asked for one begins within this time.
const SOON_MS: u64 = 5_000;
/// The wait after a pass that failed or left something. It doubles each time that nothing came.
const RETRY_MS: u64 = 15_000;

/// The outcome of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// Every newer row of the other node is here.
    Whole,
    /// Something is left to pull.
    Partly,
    /// Something is left to pull, and nothing came. It may stay so for long: a row that cannot be
    /// read, for example.
    Stuck,
    /// Nothing came: the other node does not answer, or the layout changed meanwhile.
    Failed,
}

/// The nodes from which this node pulls, and when.
#[derive(Default)]
pub(super) struct Schedule {
    peers: BTreeMap<NodeId, Entry>,
}

#[derive(Default)]
struct Entry {
    due_ms: u64,
    running: bool,
    away: bool,
    /// Passes in a row that were not whole.
    setbacks: u32,
    /// True if a pass was asked for.
    hurried: bool,
    /// True until the pass begins that was asked for, or that a new node needs.
    awaited: bool,
}

impl Schedule {
    /// Takes over the nodes that share partitions with this one, each with whether it is suspected.
    /// A new node, or one that came back, is due soon. `chance` gives random numbers.
    pub fn follow(
        &mut self,
        now_ms: u64,
        peers: &BTreeMap<NodeId, bool>,
        chance: &mut dyn FnMut() -> u64,
    ) {
        self.peers.retain(|node, _| peers.contains_key(node));
        for (node, away) in peers {
            let known = self.peers.contains_key(node);
            let entry = self.peers.entry(*node).or_default();
            let returned = entry.away && !away;
            entry.away = *away;
            entry.hurried |= returned;
            if entry.running {
                // It may have compared already what the next one is wanted for.
                continue;
            }
            if !known || std::mem::take(&mut entry.hurried) {
                entry.awaited = true;
                let soon = now_ms + chance() % SOON_MS;
                entry.due_ms = if known { soon.min(entry.due_ms) } else { soon };
                entry.setbacks = 0;
            }
        }
    }

    /// Makes the pass with a node due soon.
    pub fn hurry(&mut self, node: &NodeId) {
        if let Some(entry) = self.peers.get_mut(node) {
            (entry.hurried, entry.awaited) = (true, true);
        }
    }

    /// Makes all passes due soon, because the layout changed.
    pub fn hurry_all(&mut self) {
        self.peers
            .values_mut()
            .for_each(|entry| (entry.hurried, entry.awaited) = (true, true));
    }

    /// Returns the node whose pass has been due longest and is not under way, and marks the pass as
    /// under way.
    pub fn start(&mut self, now_ms: u64) -> Option<NodeId> {
        let due = self.peers.iter_mut();
        let mut due = due.filter(|(_, e)| !e.running && !e.away && e.due_ms <= now_ms);
        let first = due.next()?;
        let (node, entry) = due.fold(first, |a, b| if b.1.due_ms < a.1.due_ms { b } else { a });
        (entry.running, entry.awaited) = (true, false);
        Some(*node)
    }

    /// Notes that no pass is under way: the driver begins again, and its passes ended with it.
    pub fn forget_running(&mut self) {
        self.peers
            .values_mut()
            .for_each(|entry| entry.running = false);
    }

    /// Ends a pass. The next one comes after about `interval_ms`, or earlier if something is left.
    pub fn ended(
        &mut self,
        node: &NodeId,
        now_ms: u64,
        ended: Ended,
        interval_ms: u64,
        chance: &mut dyn FnMut() -> u64,
    ) {
        let Some(entry) = self.peers.get_mut(node) else {
            return;
        };
        entry.running = false;
        entry.setbacks = match ended {
            Ended::Whole => 0,
            Ended::Partly => 1,
            Ended::Stuck | Ended::Failed => entry.setbacks.saturating_add(1),
        };
        let wait = match entry.setbacks {
            0 => interval_ms,
            n => interval_ms.min(RETRY_MS << (n - 1).min(8)),
        };
        // A quarter more or less, so that passes spread out.
        entry.due_ms = now_ms + wait - wait / 4 + chance() % (wait / 2).max(1);
    }

    /// Returns whether a pass with this node is under way, whether the node is suspected, and in
    /// how many milliseconds the next pass is due.
    pub fn look(&self, node: &NodeId, now_ms: u64) -> Option<(bool, bool, u64)> {
        let entry = self.peers.get(node)?;
        Some((
            entry.running,
            entry.away,
            entry.due_ms.saturating_sub(now_ms),
        ))
    }

    /// Returns true if a pass is under way, or is about to begin because it was asked for.
    pub fn is_busy(&self) -> bool {
        let mut entries = self.peers.values();
        entries.any(|entry| entry.running || (entry.awaited && !entry.away))
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.peers.keys().copied().collect()
    }
}

//! The nodes that a node believes, and those for which it has room.
//!
//! A node of a layout believes what nodes of that layout tell of third ones, because two nodes may
//! hear of each other only through a third. Any other node is believed about itself and nothing
//! else, so that one that merely knows the secret does no harm to others. A node without a layout
//! cannot tell who is who, and hears everybody. It says so (`outside`), and is not believed about
//! others meanwhile. With its first layout it starts again: what it was told before counts less
//! than whatever it hears then.

use std::collections::BTreeSet;

use archipel_base::NodeId;
use archipel_base::clock::DAY_MS;

use super::failure_detector::Standing;
use super::message::{Edition, Gossip};
use super::state::Membership;

/// A node that no layout names is forgotten after this time without a sign of life.
const FORGET_MS: u64 = DAY_MS;
/// The most other nodes that are known before there is a layout.
const MAX_OTHERS: usize = 2_000;
/// The most known nodes that the layout does not have and no operator admitted.
const MAX_STRANGERS: usize = 128;
/// No run of a node comes so far by itself: a node would be started four billion times.
const FIRST_UNREAL_GENERATION: u64 = 1 << 48;

/// The origin of an address that this node greets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Naming {
    /// A command of the operator, just now.
    Command,
    /// The plan. The operator may have named the address in the settings.
    Plan,
}

impl Membership {
    /// Sets the nodes of the layouts and the admitted ones, which are never forgotten. A node that
    /// they dropped is not believed any more, although the operator named it before.
    pub fn pin(&mut self, nodes: BTreeSet<NodeId>, admitted: BTreeSet<NodeId>) {
        for dropped in self.pinned.difference(&nodes) {
            self.named.remove(dropped);
            self.joined.remove(dropped);
        }
        if self.pinned.is_empty() && !nodes.is_empty() {
            self.start_again();
        }
        (self.pinned, self.admitted) = (nodes, admitted);
    }

    /// Lets whatever is told from now on count more than what was told before. Addresses stay.
    fn start_again(&mut self) {
        for known in self.others.values_mut() {
            (known.edition, known.heartbeat) = (Edition::default(), 0);
            known.leaving = false;
        }
    }

    /// Notes the node that answered at an address, if the operator of this node named the address:
    /// in the settings, or just now.
    pub fn named(&mut self, node: NodeId, address: &str, by: Naming) {
        // Its news may have been heard before, and count only now.
        let is_new = match by {
            Naming::Command => self.joined.insert(node),
            Naming::Plan => self.plan.is_named(address) && self.named.insert(node),
        };
        self.changes += u64::from(is_new);
    }

    /// Returns true if a node answered at an address that the operator of this node named.
    pub fn is_named(&self, node: &NodeId) -> bool {
        self.named.contains(node) || self.is_joined(node)
    }

    /// Returns true if a node answered at an address that the operator of this node named by a
    /// command.
    pub fn is_joined(&self, node: &NodeId) -> bool {
        self.joined.contains(node)
    }

    /// Returns true if this node believes what a message tells of nodes other than its sender.
    pub(super) fn believes(&self, from: &NodeId, heard: &Gossip) -> bool {
        self.cluster.is_none() || self.is_sure(from, heard)
    }

    /// Returns true if a message tells what the nodes of the layout know. Without a layout, the
    /// nodes that the operator named are the ones to know it.
    fn is_sure(&self, from: &NodeId, heard: &Gossip) -> bool {
        let is_named = match self.cluster {
            Some(_) => self.is_joined(from),
            None => self.is_named(from),
        };
        !heard.outside && (self.pinned.contains(from) || is_named)
    }

    /// Returns true if a run of this node that others remember may be a real one. A later one would
    /// have to outbid one that was made up, and there is none beyond the last number.
    pub(super) fn may_be_mine(&self, generation: u64, from: &NodeId, heard: &Gossip) -> bool {
        generation < FIRST_UNREAL_GENERATION || self.is_sure(from, heard)
    }

    /// Returns true if a node is not in the layout, and no operator admitted it or named it by a
    /// command.
    pub(super) fn is_stranger(&self, node: &NodeId) -> bool {
        !self.pinned.contains(node) && !self.admitted.contains(node) && !self.is_joined(node)
    }

    /// Returns true if there is room for an unknown node that last lived this long ago. A stranger
    /// that is there takes the room of the one that was silent for the longest time.
    pub(super) fn makes_room(&mut self, node: &NodeId, age_ms: u64, now: i64) -> bool {
        if !self.is_stranger(node) {
            return true;
        }
        if age_ms >= FORGET_MS {
            return false;
        }
        if self.cluster.is_none() {
            return self.others.len() < MAX_OTHERS;
        }
        let others = self.others.iter();
        let strangers = others.filter(|(node, _)| self.is_stranger(node));
        let (mut count, mut silent) = (0, None);
        for (stranger, known) in strangers {
            count += 1;
            if known.detector.standing() == Standing::Suspected {
                silent = silent.max(Some((known.detector.age_ms(now), *stranger)));
            }
        }
        if count < MAX_STRANGERS {
            return true;
        }
        let Some((_, silent)) = silent.filter(|(age, _)| *age > age_ms) else {
            return false;
        };
        self.others.remove(&silent);
        self.changes += 1;
        true
    }

    /// Forgets nodes that were silent for long, and strangers for which there is no room since this
    /// node has a layout.
    pub(super) fn forget(&mut self, now: i64) {
        let others = self.others.iter();
        let strangers = others.filter(|(node, _)| self.is_stranger(node));
        let ages = strangers.map(|(node, known)| (known.detector.age_ms(now), *node));
        let mut ages: Vec<_> = ages.collect();
        ages.sort_unstable();
        let room = match self.cluster {
            Some(_) => MAX_STRANGERS,
            None => MAX_OTHERS,
        };
        let kept = ages.partition_point(|(age, _)| *age <= FORGET_MS).min(room);
        for (_, node) in &ages[kept..] {
            self.others.remove(node);
        }
        self.changes += u64::from(kept < ages.len());
    }
}

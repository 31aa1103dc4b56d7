//! Admission: which nodes the others answer.
//!
//! The nodes of live layout versions are admitted by that. An operator admits others by name. The
//! list is part of the epoch, so that one conditional write changes it and every node hears of it
//! as it hears of layouts.

use std::collections::BTreeSet;

use archipel_base::NodeId;

use super::Epoch;

/// The most nodes that are admitted without being in a layout.
pub const MAX_ADMITTED: usize = 100;

impl Epoch {
    /// Returns true if a live layout version has this node, and it was not given up for lost.
    pub fn has_member(&self, node: &NodeId) -> bool {
        let named = self.config.live.iter().flatten();
        let mut stores = named.filter(|member| member.node.node == *node);
        stores.any(|member| !self.config.skipped.contains(member))
    }

    /// Returns true if other nodes answer this node.
    pub fn admits(&self, node: &NodeId) -> bool {
        self.has_member(node) || self.admitted.contains(node)
    }

    /// Returns all nodes that other nodes answer, each once.
    pub fn all_admitted(&self) -> BTreeSet<NodeId> {
        let members = self.config.members().into_iter();
        let members = members.map(|member| member.node.node);
        members.chain(self.admitted.iter().copied()).collect()
    }

    /// Returns the proposal to admit a node. `None` if it is admitted.
    pub fn admitting(&self, node: NodeId) -> Option<Epoch> {
        let mut next = self.clone();
        next.config.epoch += 1;
        (!self.admits(&node) && next.admitted.insert(node)).then_some(next)
    }

    /// Returns the proposal to take an admission back. `None` if no operator admitted the node.
    pub fn dismissing(&self, node: &NodeId) -> Option<Epoch> {
        let mut next = self.clone();
        next.config.epoch += 1;
        next.admitted.remove(node).then_some(next)
    }
}

//! This node's share of work that the replicas of a partition divide, and its memory for content.
//!
//! The model asks here, so that it need not know replicas, epochs or where blocks are buffered.

use std::collections::BTreeSet;

use archipel_base::{Id, PartitionId};
use archipel_storage::pool::Pool;

use super::Data;
use crate::layout::PARTITIONS;
use crate::node::epochs::Listening;

impl Data {
    /// Returns true if this node is in a layout, or was admitted: other nodes answer it.
    pub fn is_in_layout(&self) -> bool {
        let me = self.me().node;
        self.epoch().is_some_and(|epoch| epoch.admits(&me))
    }

    /// Returns a listener for changes of the layout.
    pub fn layout_changes(&self) -> Listening {
        self.epoch_changes()
    }

    /// Returns the identity of this node's store.
    pub fn own_store(&self) -> Id {
        self.me().store
    }

    /// Returns how many other replicas look after a partition before this node's. The order
    /// differs from partition to partition, and all nodes agree on it.
    pub fn turns_before(&self, partition: PartitionId) -> usize {
        self.rank(partition)
    }

    /// Returns the partitions that this node looks after in a round of periodic work. Each replica
    /// of a partition has its turn in one round of as many as there are replicas. Without a round,
    /// returns all partitions of which this node has a replica.
    pub fn local_partitions(&self, round: Option<usize>) -> Vec<PartitionId> {
        let Some(epoch) = self.epoch() else {
            return Vec::new();
        };
        let me = self.me();
        let is_local = |partition: &PartitionId| {
            let replicas = epoch.replicas(*partition).into_iter().flatten();
            let stores: BTreeSet<_> = replicas.map(|member| member.node).collect();
            let turn = || round.is_none_or(|round| round % stores.len() == self.rank(*partition));
            stores.contains(&me) && turn()
        };
        (0..PARTITIONS).map(PartitionId).filter(is_local).collect()
    }

    /// Returns true if a store is in a live layout, or if this node knows no layout.
    pub fn is_store_in_layout(&self, store: Id) -> bool {
        let Some(epoch) = self.epoch() else {
            return true;
        };
        let members = epoch.config.members();
        members.iter().any(|member| member.node.store == store)
    }

    /// Returns the memory that content is buffered in while it is written or read.
    pub fn buffers(&self) -> &Pool {
        self.store().blocks().pool()
    }
}

#[cfg(test)]
mod tests;

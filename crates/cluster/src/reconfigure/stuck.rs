//! A layout on top of a change that cannot end.
//!
//! A change ends once all rows are at majorities of the newest version. If nodes of that version
//! are lost before, some partitions may have no majority there, for good. Then a further version
//! without these nodes may follow at once. Nothing is given up by that: quorums need a majority of
//! one version more, and if the nodes come back, the change ends as it would have. Once the newest
//! version does not have them, [`remove_dead`](super::remove_dead) can give them up.

use std::collections::BTreeSet;

use archipel_base::{NodeId, PartitionId};

use super::LayoutChanges;
use super::change::refused;
use crate::error::Error;
use crate::layout::{Epoch, Layout, MAX_LIVE, MAX_REPLICAS, StoreName, all_partitions};
use crate::register::ReplicaSet;

impl LayoutChanges {
    /// Checks that a layout may follow although a change is under way.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] unless the change is stuck and would not be with this
    /// layout.
    pub(super) fn check_replaces(&self, epoch: &Epoch, layout: &Layout) -> Result<(), Error> {
        let is_away = |store: &StoreName| self.is_away(store);
        if !epoch.is_changing() {
            return Ok(());
        }
        if blocking(epoch.newest(), all_partitions(), &is_away).is_empty() {
            return Err(refused(
                "a layout change is under way; fix: wait until its data has moved (archipel layout \
                 show)",
            ));
        }
        let silent = blocking(layout, all_partitions(), &is_away);
        if !silent.is_empty() {
            let shorts: Vec<String> = silent.iter().map(NodeId::short).collect();
            let shorts = shorts.join(" ");
            return Err(refused(format!(
                "a layout change is under way, which {shorts} hold up: they do not answer, or have lost the \
                 store that the staged layout names, and that layout would wait for them as well; fix: start \
                 them again, archipel layout assign them with their new store, or archipel layout remove \
                 {shorts}"
            )));
        }
        if !has_room(epoch, layout) {
            let live = epoch.layouts.len();
            return Err(refused(format!(
                "{live} layout versions are live, and there is no room for one more; fix: archipel layout \
                 remove-dead the nodes that they wait for"
            )));
        }
        Ok(())
    }

    /// Checks that partitions which have moved still have majorities in all versions but the
    /// oldest. The stores that had their rows may be lost since then, and the older replicas drop
    /// theirs once the oldest version has retired. Stores that an operator gave up do not count.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] if one has no majority now.
    pub(super) fn check_moved(&self, epoch: &Epoch, moved: &[PartitionId]) -> Result<(), Error> {
        let is_away = |store: &StoreName| self.is_away(store) && !epoch.is_skipped(store);
        let newer = epoch.layouts.iter().skip(1);
        let silent = newer.flat_map(|layout| blocking(layout, moved.iter().copied(), &is_away));
        let silent: BTreeSet<NodeId> = silent.collect();
        if silent.is_empty() {
            return Ok(());
        }
        let shorts: Vec<String> = silent.iter().map(NodeId::short).collect();
        let shorts = shorts.join(" ");
        Err(refused(format!(
            "all data has moved, but {shorts} do not answer, or have lost the store that it moved to; fix: \
             start them again; if they are lost, archipel layout remove {shorts} (or assign them with their \
             new store), apply that, and archipel layout remove-dead each of them"
        )))
    }
}

/// Returns true if the replicas of a partition in all live versions and one more have room in one
/// set, with those that an operation knows from before.
fn has_room(epoch: &Epoch, layout: &Layout) -> bool {
    let widest = |layout: &Layout| layout.control.len().max(layout.redundancy.replicas.into());
    let live: usize = epoch.layouts.iter().map(|layout| widest(layout)).sum();
    epoch.layouts.len() < MAX_LIVE && live + widest(layout) + MAX_REPLICAS <= ReplicaSet::MAX
}

/// Returns the nodes whose stores are away and without which one of these partitions of a layout
/// has no majority.
fn blocking(
    layout: &Layout,
    partitions: impl Iterator<Item = PartitionId>,
    is_away: &dyn Fn(&StoreName) -> bool,
) -> BTreeSet<NodeId> {
    let roles = layout.roles.iter();
    let nodes: Vec<(NodeId, bool)> = roles
        .map(|role| (role.store.node, is_away(&role.store)))
        .collect();
    let mut blocking = BTreeSet::new();
    for partition in partitions {
        let places = layout.replicas_of(partition);
        let replicas = places.iter().filter_map(|at| nodes.get(usize::from(*at)));
        let away = replicas.filter(|(_, away)| *away).map(|(node, _)| *node);
        let away: Vec<NodeId> = away.collect();
        if 2 * (places.len() - away.len()) <= places.len() {
            blocking.extend(away);
        }
    }
    blocking
}

#[cfg(test)]
mod tests;

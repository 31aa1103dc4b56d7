//! The rebalancer: it moves data when the layout changes, and then retires the oldest version.

mod ranges;

use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId, boxed};
use archipel_storage::{ListQuery, RowKey};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream;
use parking_lot::Mutex;

use crate::error::Error;
use crate::faults::Faults;
use crate::layout::{Epoch, Layout, StoreName, all_partitions, next_level};
use crate::reconfigure::LayoutChanges;
use crate::reconfigure::change::refused;
use crate::register::epoch::Retirement;
use crate::register::{ReplicaSet, Rules, versions};
use ranges::{Listed, too_few};

/// The number of partitions that are moved at once.
const PARTITIONS_AT_ONCE: usize = 16;
/// The time for which a layout waits for a node that has just joined and has not learnt the
/// cluster's layout.
const JOINING: Duration = Duration::from_secs(5);
/// The pause between two looks at such a node.
const JOINING_LOOK: Duration = Duration::from_millis(100);
/// The interval at which a node looks for data to move.
const INTERVAL: Duration = Duration::from_secs(2);

/// The rebalancer's progress.
#[derive(Default)]
pub(crate) struct Rebalance {
    work: Mutex<Work>,
    /// The rules: [`Rules::CORRECT`] except in checkers.
    rules: Mutex<Rules>,
}

#[derive(Clone, Default)]
pub(crate) struct Work {
    pub epoch: u64,
    pub done: u32,
    pub rows: u64,
    pub trouble: Option<String>,
    /// The most keys of one partition that were held at once.
    #[cfg(test)]
    pub most_held: usize,
}

impl Rebalance {
    fn note(&self, change: impl FnOnce(&mut Work)) {
        change(&mut self.work.lock());
    }

    pub fn look(&self) -> Work {
        let work = self.work.lock();
        work.clone()
    }
}

impl LayoutChanges {
    /// Moves data as [`run_rebalance`](Self::run_rebalance) does, by the rules of a checker.
    #[boxed]
    pub async fn run_rebalance_with(&self, faults: Faults) {
        *self.rebalance.rules.lock() = faults.rules;
        self.run_rebalance().await;
    }

    /// Moves data whenever the layout changes and this node is the driver of the change. The driver
    /// also raises the cluster's feature level. Run it in a task of its own.
    #[boxed]
    pub async fn run_rebalance(&self) {
        let mut epochs = self.epoch_changes();
        loop {
            let _ = tokio::time::timeout(INTERVAL, epochs.changed()).await;
            let Some(epoch) = self.epoch() else {
                continue;
            };
            if self.driver(&epoch) != Some(self.me().node) {
                continue;
            }
            if !epoch.is_changing() {
                if let Err(error) = self.raise_level(&epoch).await {
                    tracing::warn!(%error, "the feature level cannot be raised; it is tried again");
                }
                continue;
            }
            if let Err(error) = self.retire_oldest(&epoch).await {
                tracing::warn!(%error, "the layout change cannot continue; it is tried again");
                self.rebalance
                    .note(|work| work.trouble = Some(error.to_string()));
            }
        }
    }

    /// Raises the cluster's feature level, if all nodes of the layout speak more.
    async fn raise_level(&self, epoch: &Arc<Epoch>) -> Result<(), Error> {
        let Some(level) = next_level(epoch, |node| self.level_of(node)) else {
            return Ok(());
        };
        if self.succeed(epoch, epoch.with_level(level)).await? {
            tracing::info!(level, "the cluster's feature level was raised");
        }
        Ok(())
    }

    /// Returns the highest feature level that a node speaks; 0 if it is not known.
    pub(crate) fn level_of(&self, node: &NodeId) -> u32 {
        if *node == self.me().node {
            return self.level();
        }
        let peers = self.peers.as_ref();
        peers.map_or(0, |peers| peers.directory.level(node))
    }

    /// Checks that the nodes which a layout takes in can serve.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] if one does not learn layouts, or is too old.
    pub(crate) async fn check_new(&self, epoch: &Epoch, layout: &Layout) -> Result<(), Error> {
        // A node whose disk was lost comes with a new store, and knows no layout either.
        let has = |store: &StoreName| epoch.newest().roles.iter().any(|role| role.store == *store);
        let stores = layout.roles.iter().map(|role| role.store);
        for StoreName { node, .. } in stores.filter(|store| !has(store)) {
            let short = node.short();
            if self.is_lagging(&node) || !self.learns_layout(&node).await {
                return Err(refused(format!(
                    "node {short}: it does not learn the layout, so it would hold nothing; fix, on that \
                     node: archipel node join ADDRESS, with the address of a node of the layout"
                )));
            }
            if self.is_too_old(&node, epoch) {
                let (spoken, level) = (self.level_of(&node), epoch.level);
                return Err(refused(format!(
                    "node {short}: it speaks feature level {spoken}, the cluster has level {level}; \
                     fix: start a newer Archipel on it"
                )));
            }
        }
        Ok(())
    }

    /// Waits a moment until a node tells that it knows a layout. Returns false if it does not.
    async fn learns_layout(&self, node: &NodeId) -> bool {
        let Some(peers) = self.peers.as_ref().filter(|_| *node != self.me().node) else {
            return true;
        };
        let told = async {
            while !peers.directory.knows_layout(node) {
                tokio::time::sleep(JOINING_LOOK).await;
            }
        };
        tokio::time::timeout(JOINING, told).await.is_ok()
    }

    /// Returns true if a node is known not to speak the cluster's feature level.
    pub(crate) fn is_too_old(&self, node: &NodeId, epoch: &Epoch) -> bool {
        (1..epoch.level).contains(&self.level_of(node))
    }

    /// Returns true if a node answers, and does not learn newer layouts.
    pub(crate) fn is_lagging(&self, node: &NodeId) -> bool {
        let peers = self.peers.as_ref();
        peers.is_some_and(|peers| peers.directory.is_lagging(node))
    }

    /// Returns the first node of the newest layout by id, gateways among them, that is not suspected,
    /// speaks the cluster's feature level and learns newer layouts. One that does not would wait for
    /// a layout of long ago.
    pub(crate) fn driver(&self, epoch: &Epoch) -> Option<NodeId> {
        let me = self.me().node;
        let here = |node: &NodeId| {
            let peers = self.peers.as_ref();
            let answers = peers.is_some_and(|peers| !peers.directory.is_suspected(node));
            (*node == me || answers && !self.is_lagging(node)) && !self.is_too_old(node, epoch)
        };
        let nodes = epoch.newest().roles.iter().map(|role| role.store.node);
        nodes.filter(here).min()
    }

    /// Moves the data of the oldest version, and then retires that version.
    async fn retire_oldest(&self, epoch: &Arc<Epoch>) -> Result<(), Error> {
        let partitions = moved(epoch);
        self.rebalance.note(|work| {
            // The trouble of the last try is shown until this try has gone further.
            let before = work.trouble.take();
            let trouble = before.filter(|_| work.epoch == epoch.number());
            *work = Work {
                epoch: epoch.number(),
                trouble,
                ..Work::default()
            }
        });
        let mut moves = stream::iter(partitions)
            .map(|partition| self.move_partition(epoch, partition))
            .buffer_unordered(PARTITIONS_AT_ONCE);
        while let Some(moved) = moves.next().await {
            moved?;
            self.rebalance.note(|work| work.done += 1);
        }
        drop(moves);
        let Some(proposal) = epoch.without_oldest() else {
            return Ok(());
        };
        self.succeed(epoch, proposal).await.map(|_| ())
    }

    /// Brings the rows of a partition to all reachable replicas of all live versions, and to a quorum at
    /// least. It lists one range of keys after another, so that it holds a page of each replica at most.
    ///
    /// Only replicas that have listed all ranges count. A version that another one displaces moves to a
    /// later key within a replica. So a replica that lists all keys in order shows it, and two that each
    /// list a part may not.
    async fn move_partition(&self, epoch: &Epoch, partition: PartitionId) -> Result<(), Error> {
        let group = self.group(partition)?;
        if group.epoch != epoch.number() {
            return Err(Error::Unavailable("the layout changed meanwhile".into()));
        }
        let all = group.oldest.iter();
        let mut listing = all.fold(ReplicaSet::EMPTY, |all, set| all.union(*set));
        let mut start = Some(ListQuery::new(partition, Bytes::new()).start);
        while let Some(from) = start {
            let range = self.list_range(&group, listing, from).await?;
            let mut retirement: Retirement<Listed> = Retirement::of(group.oldest.clone());
            listing = ReplicaSet::EMPTY;
            for (index, rows) in range.pages {
                listing.insert(index);
                retirement.on_listed(index, rows);
            }
            #[cfg(test)]
            self.rebalance
                .note(|work| work.most_held = work.most_held.max(range.held));
            loop {
                let batch = retirement.open_keys(self.options.sizes.moved_rows);
                if batch.is_empty() {
                    break;
                }
                let units = batch.chunks(self.options.sizes.unit_rows).map(|unit| {
                    let moves = unit.iter().map(|listed| self.move_row(partition, listed));
                    self.throttle.run(try_join_all(moves))
                });
                try_join_all(units).await?;
                self.rebalance.note(|work| work.rows += batch.len() as u64);
                batch
                    .into_iter()
                    .for_each(|listed| retirement.on_read(listed));
            }
            if !retirement.is_complete(Rules::CORRECT) {
                return Err(too_few());
            }
            start = range.next;
        }
        Ok(())
    }

    /// Brings a row to the replicas of all live versions, and the version of an object that was listed in
    /// it.
    async fn move_row(&self, partition: PartitionId, (key, name): &Listed) -> Result<(), Error> {
        let key = key.clone();
        let row = RowKey { partition, key };
        if let Some((object, name)) = (self.replica.hooks().kept_in)(&row) {
            return self.replicate_version(&object, name).await;
        }
        let newest = self.replicate(&row).await?;
        let rules = *self.rebalance.rules.lock();
        if versions::moves_apart(rules, *name, newest.name) {
            self.replicate_version(&row, *name).await?;
        }
        Ok(())
    }
}

/// Returns the partitions whose replicas differ between the oldest and a newer live version.
///
/// Skipped replicas count as replicas. Let a version of five lose two, and let the newer version name the
/// three that are left: a write that one of the three and the two had acknowledged is on no majority of
/// the newer version yet.
pub(crate) fn moved(epoch: &Epoch) -> Vec<PartitionId> {
    all_partitions()
        .filter(|partition| {
            let mut versions = epoch.named(*partition);
            versions
                .iter_mut()
                .for_each(|replicas| replicas.sort_unstable());
            versions.iter().any(|replicas| *replicas != versions[0])
        })
        .collect()
}

#[cfg(test)]
mod tests;

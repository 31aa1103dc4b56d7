//! The rebalancer: it moves data when the layout changes, and then retires the oldest version.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId, boxed};
use archipel_storage::{ListEntry, ListQuery, RowKey, VersionName};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::{self, FuturesUnordered};
use parking_lot::Mutex;

use crate::data::list::ask;
use crate::error::Error;
use crate::layout::{Epoch, Layout, StoreName, all_partitions, next_level};
use crate::node::group::Group;
use crate::reconfigure::LayoutChanges;
use crate::reconfigure::change::refused;
use crate::register::epoch::Retirement;
use crate::register::{ReplicaSet, Rules, versions};

/// The number of partitions that are moved at once.
const PARTITIONS_AT_ONCE: usize = 16;
/// The time for which a layout waits for a node that has just joined and has not learnt the
/// cluster's layout.
const JOINING: Duration = Duration::from_secs(5);
/// The pause between two looks at such a node.
const JOINING_LOOK: Duration = Duration::from_millis(100);
/// The interval at which a node looks for data to move.
const INTERVAL: Duration = Duration::from_secs(2);

/// A row that a replica listed: its key, and the name of the version that it holds if it is an object's.
pub(crate) type Listed = (Bytes, VersionName);

/// The rebalancer's progress.
#[derive(Default)]
pub(crate) struct Rebalance(Mutex<Work>);

#[derive(Clone, Default)]
pub(crate) struct Work {
    pub epoch: u64,
    pub done: u32,
    pub rows: u64,
    pub trouble: Option<String>,
}

impl Rebalance {
    fn note(&self, change: impl FnOnce(&mut Work)) {
        change(&mut self.0.lock());
    }

    pub fn look(&self) -> Work {
        let work = self.0.lock();
        work.clone()
    }
}

impl LayoutChanges {
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
    /// least.
    async fn move_partition(&self, epoch: &Epoch, partition: PartitionId) -> Result<(), Error> {
        let group = self.group(partition)?;
        if group.epoch != epoch.number() {
            return Err(Error::Unavailable("the layout changed meanwhile".into()));
        }
        let all = group.oldest.iter();
        let oldest = all.fold(ReplicaSet::EMPTY, |all, set| all.union(*set));
        let mut retirement: Retirement<Listed> = Retirement::of(group.oldest.clone());
        let mut why = None;
        let group = &group;
        let ask = |index| async move { (index, self.rows_at(group, index).await) };
        let mut lists: FuturesUnordered<_> = oldest.iter().map(ask).collect();
        // A replica that is unreachable, or slow to say that it holds nothing more, is not awaited.
        while let Some((index, rows)) = lists.next().await {
            match rows {
                Ok(rows) => retirement.on_listed(index, rows),
                Err(error) => why = Some(error),
            }
            if retirement.is_listed() {
                break;
            }
        }
        drop(lists);
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
        if retirement.is_complete(Rules::CORRECT) {
            Ok(())
        } else {
            Err(why.unwrap_or_else(|| {
                Error::Unavailable("too few replicas of the older layout version answer".into())
            }))
        }
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
        if versions::moves_apart(Rules::CORRECT, *name, newest.name) {
            self.replicate_version(&row, *name).await?;
        }
        Ok(())
    }

    /// Returns all rows that a replica holds, tombstones included.
    pub(crate) async fn rows_at(&self, group: &Group, index: usize) -> Result<Vec<Listed>, Error> {
        let mut query = ListQuery::new(group.partition, Bytes::new());
        (query.tombstones, query.limit) = (true, self.options.sizes.listed_keys);
        let mut rows = Vec::new();
        loop {
            let page = ask(self, group, index, query.clone()).await?;
            let gone = || Error::Unavailable("the layout changed meanwhile".into());
            let page = Arc::unwrap_or_clone(page.ok_or_else(gone)?).listing;
            rows.extend(page.entries.into_iter().filter_map(|entry| match entry {
                ListEntry::Row { key, metadata } => {
                    let name = metadata.version.and_then(|version| version.at);
                    Some((key, name))
                }
                ListEntry::Prefix(_) => None,
            }));
            // The others may hold what is damaged here, and not all of them are asked for their keys.
            rows.extend(page.damaged.into_iter().map(|key| (key, None)));
            match page.next {
                Some(next) => query.start = next,
                None => return Ok(rows),
            }
        }
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

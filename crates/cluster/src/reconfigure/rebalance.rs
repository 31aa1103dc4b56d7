//! The rebalancer: it moves data when the layout changes, and then retires the oldest version.
//!
//! | module | what it holds |
//! |---|---|
//! | `partition` | moves the rows of one partition |
//! | `ranges` | lists them at their replicas, one range of keys after another |
//! | `work` | what is done in an epoch, and what cannot be moved |

mod partition;
mod ranges;
mod work;

use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId, boxed};
use archipel_net::Class;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::Error;
use crate::faults::Faults;
use crate::layout::{Epoch, Layout, StoreName, all_partitions, next_level};
use crate::node::wire::method;
use crate::reconfigure::LayoutChanges;
use crate::reconfigure::change::refused;
use crate::register::Rules;
use work::Work;
pub(crate) use work::{ProgressCall, Shown};

/// The number of partitions that are moved at once.
const PARTITIONS_AT_ONCE: usize = 16;
/// The time for which a layout waits for a node that has just joined and has not learnt the
/// cluster's layout.
const JOINING: Duration = Duration::from_secs(5);
/// The pause between two looks at such a node.
const JOINING_LOOK: Duration = Duration::from_millis(100);
/// The interval at which a node looks for data to move.
const INTERVAL: Duration = Duration::from_secs(2);
/// The interval at which the driver looks for a successor of the epoch that nobody told.
const SUCCESSOR_INTERVAL: Duration = Duration::from_secs(60);
/// The time that the driver may take to tell how far it is.
const ANSWER: Duration = Duration::from_secs(3);

/// The rebalancer's progress.
#[derive(Default)]
pub(crate) struct Rebalance {
    work: Mutex<Work>,
    /// The rules: [`Rules::CORRECT`] except in checkers.
    rules: Mutex<Rules>,
}

impl Rebalance {
    pub(super) fn note<T>(&self, change: impl FnOnce(&mut Work) -> T) -> T {
        change(&mut self.work.lock())
    }

    /// Returns what operators see of the work in an epoch.
    pub fn shown(&self, epoch: u64) -> Shown {
        self.work.lock().shown(epoch)
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
        // The epoch in which this node last looked for a successor, and when.
        let mut looked = (0, Instant::now());
        loop {
            let _ = tokio::time::timeout(INTERVAL, epochs.changed()).await;
            let Some(epoch) = self.epoch() else {
                continue;
            };
            if self.driver(&epoch) != Some(self.me().node) {
                continue;
            }
            // Another driver may have retired the older version and told nobody.
            let begins = epoch.is_changing() && looked.0 != epoch.number();
            if begins || looked.1.elapsed() >= SUCCESSOR_INTERVAL {
                looked = (epoch.number(), Instant::now());
                self.learn_successors().await;
                if self.epochs.in_force() > epoch.number() {
                    self.tell_epoch().await;
                    continue;
                }
            }
            if !epoch.is_changing() {
                if let Err(error) = self.raise_level(&epoch).await {
                    tracing::warn!(%error, "the feature level cannot be raised; it is tried again");
                }
                continue;
            }
            if let Err(why) = self.retire_oldest(&epoch).await {
                tracing::warn!(%why, "the layout change cannot continue; it is tried again");
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
    /// [`archipel_storage::Error::Refused`] if one does not learn layouts, is too old, or has
    /// another store than the layout names.
    pub(crate) async fn check_new(&self, epoch: &Epoch, layout: &Layout) -> Result<(), Error> {
        // A node whose disk was lost comes with a new store, and knows no layout either.
        let has = |store: &StoreName| epoch.newest().roles.iter().any(|role| role.store == *store);
        let stores = layout.roles.iter().map(|role| role.store);
        for store in stores.filter(|store| !has(store)) {
            let (node, short) = (store.node, store.node.short());
            if self.has_other_store(&store) {
                return Err(refused(format!(
                    "node {short}: it has another store by now, and the staged one is gone; fix: archipel \
                     layout assign {short}, and apply that"
                )));
            }
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

    /// Returns the first node of the newest layout by id, gateways among them, that is not
    /// suspected, speaks the cluster's feature level and learns newer layouts. One that does not
    /// would wait for a layout of long ago.
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

    /// Asks the driver of a change how far it is. Returns `None` if it does not tell in time.
    pub(super) async fn ask_driver(&self, driver: &NodeId, epoch: u64) -> Option<Shown> {
        let (peers, call) = (self.peers().ok()?, ProgressCall { epoch });
        let asked = peers.call(driver, method::PROGRESS, Class::Control, &call);
        tokio::time::timeout(ANSWER, asked).await.ok()?.ok()
    }

    /// Tells another node how far this one is with the change of an epoch.
    pub(crate) fn serve_progress(&self, call: &ProgressCall) -> Shown {
        let shown = self.rebalance.shown(call.epoch);
        let epoch = self.epoch().filter(|epoch| epoch.number() == call.epoch);
        let drives = epoch.is_some_and(|epoch| self.driver(&epoch) == Some(self.me().node));
        Shown {
            // That of a node that drove the change earlier says nothing any more.
            trouble: shown.trouble.filter(|_| drives),
            ..shown
        }
    }

    /// Moves the data of the oldest version, and then retires that version. A partition that fails
    /// holds up no other, and one that is done in this epoch is not done again.
    ///
    /// # Errors
    /// The reason why the version cannot retire yet. The next try does the rest.
    async fn retire_oldest(&self, epoch: &Arc<Epoch>) -> Result<(), String> {
        let (number, all) = (epoch.number(), moved(epoch));
        let left = self.rebalance.note(|work| work.begin(number, all.clone()));
        let mut moves = stream::iter(left)
            .map(|partition| self.move_partition(epoch, partition))
            .buffer_unordered(PARTITIONS_AT_ONCE);
        while let Some((partition, moved)) = moves.next().await {
            if self.epochs.in_force() != number {
                // The work begins again in the newer epoch.
                return Ok(());
            }
            self.rebalance.note(|work| work.ended(partition, moved));
        }
        drop(moves);
        if let Some(failure) = self.rebalance.note(|work| work.failure()) {
            return Err(failure);
        }
        let Some(proposal) = epoch.without_oldest() else {
            return Ok(());
        };
        // Nothing looks again at a partition that is done.
        let retired = match self.check_moved(epoch, &all) {
            Ok(()) => self.succeed(epoch, proposal).await.map(drop),
            Err(error) => Err(error),
        };
        let retired = retired.map_err(|error| error.to_string());
        self.rebalance
            .note(|work| work.trouble = retired.clone().err());
        retired
    }
}

/// Returns the partitions whose replicas differ between the oldest and a newer live version.
///
/// Skipped replicas count as replicas. Let a version of five lose two, and let the newer version
/// name the three that are left: a write that one of the three and the two had acknowledged is on
/// no majority of the newer version yet.
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

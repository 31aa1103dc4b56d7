//! Purging stale partitions.
//!
//! A store may hold a partition, lose it while it is away, and get it again. It would bring back
//! rows whose tombstones may be gone. So no floor moves in an epoch before every store of the live
//! layouts knows the epoch and holds nothing of partitions that are not its own in it. Each store
//! also purges by itself, to free the space of partitions that moved away.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use archipel_base::PartitionId;
use archipel_net::Class;
use archipel_storage::{Error as StorageError, RowReader, RowTxn};

use crate::error::Error;
use crate::layout::{Epoch, StoreName, all_partitions};
use crate::node::wire::method;
use crate::node::{history_record as record, purge};
use crate::upkeep::Upkeep;
use crate::upkeep::anti_entropy::wire::PurgedCall;

impl Upkeep {
    /// Checks that every store of the live layouts is purged in this epoch.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the first store that is not known to be purged.
    pub(super) async fn all_are_purged(self: &Arc<Upkeep>, epoch: &Epoch) -> Result<(), Error> {
        for member in epoch.config.members() {
            if self.is_known_purged(epoch.number(), &member.node) {
                continue;
            }
            if member.node == self.epochs.me() {
                self.purge_stale(epoch.number()).await?
            } else {
                self.ask_whether_purged(epoch.number(), &member.node)
                    .await?
            }
            let mut purged = self.anti_entropy.floors.purged.lock();
            if purged.0 < epoch.number() {
                *purged = (epoch.number(), Default::default());
            }
            if purged.0 == epoch.number() {
                purged.1.insert(member.node);
            }
        }
        Ok(())
    }

    fn is_known_purged(&self, epoch: u64, store: &StoreName) -> bool {
        let purged = self.anti_entropy.floors.purged.lock();
        purged.0 == epoch && purged.1.contains(store)
    }

    async fn ask_whether_purged(&self, epoch: u64, store: &StoreName) -> Result<(), Error> {
        let peers = self.peers()?;
        let call = PurgedCall {
            epoch,
            store: store.store,
        };
        let asked = peers.call(&store.node, method::PURGED, Class::Background, &call);
        let PurgedCall { epoch: told, .. } = asked.await.map_err(|error| {
            let node = store.node.short();
            let why = "is not known to be purged since the last layout change";
            Error::Unavailable(format!("{node} {why}: {error}"))
        })?;
        if told == epoch {
            Ok(())
        } else {
            Err(Error::Unavailable("the layout changed meanwhile".into()))
        }
    }

    /// Answers another node that asks whether this store is purged. It does not wait for a purge:
    /// the node asks again.
    pub(in crate::upkeep) async fn serve_purged(
        self: &Arc<Upkeep>,
        from: archipel_base::NodeId,
        call: PurgedCall,
    ) -> Result<PurgedCall, String> {
        let learnt = self.keep_up(from, call.epoch).await;
        learnt.map_err(|error| error.to_string())?;
        if call.store != self.epochs.me().store || self.epochs.number() != call.epoch {
            return Err("this node has another store or layout".into());
        }
        let purged = self.purge_stale(call.epoch).await;
        purged.map_err(|error| error.to_string())?;
        Ok(call)
    }

    /// Drops all rows of partitions that are not this store's in the epoch.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the layout changed meanwhile, or if the store is
    /// [quarantined](Upkeep::is_quarantined).
    pub(crate) async fn purge_stale(self: &Arc<Upkeep>, epoch: u64) -> Result<(), Error> {
        if *self.anti_entropy.floors.self_purged.lock() == epoch {
            return Ok(());
        }
        let current = self.epochs.current().filter(|e| e.number() == epoch);
        let changed = || Error::Unavailable("the layout changed meanwhile".into());
        let current = current.ok_or_else(changed)?;
        // Read once: a store that is renamed meanwhile has no partitions under its new name.
        let me = self.epochs.me();
        if self.is_quarantined(&current, &me) {
            let why = "this store was rolled back and is quarantined: its data is kept until a layout \
                       names it";
            return Err(Error::Unavailable(why.into()));
        }
        #[cfg(test)]
        self.epochs.history.meanwhile();
        for partition in self.stale_partitions(&current, &me).await? {
            tracing::info!(%partition, "a stale partition is purged");
            self.purge(partition, epoch, &me).await?;
        }
        *self.anti_entropy.floors.self_purged.lock() = epoch;
        Ok(())
    }

    /// Returns true if this store, `me`, was renamed because it was rolled back, and no layout has
    /// named it since. Its data is given to no node, and is wiped when a layout names it. Until then
    /// it may be the last copy. Once a later layout drops the store, its data is stale like any other.
    pub(crate) fn is_quarantined(&self, epoch: &Epoch, me: &StoreName) -> bool {
        let is_renamed = me.store != self.store().identity();
        is_renamed && epoch.incarnation_of(me).is_none() && !self.epochs.was_named(me.store)
    }

    /// Returns the partitions that do not belong to this store, `me`, and of which it holds
    /// something.
    pub(crate) async fn stale_partitions(
        &self,
        epoch: &Epoch,
        me: &StoreName,
    ) -> Result<Vec<PartitionId>, Error> {
        let others: Vec<PartitionId> = all_partitions()
            .filter(|partition| !is_at(epoch, *partition, me))
            .collect();
        let look = move |rows: &RowReader<'_>| {
            let mut found = Vec::new();
            for partition in others {
                if purge::holds_any(rows, partition)? {
                    found.push(partition);
                }
            }
            Ok(found)
        };
        Ok(self.store().read(look).await?)
    }

    /// Returns true if the layout gives a partition to this store.
    pub(crate) fn is_here(&self, epoch: &Epoch, partition: PartitionId) -> bool {
        is_at(epoch, partition, &self.epochs.me())
    }

    /// Purges a partition that does not belong to this store, `me`, as long as `epoch` is in force
    /// and the store has that name.
    async fn purge(&self, partition: PartitionId, epoch: u64, me: &StoreName) -> Result<(), Error> {
        let faults = self.anti_entropy.floors.faults();
        let (name, identity) = (me.store, self.store().identity());
        loop {
            let fence = self.epochs.fence();
            let purge = move |txn: &mut RowTxn<'_>| {
                // A newer layout may name this store again.
                if fence.load(Ordering::SeqCst) != epoch {
                    return Err(StorageError::Busy("the layout changed meanwhile".into()));
                }
                // The name on disk: a rename is a transaction, too, so it comes before or after.
                if record::name(&txn.reader())?.unwrap_or(identity) != name {
                    let why = "this store was rolled back meanwhile: its data is kept";
                    return Err(StorageError::Busy(why.into()));
                }
                purge::purge_some(txn, partition, &faults)
            };
            if self.store().transact(purge::shrinking(), purge).await? {
                return Ok(());
            }
            tokio::time::sleep(faults.purge_pause).await;
        }
    }
}

/// Returns true if the layout gives a partition to a store.
fn is_at(epoch: &Epoch, partition: PartitionId, store: &StoreName) -> bool {
    let replicas = epoch.replicas(partition);
    replicas
        .iter()
        .flatten()
        .any(|member| member.node == *store)
}

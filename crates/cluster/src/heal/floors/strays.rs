//! Forgetting what is left here of partitions that went to other stores.
//!
//! A store that had part in a partition, lost it while it was away, and gets it again, would bring what it held: rows
//! whose tombstones may be gone. So no floor moves in an epoch before every store of the live layouts knows the epoch and holds nothing
//! of partitions that it does not name it for. Each store does so by itself, too: that gives back the space of what moved away.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::PartitionId;
use archipel_net::Class;
use archipel_storage::engine::{Durability, Flow};
use archipel_storage::store::Transact;
use archipel_storage::{Error as StorageError, RowKey, RowReader, RowTxn};
use bytes::Bytes;

use super::record;
use crate::error::Error;
use crate::heal::wire::{CleanCall, method};
use crate::inner::Inner;
use crate::layout::{Epoch, StoreName, all_partitions};

/// Rows forgotten in one transaction.
const BATCH: usize = 500;

impl Inner {
    /// Whether every store of the live layouts holds nothing but its own, in this epoch.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the first that is not known to.
    pub(super) async fn all_are_clean(self: &Arc<Inner>, epoch: &Epoch) -> Result<(), Error> {
        for member in epoch.config.members() {
            if self.is_known_clean(epoch.number(), &member.node) {
                continue;
            }
            match member.node == self.epochs.me() {
                true => self.clean(epoch.number()).await?,
                false => self.ask_whether_clean(epoch.number(), &member.node).await?,
            }
            let mut clean = crate::heal::lock(&self.heal.floors.clean);
            if clean.0 < epoch.number() {
                *clean = (epoch.number(), Default::default());
            }
            if clean.0 == epoch.number() {
                clean.1.insert(member.node);
            }
        }
        Ok(())
    }

    fn is_known_clean(&self, epoch: u64, store: &StoreName) -> bool {
        let clean = crate::heal::lock(&self.heal.floors.clean);
        clean.0 == epoch && clean.1.contains(store)
    }

    async fn ask_whether_clean(&self, epoch: u64, store: &StoreName) -> Result<(), Error> {
        let alone = || Error::Unavailable("this node is alone".into());
        let peers = self.peers.as_ref().ok_or_else(alone)?;
        let call = CleanCall {
            epoch,
            store: store.store,
        };
        let asked = peers.call(&store.node, method::CLEAN, Class::Background, &call);
        let CleanCall { epoch: told, .. } = asked.await.map_err(|error| {
            let node = store.node.short();
            let why = "has not been seen clean since the last change of the layout";
            Error::Unavailable(format!("{node} {why}: {error}"))
        })?;
        match told == epoch {
            true => Ok(()),
            false => Err(Error::Unavailable("the layout changed meanwhile".into())),
        }
    }

    /// Another node asks whether this store is clean. It is not waited for: it is asked again.
    pub(in crate::heal) async fn serve_clean(
        self: &Arc<Inner>,
        from: archipel_base::NodeId,
        call: CleanCall,
    ) -> Result<CleanCall, String> {
        let learnt = self.keep_up(from, call.epoch).await;
        learnt.map_err(|error| error.to_string())?;
        if call.store != self.epochs.me().store || self.epochs.number() != call.epoch {
            return Err("another store or layout is here".into());
        }
        let cleaned = self.clean(call.epoch).await;
        cleaned.map_err(|error| error.to_string())?;
        Ok(call)
    }

    /// Forgets all rows of partitions that are not this store's in the epoch.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the layout changed meanwhile, or the store is [put aside](Inner::is_put_aside).
    pub(crate) async fn clean(self: &Arc<Inner>, epoch: u64) -> Result<(), Error> {
        if *crate::heal::lock(&self.heal.floors.self_clean) == epoch {
            return Ok(());
        }
        let current = self.epochs.current().filter(|e| e.number() == epoch);
        let changed = || Error::Unavailable("the layout changed meanwhile".into());
        let current = current.ok_or_else(changed)?;
        if self.is_put_aside(&current) {
            let why = "this store was put back to an older state, and no layout names it yet: what it holds is kept until one does";
            return Err(Error::Unavailable(why.into()));
        }
        let strays = self.strays(&current).await?;
        for partition in strays {
            tracing::info!(%partition, "what is left of a partition that went elsewhere is forgotten");
            let fence = self.epochs.fence();
            while !forget_some(self, partition, (fence.clone(), epoch)).await? {}
        }
        *crate::heal::lock(&self.heal.floors.self_clean) = epoch;
        Ok(())
    }

    /// Whether the store was given a new name because its metadata were put back to an older state, and is in no layout under it. Nobody is
    /// given what it holds, and it is emptied when a layout names it; until then it may be the last copy of something.
    pub(crate) fn is_put_aside(&self, epoch: &Epoch) -> bool {
        let me = self.epochs.me();
        me.store != self.store().identity() && epoch.incarnation_of(&me).is_none()
    }

    /// Partitions that are not this store's, and of which something is here.
    pub(crate) async fn strays(&self, epoch: &Epoch) -> Result<Vec<PartitionId>, Error> {
        let me = self.epochs.me();
        let others: Vec<PartitionId> = all_partitions()
            .filter(|p| !epoch.replicas(*p).iter().flatten().any(|m| m.node == me))
            .collect();
        let look = move |rows: &RowReader<'_>| {
            let mut found = Vec::new();
            for partition in others {
                let some = !keys(rows, partition, 1)?.is_empty();
                if some || record::read(rows, partition)?.is_some() {
                    found.push(partition);
                }
            }
            Ok(found)
        };
        Ok(self.store().read(look).await?)
    }
}

fn keys(
    rows: &RowReader<'_>,
    partition: PartitionId,
    limit: usize,
) -> Result<Vec<RowKey>, StorageError> {
    let mut keys = Vec::new();
    rows.scan_heads(partition, &[], Bound::Unbounded, &mut |key, _| {
        keys.push(RowKey {
            partition,
            key: Bytes::copy_from_slice(key),
        });
        Ok(match keys.len() < limit {
            true => Flow::Continue,
            false => Flow::Stop,
        })
    })?;
    Ok(keys)
}

/// Forgets some rows, unless the layout changed; tells whether they were the last.
async fn forget_some(
    inner: &Inner,
    partition: PartitionId,
    (fence, epoch): (Arc<AtomicU64>, u64),
) -> Result<bool, Error> {
    let forget = move |txn: &mut RowTxn<'_>| {
        // A newer layout may name this store again.
        if fence.load(Ordering::SeqCst) != epoch {
            return Err(StorageError::Busy("the layout changed meanwhile".into()));
        }
        let keys = keys(&txn.reader(), partition, BATCH)?;
        keys.iter().try_for_each(|key| txn.forget(key))?;
        let last = keys.len() < BATCH;
        if last {
            record::forget(txn, partition)?;
        }
        Ok(last)
    };
    let how = Transact::new(Durability::Fsync).shrinking();
    Ok(inner.store().transact(how, forget).await?)
}

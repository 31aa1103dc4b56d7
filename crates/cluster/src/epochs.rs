//! The epoch that this node knows: durable before anything is answered in it, never going back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use archipel_base::Id;
use archipel_base::random::Random;
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{RowTxn, Store};
use tokio::sync::Mutex;

use crate::empty;
use crate::error::Error;
use crate::layout::{Epoch, StoreName};
use crate::lineage::Past;
use crate::register::Rules;
use crate::register::epoch::{Fence, fence};
use crate::wire::Address;

mod news;

pub use news::{Listening, News};

/// `meta` names of a store: the newest epoch that it knows, and the incarnation that its rows are of.
const EPOCH: &str = "epoch";
const INCARNATION: &str = "incarnation";
/// The node that the store belongs to.
const NODE: &str = "node";

/// What this node knows of epochs.
pub(crate) struct Epochs {
    /// What this node's store was.
    pub past: Past,
    current: RwLock<Option<Arc<Epoch>>>,
    /// Requests of epochs below are refused. Raised in the transaction that learns a newer one.
    fence: Arc<AtomicU64>,
    learning: Mutex<()>,
    news: News,
}

/// What to do with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    /// It is for this replica, and of the epoch that is known.
    Pass,
    /// A newer epoch is known.
    Superseded(u64),
    /// It is of a newer epoch: ask whoever sent it.
    Learn,
    /// Nothing of the kind is here.
    NotHere,
}

impl Epochs {
    /// Reads what was learnt before.
    pub async fn load(store: &Store, me: StoreName, random: &dyn Random) -> Result<Epochs, Error> {
        own(store, &me).await?;
        let was_in = store.read(|rows| rows.meta(INCARNATION)).await?.is_some();
        let past = Past::begin(store, me, Id::random(random), was_in).await?;
        let current = stored(store).await?.map(Arc::new);
        let number = current.as_ref().map_or(0, |epoch| epoch.number());
        let epochs = Epochs {
            past,
            current: RwLock::new(current),
            fence: Arc::new(AtomicU64::new(number)),
            learning: Mutex::default(),
            news: News::at(number),
        };
        if let Some(epoch) = epochs.current() {
            // A crash may have come between learning and emptying.
            epochs.become_incarnation(store, &epoch).await?;
        }
        Ok(epochs)
    }

    /// This node and its store.
    pub fn me(&self) -> StoreName {
        self.past.me()
    }

    /// Whether this store may answer for its replicas: it is alone, or others have borne out that it is what it was.
    pub fn may_answer(&self, epoch: &Epoch) -> bool {
        let me = self.me();
        self.past.is_proven(epoch.number()) || epoch.config.members().iter().all(|m| m.node == me)
    }

    /// The newest epoch known; `None` for a node that is in no cluster yet.
    pub fn current(&self) -> Option<Arc<Epoch>> {
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its number; 0 for none.
    pub fn number(&self) -> u64 {
        self.fence.load(Ordering::SeqCst)
    }

    /// Waits until an epoch that is being learnt just now is in force here: until then requests under the older one are
    /// refused already.
    pub async fn settled(&self) {
        let known = self.current().map_or(0, |epoch| epoch.number());
        if self.number() > known {
            drop(self.learning.lock().await);
        }
    }

    /// Tells when a newer one is known.
    pub fn changed(&self) -> Listening {
        self.news.listen()
    }

    /// Learns an epoch, durably, if it is newer than what is known.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it is another cluster's; what storage says.
    pub async fn learn(&self, store: &Store, epoch: Epoch) -> Result<(), Error> {
        let _one_at_a_time = self.learning.lock().await;
        if let Some(known) = self.current() {
            if known.cluster != epoch.cluster {
                let (ours, theirs) = (known.cluster, epoch.cluster);
                return Err(Error::Unavailable(format!(
                    "a layout of another cluster ({theirs}; this node is in {ours})"
                )));
            }
            if known.number() >= epoch.number() {
                return Ok(());
            }
        }
        let (bytes, number, fence) = (epoch.encode(), epoch.number(), self.fence.clone());
        store
            .transact(
                Transact::new(Durability::Fsync).bounded(),
                move |txn: &mut RowTxn<'_>| {
                    txn.set_meta(EPOCH, Some(&bytes))?;
                    // Earlier than durable is right: it only refuses.
                    fence.fetch_max(number, Ordering::SeqCst);
                    Ok(())
                },
            )
            .await?;
        self.become_incarnation(store, &epoch).await?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Some(Arc::new(epoch));
        drop(current);
        self.news.tell(number);
        tracing::info!(epoch = number, "a layout was learnt");
        Ok(())
    }

    /// A store that was in no live layout for a while may hold rows older than tombstones that
    /// are gone: it comes back as another, empty.
    async fn become_incarnation(&self, store: &Store, epoch: &Epoch) -> Result<(), Error> {
        let Some(wanted) = epoch.incarnation_of(&self.me()) else {
            return Ok(());
        };
        let wanted = wanted.to_be_bytes();
        let kept = store.read(|rows| rows.meta(INCARNATION)).await?;
        if kept.as_deref() == Some(&wanted) {
            return Ok(());
        }
        if kept.is_some() {
            tracing::warn!("this node comes back under a new incarnation: it empties its store");
            empty::empty(store).await?;
        }
        let set = move |txn: &mut RowTxn<'_>| txn.set_meta(INCARNATION, Some(&wanted));
        Ok(store
            .transact(Transact::new(Durability::Fsync).bounded(), set)
            .await?)
    }

    /// Whether a request is for this replica now.
    pub fn check(&self, address: &Address) -> Check {
        match fence(Rules::CORRECT, self.number(), address.epoch) {
            Fence::Superseded => return Check::Superseded(self.number()),
            Fence::Learn => return Check::Learn,
            Fence::Pass => {}
        }
        let Some(epoch) = self.current().filter(|e| e.number() == address.epoch) else {
            // Being learnt at this moment.
            return Check::Superseded(self.number());
        };
        if !self.may_answer(&epoch) {
            return Check::NotHere;
        }
        let me = self.me();
        let here = |replica: &crate::register::epoch::Member<StoreName>| {
            replica.node == me && replica.incarnation == address.incarnation
        };
        match epoch.replicas(address.partition).iter().flatten().any(here) {
            true => Check::Pass,
            false => Check::NotHere,
        }
    }

    /// To be asked inside of a transaction: whether the epoch is still the one.
    pub fn fence(&self) -> Arc<AtomicU64> {
        self.fence.clone()
    }
}

/// The epoch that a store knows.
pub(crate) async fn stored(store: &Store) -> Result<Option<Epoch>, Error> {
    let bytes = store.read(|rows| rows.meta(EPOCH)).await?;
    let epoch = bytes.map(|bytes| Epoch::decode(&bytes).map_err(damaged));
    epoch.transpose()
}

/// A store and a key that do not belong together are noticed.
async fn own(store: &Store, me: &StoreName) -> Result<(), Error> {
    let node = me.node;
    let owner = store.read(|rows| rows.meta(NODE)).await?;
    match owner {
        Some(owner) if owner[..] == node.as_bytes()[..] => Ok(()),
        Some(_) => Err(Error::Storage(archipel_storage::Error::Refused(
            "this store belongs to another node; fix: bring back that node's key, or name another folder".into(),
        ))),
        None => {
            let set = move |txn: &mut RowTxn<'_>| txn.set_meta(NODE, Some(node.as_bytes()));
            Ok(store.transact(Transact::new(Durability::Fsync).bounded(), set).await?)
        }
    }
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::Storage(archipel_storage::Error::Damaged(format!(
        "the layout that this node keeps: {error}"
    )))
}

#[cfg(test)]
mod tests;

//! The newest epoch that this node knows. It is durable before the node answers in it, and never
//! goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archipel_base::{Id, PartitionId, boxed};
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{RowTxn, Store};
use parking_lot::RwLock;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use super::own_history::OwnHistory;
use crate::error::Error;
use crate::layout::{Epoch, StoreName};
use crate::node::detach::DetachOnDrop;
use crate::node::options::ClusterOptions;
use crate::node::wire::Address;
use crate::register::Rules;
use crate::register::epoch::{Fence, fence};

mod first;
mod incarnation;
mod news;

use first::Learner;
pub(crate) use first::{FateCall, FateReply, Promise, end_founding, is_founding};
pub(crate) use incarnation::kept_incarnation;
pub use news::{Listening, News};

/// Names in the store's `meta`: the newest epoch that the store knows, and the node that it belongs
/// to.
const EPOCH: &str = "epoch";
const NODE: &str = "node";

/// The time for which a request waits for an epoch to be learnt. Usually that is one flush. But a
/// store that comes back is wiped first, which may take minutes.
const LEARNING: Duration = Duration::from_secs(3);

/// The epochs that this node knows.
pub(crate) struct Epochs {
    /// The runs of this node's store.
    pub history: OwnHistory,
    /// The name under which a layout gave the store its incarnation.
    named: RwLock<Option<Id>>,
    current: RwLock<Option<Arc<Epoch>>>,
    /// Requests of lower epochs are refused. The transaction that learns a newer epoch raises it.
    fence: Arc<AtomicU64>,
    /// Held while an epoch is learnt, or a first layout is promised or proposed.
    learning: Arc<Mutex<()>>,
    /// This node's part in a first layout that is not in force yet.
    first: first::First,
    news: News,
    /// The highest feature level that this node speaks.
    level: u32,
}

/// The treatment of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    /// The request is for this replica and names the known epoch.
    Pass,
    /// A newer epoch is known.
    Superseded(u64),
    /// The request names a newer epoch: ask the sender for it.
    Learn,
    /// The partition is not held here.
    NotHere,
    /// This node does not speak the cluster's feature level.
    TooOld,
    /// The request is for this replica, which may not answer before other nodes have confirmed that
    /// its store was not rolled back. That takes a moment after each change of the layout.
    Unconfirmed,
}

impl Epochs {
    /// Loads what the store remembers, and adds a run to its history.
    #[boxed]
    pub async fn load(options: &ClusterOptions, me: StoreName) -> Result<Epochs, Error> {
        let (store, random) = (&options.store, &*options.random);
        own(store, &me).await?;
        let (was_in, named) = incarnation::kept(store).await?;
        let history = OwnHistory::begin(store, me, Id::random(random), was_in).await?;
        let current = stored(store).await?.map(Arc::new);
        let first = first::First::load(store).await?;
        let number = current.as_ref().map_or(0, |epoch| epoch.number());
        let epochs = Epochs {
            history,
            named: RwLock::new(named),
            current: RwLock::new(current),
            fence: Arc::new(AtomicU64::new(number)),
            learning: Arc::default(),
            first,
            news: News::at(number),
            level: options.level,
        };
        epochs.complain();
        if let Some(epoch) = epochs.current() {
            // A crash may have come between learning the epoch and wiping the store.
            epochs.become_incarnation(store, &epoch).await?;
        }
        Ok(epochs)
    }

    /// Returns this node and its store.
    pub fn me(&self) -> StoreName {
        self.history.me()
    }

    /// Returns the highest feature level that this node speaks.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Returns an error if the cluster has a feature level that this node does not speak.
    pub fn check_level(&self) -> Result<(), Error> {
        match self.current().map(|epoch| epoch.level) {
            Some(wanted) if wanted > self.level => Err(Error::Unavailable(format!(
                "this node speaks feature level {}, the cluster has level {wanted}; fix: start a newer Archipel on this node",
                self.level
            ))),
            _ => Ok(()),
        }
    }

    fn complain(&self) {
        if let Err(error) = self.check_level() {
            tracing::error!(%error, "this node serves nothing");
        }
    }

    /// Returns true if this store may answer for its replicas: it is alone, or other stores have
    /// confirmed that it was not rolled back.
    pub fn may_answer(&self, epoch: &Epoch) -> bool {
        let me = self.me();
        self.history.is_proven(epoch.number())
            || epoch.config.members().iter().all(|m| m.node == me)
    }

    /// Returns true if this node holds the only replica of a partition.
    pub fn is_alone_in(&self, partition: PartitionId) -> bool {
        let me = self.me();
        self.current().is_some_and(|epoch| {
            let replicas = epoch.replicas(partition);
            replicas.iter().flatten().all(|m| m.node == me)
        })
    }

    /// Returns the newest known epoch; `None` if the node is in no cluster yet.
    pub fn current(&self) -> Option<Arc<Epoch>> {
        let current = self.current.read();
        current.clone()
    }

    /// Returns the number of the newest known epoch; 0 if there is none. Requests of lower ones are
    /// refused.
    pub fn number(&self) -> u64 {
        self.fence.load(Ordering::SeqCst)
    }

    /// Returns the number of the epoch in which this node answers; 0 if there is none. It is below
    /// [`number`](Epochs::number) while a newer epoch is being learnt.
    pub fn in_force(&self) -> u64 {
        self.current().map_or(0, |epoch| epoch.number())
    }

    /// Waits until an epoch that is being learnt is in force here, or could not be stored. Until
    /// then requests of the older epoch are refused already.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if that takes longer than a request may wait.
    #[boxed]
    pub async fn settled(&self) -> Result<(), Error> {
        if self.number() <= self.in_force() {
            return Ok(());
        }
        let learnt = async {
            drop(self.learning.lock().await);
            Ok(())
        };
        in_time(learnt).await
    }

    /// Returns a listener that reports newer epochs by number.
    pub fn changed(&self) -> Listening {
        self.news.listen()
    }

    /// Learns an epoch, durably, if it is newer than the known one.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it belongs to another cluster, or cannot be stored. Then the node
    /// goes on in the older epoch, and may learn the newer one again. The errors of storage if the
    /// store cannot be wiped.
    #[boxed]
    pub async fn learn(self: &Arc<Epochs>, store: &Store, epoch: Epoch) -> Result<(), Error> {
        let turn = self.learning.clone().lock_owned().await;
        self.learn_in_turn(turn, store, epoch, Learner::Member)
            .await
    }

    /// Learns an epoch for a caller that holds `learning`. A node that founds the cluster by this
    /// remembers so.
    ///
    /// It goes on without its caller: an epoch that is in the store and not in force would let this
    /// node refuse everything.
    async fn learn_in_turn(
        self: &Arc<Epochs>,
        turn: OwnedMutexGuard<()>,
        store: &Store,
        epoch: Epoch,
        learner: Learner,
    ) -> Result<(), Error> {
        let (epochs, store) = (self.clone(), store.clone());
        DetachOnDrop::new(async move {
            let _turn = turn;
            epochs.learn_now(&store, epoch, learner).await
        })
        .await
    }

    /// Learns an epoch while `learning` is held.
    async fn learn_now(&self, store: &Store, epoch: Epoch, learner: Learner) -> Result<(), Error> {
        self.first.check_promise(&epoch)?;
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
        let before = self.number();
        let learn = move |txn: &mut RowTxn<'_>| {
            txn.set_meta(EPOCH, Some(&bytes))?;
            first::settle(txn, learner)?;
            // Before the commit is early enough: the fence only refuses.
            fence.fetch_max(number, Ordering::SeqCst);
            Ok(())
        };
        let how = Transact::new(Durability::Fsync).bounded();
        if let Err(error) = store.transact(how, learn).await {
            // This node has told nobody that it knows the epoch. It goes on as if it had not heard
            // of it.
            self.fence.store(before, Ordering::SeqCst);
            let why = format!("a newer layout cannot be stored: {error}");
            return Err(Error::Unavailable(why));
        }
        self.become_incarnation(store, &epoch).await?;
        let mut current = self.current.write();
        *current = Some(Arc::new(epoch));
        drop(current);
        self.first.forget();
        self.news.tell(number);
        tracing::info!(epoch = number, "a layout was learnt");
        self.complain();
        Ok(())
    }

    /// Decides whether a request is for this replica now.
    pub fn check(&self, address: &Address) -> Check {
        match fence(Rules::CORRECT, self.number(), address.epoch) {
            Fence::Superseded => return Check::Superseded(self.number()),
            Fence::Learn => return Check::Learn,
            Fence::Pass => {}
        }
        let Some(epoch) = self.current().filter(|e| e.number() == address.epoch) else {
            // The epoch is being learnt at this moment.
            return Check::Superseded(self.number());
        };
        if epoch.level > self.level {
            return Check::TooOld;
        }
        // Before the name: once a store was renamed, it may answer in all epochs, but not under its
        // old name.
        let may_answer = self.may_answer(&epoch);
        let me = self.me();
        let here = |replica: &crate::register::epoch::Member<StoreName>| {
            replica.node == me && replica.incarnation == address.incarnation
        };
        let is_here = epoch.replicas(address.partition).iter().flatten().any(here);
        match (is_here, may_answer) {
            (true, true) => Check::Pass,
            (true, false) => Check::Unconfirmed,
            (false, _) => Check::NotHere,
        }
    }

    /// Returns the number below which requests are refused, to be read inside a transaction.
    pub fn fence(&self) -> Arc<AtomicU64> {
        self.fence.clone()
    }

    /// Returns the epoch of a request that was [checked](Epochs::check), for the transaction or the
    /// view that answers it.
    pub fn under(&self, epoch: u64) -> Under {
        Under {
            epoch,
            fence: self.fence.clone(),
        }
    }
}

/// Waits for an epoch to be learnt, for as long as a request may. The learning goes on afterwards.
///
/// # Errors
/// [`Error::Unavailable`] if the time is over, and the errors of `learning`.
pub(crate) async fn in_time(
    learning: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let learnt = timeout(LEARNING, learning).await;
    learnt.unwrap_or_else(|_| {
        let why = "this node still learns a newer layout. If its store comes back, the store is wiped first";
        Err(Error::Unavailable(why.into()))
    })
}

/// The epoch under which rows are read or changed.
pub(crate) struct Under {
    epoch: u64,
    fence: Arc<AtomicU64>,
}

impl Under {
    /// Returns the newer epoch, if one was learnt since the request was checked. To be asked inside
    /// the transaction or the view: a store that learns an epoch may drop rows, and then a row that
    /// is not there says nothing about the older epoch.
    pub fn superseded(&self) -> Option<u64> {
        let newest = self.fence.load(Ordering::SeqCst);
        (newest > self.epoch).then_some(newest)
    }
}

/// Returns the epoch that a store knows.
pub(crate) async fn stored(store: &Store) -> Result<Option<Epoch>, Error> {
    let bytes = store.read(|rows| rows.meta(EPOCH)).await?;
    let epoch = bytes.map(|bytes| Epoch::decode(&bytes).map_err(damaged));
    epoch.transpose()
}

/// Ties the store to this node's key, or fails if it belongs to another node.
async fn own(store: &Store, me: &StoreName) -> Result<(), Error> {
    let node = me.node;
    let owner = store.read(|rows| rows.meta(NODE)).await?;
    match owner {
        Some(owner) if owner[..] == node.as_bytes()[..] => Ok(()),
        Some(_) => Err(Error::Storage(archipel_storage::Error::Refused(
            "this store belongs to another node; fix: restore that node's key, or name another folder".into(),
        ))),
        None => {
            let set = move |txn: &mut RowTxn<'_>| txn.set_meta(NODE, Some(node.as_bytes()));
            Ok(store.transact(Transact::new(Durability::Fsync).bounded(), set).await?)
        }
    }
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::Storage(archipel_storage::Error::Damaged(format!(
        "the stored layout of this node: {error}"
    )))
}

#[cfg(test)]
mod tests;

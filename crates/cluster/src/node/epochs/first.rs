//! First layouts that are not in force yet: the one that this node promised to be part of, and the
//! one that it proposes itself.
//!
//! One node proposes, and each other node of the layout promises, durably. A node promises itself
//! once, and learns no other cluster meanwhile. The proposal is in force once the proposing node
//! has learnt it, which it does only when all have promised. Only that node's store can tell that
//! the proposal was dropped, and then it never commits it: its proposal is in memory, under the
//! lock under which it learns. So two first layouts with a node in common never both come into
//! force. `docs/internals/first-layout.md` has the argument.

use std::collections::BTreeSet;
use std::sync::Arc;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, NodeId, boxed};
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{RowTxn, Store};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{Epochs, damaged};
use crate::error::Error;
use crate::layout::{Epoch, StoreName};

/// Names in the store's `meta`: the promise, and a mark that this node founded its cluster.
const PROMISE: &str = "promise";
const FOUNDED: &str = "founded";

/// A promise to be part of a first layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Promise {
    /// The store that proposed the layout.
    pub founder: StoreName,
    /// The cluster that the layout would found.
    pub cluster: Id,
    /// The nodes of the layout.
    pub nodes: BTreeSet<NodeId>,
}

impl Promise {
    fn of(founder: StoreName, epoch: &Epoch) -> Promise {
        let roles = epoch.newest().roles.iter();
        Promise {
            founder,
            cluster: epoch.cluster,
            nodes: roles.map(|role| role.store.node).collect(),
        }
    }
}

/// A promise as it is stored, with the proposal.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(rename = "f")]
    founder: StoreName,
    #[serde(rename = "e")]
    epoch: Bytes,
}

impl Versioned for Stored {
    const VERSION: u8 = 1;
}

/// A request to the store that proposed a first layout.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct FateCall {
    /// The cluster that the proposal would found.
    #[serde(rename = "c")]
    pub cluster: Id,
    /// The store that proposed it.
    #[serde(rename = "s")]
    pub store: Id,
}

impl Versioned for FateCall {
    const VERSION: u8 = 1;
}

/// The fate of a proposed first layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum FateReply {
    /// It is in force.
    #[serde(rename = "f")]
    InForce,
    /// It is still proposed.
    #[serde(rename = "o")]
    Open,
    /// It never came into force and never will.
    #[serde(rename = "d")]
    Dropped,
}

impl Versioned for FateReply {
    const VERSION: u8 = 1;
}

/// This node's part in first layouts. It changes only under the lock `learning`.
#[derive(Default)]
pub(super) struct First(Mutex<State>);

#[derive(Default)]
struct State {
    /// The number of nodes that form the first layout; 0 if this node does not wait for that.
    nodes: usize,
    /// The reason why this node promises nothing now.
    waits: Option<String>,
    promised: Option<Promise>,
    proposed: Option<Id>,
}

impl First {
    /// Loads what the store remembers.
    #[boxed]
    pub async fn load(store: &Store) -> Result<First, Error> {
        let bytes = store.read(|rows| rows.meta(PROMISE)).await?;
        let promised = bytes.map(|bytes| {
            let stored: Stored = codec::decode(&bytes).map_err(damaged)?;
            let epoch = Epoch::decode(&stored.epoch).map_err(damaged)?;
            Ok::<_, Error>(Promise::of(stored.founder, &epoch))
        });
        Ok(First(Mutex::new(State {
            promised: promised.transpose()?,
            ..State::default()
        })))
    }

    /// Refuses an epoch of another cluster than the promised one.
    pub fn check_promise(&self, epoch: &Epoch) -> Result<(), Error> {
        let state = self.0.lock();
        match &state.promised {
            Some(promise) if promise.cluster != epoch.cluster => {
                let founder = promise.founder.node.short();
                Err(Error::Unavailable(format!(
                    "this node promised node {founder} to be part of the first layout of another cluster; \
                     fix: start that node, or, if it is lost for good, stop this node and empty its data_dir: \
                     it holds no data yet"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Forgets promise and proposal, once a layout is in force.
    pub fn forget(&self) {
        let mut state = self.0.lock();
        state.promised = None;
        state.proposed = None;
    }
}

/// The part of a node in the cluster whose epoch it learns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Learner {
    /// It founds the cluster by this.
    Founder,
    /// Others told it.
    Member,
}

/// Ends a promise in the transaction that learns an epoch.
pub(super) fn settle(
    txn: &mut RowTxn<'_>,
    learner: Learner,
) -> Result<(), archipel_storage::Error> {
    txn.set_meta(PROMISE, None)?;
    if learner == Learner::Founder {
        txn.set_meta(FOUNDED, Some(&[1]))?;
    }
    Ok(())
}

/// Returns true if this store's node founded its cluster and has not ended that.
pub(crate) async fn is_founding(store: &Store) -> Result<bool, Error> {
    Ok(store.read(|rows| rows.meta(FOUNDED)).await?.is_some())
}

/// Removes the mark of a founding node.
pub(crate) async fn end_founding(store: &Store) -> Result<(), Error> {
    set(store, FOUNDED, None).await
}

async fn set(store: &Store, name: &'static str, value: Option<Vec<u8>>) -> Result<(), Error> {
    let set = move |txn: &mut RowTxn<'_>| txn.set_meta(name, value.as_deref());
    let how = Transact::new(Durability::Fsync).bounded();
    Ok(store.transact(how, set).await?)
}

impl Epochs {
    /// Sets the number of nodes that form the first layout, and the reason why this node does not
    /// promise to be part of one yet. A node that does not wait for that promises nothing.
    pub fn wait_for_first(&self, nodes: usize, waits: Option<String>) {
        let mut state = self.first.0.lock();
        state.nodes = nodes;
        state.waits = waits;
    }

    /// Returns the promise that this node has given and that is neither kept nor released.
    pub fn promised(&self) -> Option<Promise> {
        self.first.0.lock().promised.clone()
    }

    /// Founds a cluster of this node alone.
    #[boxed]
    pub async fn found(self: &Arc<Epochs>, store: &Store, epoch: Epoch) -> Result<(), Error> {
        let turn = self.learning.clone().lock_owned().await;
        self.learn_in_turn(turn, store, epoch, Learner::Founder)
            .await
    }

    /// Begins to propose a first layout.
    ///
    /// # Errors
    /// A text if this node is bound already.
    #[boxed]
    pub async fn propose(&self, epoch: &Epoch) -> Result<(), String> {
        let _one_at_a_time = self.learning.lock().await;
        let is_in = self.current().is_some();
        let mut state = self.first.0.lock();
        if is_in || state.promised.is_some() || state.proposed.is_some() {
            return Err("this node is bound to a layout already".into());
        }
        state.proposed = Some(epoch.cluster);
        Ok(())
    }

    /// Brings the proposed first layout into force, because all its nodes have promised. Drops it
    /// if `heard` tells of a cluster by now.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if this node learnt another layout or heard of a cluster meanwhile.
    /// Also if the layout cannot be stored: then the proposal stays open, because the store may
    /// hold it.
    pub async fn commit(
        self: &Arc<Epochs>,
        store: &Store,
        epoch: Epoch,
        heard: impl Fn() -> Option<String> + Send + Sync,
    ) -> Result<(), Error> {
        let turn = self.learning.clone().lock_owned().await;
        let proposed = self.first.0.lock().proposed;
        if proposed != Some(epoch.cluster) {
            return Err(Error::Unavailable(
                "this node is in another layout meanwhile".into(),
            ));
        }
        if let Some(why) = heard() {
            self.first.0.lock().proposed = None;
            return Err(Error::Unavailable(why));
        }
        self.learn_in_turn(turn, store, epoch, Learner::Founder)
            .await
    }

    /// Drops the proposal: it never comes into force.
    #[boxed]
    pub async fn withdraw(&self) {
        let _one_at_a_time = self.learning.lock().await;
        self.first.0.lock().proposed = None;
    }

    /// Promises to be part of a first layout that another node proposes, unless `heard` tells of a
    /// cluster.
    ///
    /// # Errors
    /// A text for that node's operator.
    pub async fn promise(
        &self,
        store: &Store,
        from: NodeId,
        epoch: Epoch,
        heard: impl Fn() -> Option<String> + Send + Sync,
    ) -> Result<(), String> {
        let _one_at_a_time = self.learning.lock().await;
        if let Some(known) = self.current() {
            let same = known.cluster == epoch.cluster;
            return same.then_some(()).ok_or("it is in a layout already".into());
        }
        let founder = self.check_proposal(from, &epoch)?;
        let promise = Promise::of(founder, &epoch);
        {
            let state = self.first.0.lock();
            match &state.promised {
                Some(given) if *given == promise => return Ok(()),
                Some(given) => {
                    let other = given.founder.node.short();
                    return Err(format!("it promised the same to node {other} before"));
                }
                None if state.proposed.is_some() => {
                    return Err("it proposes a first layout itself".into());
                }
                None => {}
            }
            if let Some(waits) = &state.waits {
                return Err(waits.clone());
            }
        }
        // This node may hear of a cluster before it learns that cluster's layout, or without.
        if let Some(why) = heard() {
            return Err(why);
        }
        let stored = codec::encode(&Stored {
            founder,
            epoch: epoch.encode().into(),
        });
        let kept = set(store, PROMISE, Some(stored)).await;
        kept.map_err(|error| error.to_string())?;
        self.first.0.lock().promised = Some(promise);
        Ok(())
    }

    /// Returns the store of the proposing node, if this node may be part of its proposal.
    fn check_proposal(&self, from: NodeId, epoch: &Epoch) -> Result<StoreName, String> {
        let layout = epoch.newest();
        let nodes = self.first.0.lock().nodes;
        if epoch.number() != 1 || layout.version != 1 || epoch.is_changing() {
            return Err("this is no first layout".into());
        }
        if nodes != layout.roles.len() {
            let asked = layout.roles.len();
            return Err(format!(
                "its cluster.first_nodes is {nodes}, not {asked}; fix: set the same number on all nodes"
            ));
        }
        if epoch.level > self.level {
            let (level, spoken) = (epoch.level, self.level);
            return Err(format!("it speaks feature level {spoken}, not {level}"));
        }
        let me = self.me();
        if !layout.roles.iter().any(|role| role.store == me) {
            return Err("the proposed layout names another store of it".into());
        }
        let founder = layout.role_of(&from);
        let founder = founder.ok_or("the proposing node is not in the proposed layout")?;
        Ok(founder.store)
    }

    /// Tells another node the fate of a first layout that this node proposed.
    ///
    /// # Errors
    /// A text if another store of this node proposed it: nobody can tell then.
    #[boxed]
    pub async fn fate(&self, call: &FateCall) -> Result<FateReply, String> {
        let _one_at_a_time = self.learning.lock().await;
        if self.me().store != call.store {
            return Err("this node has another store than the one that proposed the layout".into());
        }
        let in_force = self.current().map(|epoch| epoch.cluster);
        let open = self.first.0.lock().proposed;
        Ok(match (in_force, open) {
            (Some(cluster), _) if cluster == call.cluster => FateReply::InForce,
            (_, Some(cluster)) if cluster == call.cluster => FateReply::Open,
            _ => FateReply::Dropped,
        })
    }

    /// Releases a promise, because the proposal was dropped.
    #[boxed]
    pub async fn release(&self, store: &Store, promise: &Promise) -> Result<(), Error> {
        let _one_at_a_time = self.learning.lock().await;
        if self.promised().as_ref() == Some(promise) {
            set(store, PROMISE, None).await?;
            self.first.0.lock().promised = None;
        }
        Ok(())
    }
}

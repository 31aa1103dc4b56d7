//! A running store's knowledge of itself: its name, its run history, and the epoch in which other
//! stores have confirmed it.

use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::{Id, NodeId, boxed};
use archipel_storage::{Error, Store};
use parking_lot::{Mutex, MutexGuard};

use super::epochs::{Listening, News};
use super::history::{Contradiction, History};
use super::history_record::{self as record, Begun};
use crate::layout::StoreName;

/// A rollback of this store's metadata that was detected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rollback {
    /// The name that the store had.
    pub was: Id,
    /// The node that remembers more of the store.
    pub told_by: NodeId,
    /// The reason, in plain words.
    pub why: String,
}

/// A store's own run history.
pub(crate) struct OwnHistory {
    state: Mutex<State>,
    /// The epoch in which the store may answer for its replicas.
    proven: AtomicU64,
    renamed: News,
    /// Runs just before the next look at `proven`, or the next purge of stale partitions.
    #[cfg(test)]
    pub meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// Stands for all epochs until the store stops. No other store remembers anything of this one.
const EVER: u64 = u64::MAX;

struct State {
    me: StoreName,
    history: History,
    rollback: Option<Rollback>,
    /// The number of times that the store was renamed in this run.
    renames: u64,
}

impl OwnHistory {
    /// Adds a run. `me` is the store's name unless it was renamed.
    #[boxed]
    pub async fn begin(
        store: &Store,
        me: StoreName,
        token: Id,
        was_in: bool,
    ) -> Result<OwnHistory, Error> {
        let begun = record::begin(store, me.store, token, was_in).await?;
        let Begun {
            name,
            history,
            is_new,
        } = begun;
        Ok(OwnHistory {
            state: Mutex::new(State {
                me: StoreName { store: name, ..me },
                history,
                rollback: None,
                renames: 0,
            }),
            proven: AtomicU64::new(if is_new { EVER } else { 0 }),
            renamed: News::default(),
            #[cfg(test)]
            meanwhile: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns this node and its store.
    pub fn me(&self) -> StoreName {
        self.state().me
    }

    /// Returns the store's runs.
    pub fn history(&self) -> History {
        self.state().history.clone()
    }

    /// Returns the rollback that was detected in this run, if any.
    pub fn rollback(&self) -> Option<Rollback> {
        self.state().rollback.clone()
    }

    /// Returns true if the store may answer for its replicas in an epoch.
    pub fn is_proven(&self, epoch: u64) -> bool {
        #[cfg(test)]
        self.meanwhile();
        let proven = self.proven.load(Ordering::SeqCst);
        proven == epoch || proven == EVER
    }

    /// Lets the store answer in this epoch, if it is later than the epochs in which it could so
    /// far.
    pub fn prove(&self, epoch: u64) {
        self.proven.fetch_max(epoch, Ordering::SeqCst);
    }

    /// Lets the store answer in all epochs until it stops.
    pub fn prove_for_ever(&self) {
        self.proven.store(EVER, Ordering::SeqCst);
    }

    /// Lets the store answer in no epoch, as after a restart.
    #[cfg(test)]
    pub fn disprove(&self) {
        self.proven.store(0, Ordering::SeqCst);
    }

    /// Runs the closure that a test has set, once.
    #[cfg(test)]
    pub fn meanwhile(&self) {
        let meanwhile = self.meanwhile.lock().take();
        meanwhile.into_iter().for_each(|meanwhile| meanwhile());
    }

    /// Returns a listener that reports when the store is renamed.
    pub fn renamed(&self) -> Listening {
        self.renamed.listen()
    }

    /// Raises the mark, durably, because something has changed.
    #[boxed]
    pub async fn mark(&self, store: &Store) -> Result<(), Error> {
        let mut history = self.history();
        history.mark();
        record::keep(store, &history).await?;
        self.state().history = history;
        Ok(())
    }

    /// Continues under another name, because this store was rolled back.
    #[boxed]
    pub async fn rename(
        &self,
        store: &Store,
        (name, token): (Id, Id),
        (told_by, contradiction): (NodeId, Contradiction),
    ) -> Result<(), Error> {
        self.proven.store(0, Ordering::SeqCst);
        let mut history = History::default();
        history.begin(token);
        record::rename(store, name, &history).await?;
        let mut state = self.state();
        state.rollback = Some(Rollback {
            was: state.me.store,
            told_by,
            why: explain(contradiction).to_owned(),
        });
        (state.me.store, state.history) = (name, history);
        state.renames += 1;
        let renames = state.renames;
        drop(state);
        self.prove_for_ever();
        self.renamed.tell(renames);
        Ok(())
    }
}

fn explain(contradiction: Contradiction) -> &'static str {
    match contradiction {
        Contradiction::Older => "the metadata here are older than what it remembers of this store",
        Contradiction::Forked => {
            "the metadata here were rolled back: it remembers another run of this store"
        }
    }
}

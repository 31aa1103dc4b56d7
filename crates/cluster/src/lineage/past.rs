//! What a store knows of itself while it runs: its name, its lineage, and whether the others bear it out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use archipel_base::{Id, NodeId};
use archipel_storage::{Error, Store};

use super::record::{self, Begun};
use super::{Contradiction, Lineage};
use crate::epochs::{Listening, News};
use crate::layout::StoreName;

/// That a store's metadata were put back to an older state, and what told so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutBack {
    /// The name that the store had.
    pub was: Id,
    /// Who remembers more of it.
    pub told_by: NodeId,
    /// What, in plain words.
    pub why: String,
}

/// A store's own past.
pub(crate) struct Past {
    state: Mutex<State>,
    /// The epoch in which it may answer for its replicas.
    proven: AtomicU64,
    renamed: News,
}

/// Nobody can remember anything of the store: it answers in all epochs, until it ends.
const EVER: u64 = u64::MAX;

struct State {
    me: StoreName,
    lineage: Lineage,
    put_back: Option<PutBack>,
    /// How often it was renamed in this run.
    renames: u64,
}

impl Past {
    /// A run begins. `me` is the store's name unless it was given another.
    pub async fn begin(
        store: &Store,
        me: StoreName,
        token: Id,
        was_in: bool,
    ) -> Result<Past, Error> {
        let begun = record::begin(store, me.store, token, was_in).await?;
        let Begun {
            name,
            lineage,
            is_new,
        } = begun;
        Ok(Past {
            state: Mutex::new(State {
                me: StoreName { store: name, ..me },
                lineage,
                put_back: None,
                renames: 0,
            }),
            proven: AtomicU64::new(if is_new { EVER } else { 0 }),
            renamed: News::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store.
    pub fn me(&self) -> StoreName {
        self.state().me
    }

    /// Its runs.
    pub fn lineage(&self) -> Lineage {
        self.state().lineage.clone()
    }

    /// That it was put back to an older state, in this run.
    pub fn put_back(&self) -> Option<PutBack> {
        self.state().put_back.clone()
    }

    /// Whether it may answer for its replicas in an epoch.
    pub fn is_proven(&self, epoch: u64) -> bool {
        let proven = self.proven.load(Ordering::SeqCst);
        proven == epoch || proven == EVER
    }

    /// It may in this epoch, if it is later than those in which it could so far.
    pub fn prove(&self, epoch: u64) {
        self.proven.fetch_max(epoch, Ordering::SeqCst);
    }

    /// It may from now on, until it ends.
    pub fn prove_for_ever(&self) {
        self.proven.store(EVER, Ordering::SeqCst);
    }

    /// Tells when it was given another name.
    pub fn renamed(&self) -> Listening {
        self.renamed.listen()
    }

    /// Notes, durably, that something has changed.
    pub async fn mark(&self, store: &Store) -> Result<(), Error> {
        let mut lineage = self.lineage();
        lineage.mark();
        record::keep(store, &lineage).await?;
        self.state().lineage = lineage;
        Ok(())
    }

    /// Goes on as another store, since this one is not what it was.
    pub async fn rename(
        &self,
        store: &Store,
        (name, token): (Id, Id),
        (told_by, contradiction): (NodeId, Contradiction),
    ) -> Result<(), Error> {
        self.proven.store(0, Ordering::SeqCst);
        let mut lineage = Lineage::default();
        lineage.begin(token);
        record::rename(store, name, &lineage).await?;
        let mut state = self.state();
        state.put_back = Some(PutBack {
            was: state.me.store,
            told_by,
            why: explain(contradiction).to_owned(),
        });
        (state.me.store, state.lineage) = (name, lineage);
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
            "the metadata here were put back to an older state: it remembers another run of this store"
        }
    }
}

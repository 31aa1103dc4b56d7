//! What is between a commit and its durability.
//!
//! # Invariants
//! - The references of a buffered commit are kept until a sync that began after it has ended:
//!   before that a power cut may bring back rows whose blocks they released.
//! - If that never happens (a failure, or the store is dropped) they are abandoned: nothing of
//!   theirs is freed until the next start.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::blocks::Change;
use crate::error::Error;

/// Counts buffered commits, and knows which of them are durable.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<State>);

#[derive(Default)]
struct State {
    /// References of buffered commits that are not durable, by the commit's number.
    unsettled: VecDeque<(u64, Vec<Change>)>,
    /// The last buffered commit.
    committed: u64,
    /// The last that is durable.
    durable: u64,
    /// The last that may refer to blocks that nobody has synced, and the last whose blocks are.
    loose: u64,
    blocks_synced: u64,
    /// When the first commit that is not durable was made.
    since_ms: u64,
    /// Why the store takes no more writes.
    failed: Option<Error>,
}

/// What a sync has to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// The last commit that it makes durable.
    pub number: u64,
    /// Whether blocks have to be synced before the engine.
    pub blocks: bool,
}

impl Ledger {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffered commit was made.
    pub fn buffered(&self, references: Vec<Change>, loose_blocks: bool, now_ms: u64) {
        let mut state = self.state();
        if state.durable == state.committed {
            state.since_ms = now_ms;
        }
        state.committed += 1;
        let number = state.committed;
        if loose_blocks {
            state.loose = number;
        }
        state.unsettled.push_back((number, references));
    }

    /// A durable commit was made, and with it all before.
    pub fn durable(&self, references: Vec<Change>) {
        let committed = self.state().committed;
        self.synced(committed);
        references.into_iter().for_each(Change::settle);
    }

    /// What there is to sync, if anything.
    pub fn due(&self) -> Option<Due> {
        let state = self.state();
        (state.durable < state.committed).then_some(Due {
            number: state.committed,
            blocks: state.loose > state.blocks_synced,
        })
    }

    /// Since when the oldest commit that is not durable has waited.
    pub fn waits_since(&self) -> Option<u64> {
        let state = self.state();
        let waits = state.failed.is_none() && state.durable < state.committed;
        waits.then_some(state.since_ms)
    }

    /// The next attempt to sync is counted from now.
    pub fn put_off(&self, now_ms: u64) {
        self.state().since_ms = now_ms;
    }

    /// The blocks of all commits up to `number` are on stable storage, as far as disks can.
    pub fn blocks_synced(&self, number: u64) {
        let mut state = self.state();
        state.blocks_synced = state.blocks_synced.max(number);
    }

    /// All commits up to `number` are durable.
    pub fn synced(&self, number: u64) {
        let mut state = self.state();
        state.durable = state.durable.max(number);
        state.blocks_synced = state.blocks_synced.max(number);
        let end = state.unsettled.partition_point(|(n, _)| *n <= number);
        let settled: Vec<_> = state.unsettled.drain(..end).collect();
        drop(state);
        let references = settled.into_iter().flat_map(|(_, references)| references);
        references.for_each(Change::settle);
    }

    /// Why the store takes no more writes, if so.
    pub fn failed(&self) -> Option<Error> {
        self.state().failed.clone()
    }

    /// Takes no more writes from now on.
    pub fn fail(&self, error: &Error) {
        let mut state = self.state();
        if state.failed.is_none() {
            tracing::error!(%error, "the metadata engine failed: the store is read-only now");
            state.failed = Some(error.clone());
        }
        let unsettled = std::mem::take(&mut state.unsettled);
        drop(state);
        abandon(unsettled);
    }
}

fn abandon(unsettled: VecDeque<(u64, Vec<Change>)>) {
    let references = unsettled.into_iter().flat_map(|(_, references)| references);
    references.for_each(Change::abandon);
}

impl Drop for Ledger {
    fn drop(&mut self) {
        abandon(std::mem::take(&mut self.state().unsettled));
    }
}

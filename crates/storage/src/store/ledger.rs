//! The commits that are made but not durable yet.
//!
//! # Invariants
//! - The references of a buffered commit are kept until a sync that began after it has ended.
//!   Before that, a power cut may bring back rows whose blocks the commit released.
//! - If no such sync succeeds (after a failure, or when the store is dropped) the references are
//!   abandoned. None of their blocks is freed until the next start.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::blocks::Change;
use crate::error::Error;

/// The record of buffered commits and of which are durable.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<LedgerState>);

#[derive(Default)]
struct LedgerState {
    /// References of buffered commits that are not durable yet, by the number of the commit.
    unsettled: VecDeque<(u64, Vec<Change>)>,
    /// The number of the last buffered commit.
    committed: u64,
    /// The number of the last durable commit.
    durable: u64,
    /// The time of the first commit that is not durable.
    since_ms: u64,
    /// The error that made the store read-only.
    failed: Option<Error>,
}

impl Ledger {
    /// Records a buffered commit.
    pub fn buffered(&self, references: Vec<Change>, now_ms: u64) {
        let mut state = self.0.lock();
        if state.durable == state.committed {
            state.since_ms = now_ms;
        }
        state.committed += 1;
        let number = state.committed;
        state.unsettled.push_back((number, references));
    }

    /// Records a durable commit. All earlier commits are durable with it.
    pub fn durable(&self, references: Vec<Change>) {
        let committed = self.0.lock().committed;
        self.synced(committed);
        references.into_iter().for_each(Change::settle);
    }

    /// Returns the last commit that a sync would make durable, if any commit waits for one.
    pub fn due(&self) -> Option<u64> {
        let state = self.0.lock();
        (state.durable < state.committed).then_some(state.committed)
    }

    /// Returns the time since which the oldest non-durable commit has waited.
    pub fn waiting_since(&self) -> Option<u64> {
        let state = self.0.lock();
        let waits = state.failed.is_none() && state.durable < state.committed;
        waits.then_some(state.since_ms)
    }

    /// Counts the wait for the next sync from now.
    pub fn postpone_sync(&self, now_ms: u64) {
        self.0.lock().since_ms = now_ms;
    }

    /// Records that all commits up to `number` are durable.
    pub fn synced(&self, number: u64) {
        let mut state = self.0.lock();
        state.durable = state.durable.max(number);
        let end = state.unsettled.partition_point(|(n, _)| *n <= number);
        let settled: Vec<_> = state.unsettled.drain(..end).collect();
        drop(state);
        let references = settled.into_iter().flat_map(|(_, references)| references);
        references.for_each(Change::settle);
    }

    /// Returns the error that made the store read-only, if there is one.
    pub fn failed(&self) -> Option<Error> {
        self.0.lock().failed.clone()
    }

    /// Makes the store read-only.
    pub fn fail(&self, error: &Error) {
        let mut state = self.0.lock();
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
        abandon(std::mem::take(&mut self.0.lock().unsettled));
    }
}

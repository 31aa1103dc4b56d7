//! Whether a store's metadata are as new as the store was: what was put back behind its back is noticed.
//!
//! A store whose metadata are older than what it did (a copy of its folder from last week, a snapshot of its disk) has forgotten
//! what it promised and accepted, and what was deleted since. It must not answer as the store that it was. So each store keeps
//! its **lineage**: its runs, each with a random token, and in each a number that grows while the run changes
//! anything, the **mark**. The others remember, durably, the last run and mark that they heard of. After a start a store
//! answers for its replicas only once half of the others have told what they remember, and what that is stands in its own lineage. If it
//! does not, the store is given a new name: to all others its disk was lost, and it comes back, empty, when a layout names it.
//!
//! | module | what it holds |
//! |---|---|
//! | `past` | what a store knows of itself while it runs |
//! | `record` | a store's lineage, its name, and what is remembered of others, in `meta` |
//! | `driver` | asking the others, telling them |
//! | `wire` | what is asked |
//! | `accept` | believing stores that were put back together |
//!
//! # Invariants
//! - A mark is durable before it is told.
//! - What is remembered of a store only grows, and contradicts nothing that was remembered before.
//! - A new name is durable before the store answers under it; it never answers under an old one again.

use archipel_base::Id;
use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

mod accept;
mod driver;
mod past;
mod record;
pub(crate) mod wire;

#[cfg(test)]
mod tests;

pub use accept::accept_put_back;
pub(crate) use past::Past;
pub use past::PutBack;

/// How many runs are kept. Who remembers an earlier one was away for longer than that, and is believed nothing.
const MAX_RUNS: usize = 64;

/// One run of a store, from a start to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Counts from 1.
    #[serde(rename = "n")]
    pub number: u64,
    /// Random: of two runs with the same number one follows on metadata that were put back.
    #[serde(rename = "t")]
    pub token: Id,
    /// Grows in the run when something has changed.
    #[serde(rename = "m", default)]
    pub mark: u64,
}

/// The runs of a store, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Lineage(Vec<Run>);

impl Versioned for Lineage {
    const VERSION: u8 = 1;
}

/// Why a lineage cannot be that of the store of which something is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contradiction {
    /// It ends before.
    Older,
    /// It had another run in that place.
    Forked,
}

impl Lineage {
    /// Whether there was no run yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A run begins.
    pub fn begin(&mut self, token: Id) {
        let last = self.current().map_or(0, |run| run.number);
        self.0.push(Run {
            number: last.saturating_add(1),
            token,
            mark: 0,
        });
        let surplus = self.0.len().saturating_sub(MAX_RUNS);
        self.0.drain(..surplus);
    }

    /// Something has changed in the current run.
    pub fn mark(&mut self) {
        if let Some(run) = self.0.last_mut() {
            run.mark = run.mark.saturating_add(1);
        }
    }

    /// The current run.
    pub fn current(&self) -> Option<Run> {
        self.0.last().copied()
    }

    /// Whether this store cannot have been what somebody remembers.
    pub fn contradicts(&self, seen: &Run) -> Option<Contradiction> {
        let same = self.0.iter().find(|run| run.number == seen.number);
        match (same, self.0.first()) {
            (Some(run), _) if run.token != seen.token => Some(Contradiction::Forked),
            (Some(run), _) if run.mark < seen.mark => Some(Contradiction::Older),
            (Some(_), _) => None,
            (None, Some(first)) if seen.number < first.number => None,
            (None, _) => Some(Contradiction::Older),
        }
    }
}

/// How many of so many others must have answered: what more than half of them know, one of these tells.
pub(crate) fn enough_of(others: usize) -> usize {
    others.div_ceil(2)
}

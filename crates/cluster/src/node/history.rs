//! The run history of a store, by which a rollback of its metadata is detected.

use archipel_base::Id;
use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

/// The number of runs that a store keeps. A store that remembers an earlier run was away for longer
/// than that, and its memory does not count.
pub(crate) const MAX_RUNS: usize = 64;

/// One run of a store, from one start to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Counted from 1.
    #[serde(rename = "n")]
    pub number: u64,
    /// Random. If a store is rolled back, its next run has the same number as an earlier run, but
    /// another token.
    #[serde(rename = "t")]
    pub token: Id,
    /// Grows while the store changes anything during the run.
    #[serde(rename = "m", default)]
    pub mark: u64,
}

/// The runs of a store, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct History(pub(crate) Vec<Run>);

impl Versioned for History {
    const VERSION: u8 = 1;
}

/// A contradiction between a run history and the memory of another store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contradiction {
    /// The history ends before the remembered run or mark.
    Older,
    /// The history has another run under the same number.
    Forked,
}

impl History {
    /// Returns true if there was no run yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a run.
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

    /// Raises the mark of the current run.
    pub fn mark(&mut self) {
        if let Some(run) = self.0.last_mut() {
            run.mark = run.mark.saturating_add(1);
        }
    }

    /// Returns the current run.
    pub fn current(&self) -> Option<Run> {
        self.0.last().copied()
    }

    /// Returns the contradiction between this history and a run that another store remembers, if
    /// any.
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

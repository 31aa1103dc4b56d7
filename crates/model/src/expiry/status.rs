//! The state of expiry on this node, and the requests of operators.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The state of the worker that others look at.
#[derive(Default)]
pub(crate) struct Expiry {
    pub(super) status: Mutex<ExpiryStatus>,
    pub(super) asked: Mutex<Asked>,
    pub(super) wake: Notify,
}

/// The requests of operators.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    /// The number of times that a walk was asked for. Each makes everything due once more.
    pub walks: u64,
    /// The number of walks that have begun, had nothing to do, or were cancelled.
    pub answered: u64,
    /// The day, and the number of walks by then, for which nothing more is walked.
    pub stopped: Option<(u64, u64)>,
}

impl Expiry {
    /// Changes the status.
    pub(super) fn change(&self, change: impl FnOnce(&mut ExpiryStatus)) {
        change(&mut self.status.lock());
    }

    /// Returns true if nothing more is to be walked on a day.
    pub(super) fn is_stopped(&self, day: u64) -> bool {
        let asked = *self.asked.lock();
        asked.stopped == Some((day, asked.walks))
    }

    /// Notes that no walk waits of the first so many.
    pub(super) fn answer(&self, walks: u64) {
        let mut asked = self.asked.lock();
        // A cancellation may have answered later ones meanwhile.
        asked.answered = asked.answered.max(walks);
    }
}

/// The state of expiry on this node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExpiryStatus {
    /// The length of a day in milliseconds.
    pub day_ms: u64,
    /// The buckets with rules that may remove something.
    pub buckets: u64,
    /// True while a walk runs.
    pub running: bool,
    /// True if an operator asked for a walk that has not begun.
    pub waiting: bool,
    /// The start and the end of the last walk in milliseconds since 1970; 0 for never since the
    /// start of the node.
    pub began_ms: u64,
    /// See `began_ms`.
    pub ended_ms: u64,
    /// The time of the next walk, unless rules change before; `None` without rules.
    pub next_ms: Option<u64>,
    /// The parts of buckets that the current or last walk has to look at: one for each bucket and
    /// partition.
    pub parts: u64,
    /// Those that it has done.
    pub parts_done: u64,
    /// The removals since the start of the node.
    pub counts: ExpiryCounts,
    /// The failed removals before the current or last walk.
    pub failed_before: u64,
    /// The reason why no walk can begin, or why the last one ended before it was through; `None` if
    /// neither is so.
    pub trouble: Option<String>,
}

/// The removals by expiry since the start of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExpiryCounts {
    /// Rows that were looked at.
    pub examined: u64,
    /// Objects that were removed or, where there are versions, covered by a delete marker.
    pub objects: u64,
    /// Noncurrent versions that were removed.
    pub versions: u64,
    /// Delete markers that were removed because they were the only version.
    pub markers: u64,
    /// The bytes of what was removed.
    pub bytes: u64,
    /// Uploads that were aborted.
    pub uploads: u64,
    /// Removals that found another version, other rules or another protection than the walk had
    /// seen.
    pub skipped: u64,
    /// Removals that failed. They are tried again.
    pub failed: u64,
}

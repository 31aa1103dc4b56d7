//! The work of a lane, in its order, and the knowledge of partitions from which it follows.

use std::collections::{BTreeMap, BTreeSet};

use archipel_base::{PartitionId, Stamp};
use archipel_cluster::Brought;
use archipel_storage::RowKey;
use bytes::Bytes;
use tokio::time::Instant;

use super::{AGAIN, SCAN_PERIOD};
use crate::rowkeys;

/// Rows of objects, each with the lowest stamp of the news if nothing waited before it; `None` if
/// all events are looked at.
pub(super) type Objects = BTreeMap<RowKey, Option<Stamp>>;

/// A look at all objects of which this replica holds events, in the order of their rows.
pub(super) struct Walk {
    /// Objects without an event from before this time are passed over, in milliseconds.
    pub before_ms: u64,
    /// The row after which it goes on.
    pub after: Option<Bytes>,
    /// The number of objects that were looked at.
    pub begun: usize,
    /// True if it began where the one before it was stopped, and not at the first object.
    pub is_part: bool,
    /// True if its first objects had their turn: no target was left alone when it began.
    pub had_turn: bool,
    /// The first object that it passed over, because its target was left alone.
    passed_over: Option<RowKey>,
}

impl Walk {
    /// Returns a walk over all events.
    pub fn over_all() -> Walk {
        Walk::over_old(u64::MAX)
    }

    /// Returns a walk over the objects with an event from before a time.
    pub fn over_old(before_ms: u64) -> Walk {
        Walk {
            before_ms,
            after: None,
            begun: 0,
            is_part: false,
            had_turn: false,
            passed_over: None,
        }
    }

    /// Notes the result of a part of it.
    pub fn note(&mut self, pass: &Pass) {
        let later = pass.passed_over.clone();
        self.passed_over = self.passed_over.take().into_iter().chain(later).min();
    }

    /// Returns where it was stopped, if it passed over objects. It became due at this time.
    fn stop(self, since: Instant) -> Option<Stop> {
        Some(Stop {
            after: rowkeys::events_prefix(&self.passed_over?)?,
            since: (!self.had_turn).then_some(since),
        })
    }

    /// Returns true if it is one over old events: this is not the partition's first live replica.
    pub fn is_old(&self) -> bool {
        self.before_ms != u64::MAX
    }
}

/// Where a walk was stopped, because its target was left alone from then on. The next walk begins
/// there: else events that the target refuses would keep those behind them from their turn for
/// ever.
struct Stop {
    /// The row after which the next walk begins.
    after: Bytes,
    /// Since when the partition waits for its turn; `None` if its first objects had one.
    since: Option<Instant>,
}

/// The work of a lane, by partition.
pub(super) type Work = BTreeMap<PartitionId, Due>;

/// The work in a partition.
pub(super) struct Due {
    /// When it became due.
    pub since: Instant,
    pub walk: Option<Walk>,
    pub objects: Objects,
}

impl Due {
    pub fn now(walk: Option<Walk>, objects: Objects) -> Due {
        Due {
            since: Instant::now(),
            walk,
            objects,
        }
    }

    /// Returns true if there is nothing to look at.
    fn is_empty(&self) -> bool {
        self.walk.is_none() && self.objects.is_empty()
    }

    /// Adds what became due later. A walk that has begun goes on.
    fn add(&mut self, later: Due) {
        for (object, from) in later.objects {
            let lowest = self.objects.entry(object).or_insert(from);
            *lowest = from.min(*lowest);
        }
        let is_same = |walk: &Walk| {
            let added = later.walk.as_ref();
            added.is_none_or(|added| added.is_old() == walk.is_old())
        };
        self.walk = self.walk.take().filter(is_same).or(later.walk);
    }
}

/// Adds to the work in a partition.
pub(super) fn add(work: &mut Work, partition: PartitionId, later: Due) {
    match work.get_mut(&partition) {
        Some(due) => due.add(later),
        None => {
            work.insert(partition, later);
        }
    }
}

/// The result of a look at some events.
#[derive(Default)]
pub(super) struct Pass {
    /// When to look again; `None` if none of them waits any more.
    pub again: Option<Instant>,
    /// Objects whose events took so long that others come first now.
    pub cut: Objects,
    /// The first object whose turn did not come, because its target is left alone.
    pub passed_over: Option<RowKey>,
}

impl Pass {
    pub fn until(again: Instant) -> Pass {
        Pass {
            again: Some(again),
            ..Pass::default()
        }
    }

    pub fn soon() -> Pass {
        Pass::until(Instant::now() + AGAIN)
    }

    pub fn passing_over(object: &RowKey, again: Instant) -> Pass {
        Pass {
            passed_over: Some(object.clone()),
            ..Pass::until(again)
        }
    }

    pub fn cut(object: &RowKey) -> Pass {
        Pass {
            // Its events from before the stamp of the news may wait still.
            cut: [(object.clone(), None)].into(),
            ..Pass::default()
        }
    }

    pub fn add(&mut self, other: Pass) {
        self.again = sooner(self.again, other.again);
        self.cut.extend(other.cut);
        let others = self.passed_over.take().into_iter();
        self.passed_over = others.chain(other.passed_over).min();
    }
}

/// The result of a turn in a partition.
pub(super) struct Done {
    /// True if a walk over all events began.
    pub has_begun: bool,
    /// True if the walk was one over old events.
    pub was_old: bool,
    /// The walk, if it came to its end.
    pub ended: Option<Walk>,
    /// When the work became due.
    pub since: Instant,
    pub again: Option<Instant>,
    /// The rest of the work.
    pub left: Due,
}

/// The knowledge of partitions whose first live replica is here. A partition that is not named has
/// to be looked at whole.
#[derive(Default)]
pub(super) struct Known {
    /// Nothing waits but what came since.
    clear: BTreeSet<PartitionId>,
    /// Events wait, and are not looked at before this time.
    waiting: BTreeMap<PartitionId, Instant>,
    /// Where walks were stopped, also those over old events. There are no more of them than
    /// partitions.
    stops: BTreeMap<PartitionId, Stop>,
}

impl Known {
    /// Returns a walk as work. It begins where the last one in the partition was stopped.
    pub fn walk(&self, partition: PartitionId, walk: Walk) -> Due {
        let stop = self.stops.get(&partition);
        Due {
            since: stop
                .and_then(|stop| stop.since)
                .unwrap_or_else(Instant::now),
            walk: Some(Walk {
                after: stop.map(|stop| stop.after.clone()),
                is_part: stop.is_some(),
                ..walk
            }),
            objects: Objects::new(),
        }
    }

    /// Returns what is to be looked at because of news of a partition.
    pub fn due(&self, partition: PartitionId, brought: Brought) -> Due {
        let is_clear = self.clear.contains(&partition);
        let is_known = is_clear || self.waiting.contains_key(&partition);
        let is_whole = brought.is_none() || !is_known;
        let objects = brought.unwrap_or_default().into_iter();
        // Where something waits, the object may have earlier events.
        let objects =
            objects.map(|(key, from)| (RowKey { partition, key }, is_clear.then_some(from)));
        let due = match is_whole {
            true => self.walk(partition, Walk::over_all()),
            false => Due::now(None, Objects::new()),
        };
        Due {
            objects: objects.collect(),
            ..due
        }
    }

    /// Returns true if the events of a partition are not to be looked at yet.
    pub fn waits(&self, partition: PartitionId, now: Instant) -> bool {
        let until = self.waiting.get(&partition);
        until.is_some_and(|until| *until > now)
    }

    /// Returns the partitions to look at again.
    pub fn waited(&self, now: Instant) -> Vec<PartitionId> {
        let waited = self.waiting.iter().filter(|(_, until)| **until <= now);
        waited.map(|(partition, _)| *partition).collect()
    }

    /// Returns when to look at the next partition again.
    pub fn next(&self) -> Option<Instant> {
        self.waiting.values().min().copied()
    }

    /// Forgets partitions whose first live replica is not here any more.
    pub fn retain(&mut self, is_first: impl Fn(&PartitionId) -> bool) {
        self.clear.retain(&is_first);
        self.waiting.retain(|partition, _| is_first(partition));
    }

    /// Notes the result of a look. Returns what is due still.
    pub fn note(&mut self, partition: PartitionId, done: Done) -> Option<Due> {
        if let Some(walk) = done.ended {
            match walk.stop(done.since) {
                Some(stop) => self.stops.insert(partition, stop),
                None => self.stops.remove(&partition),
            };
        }
        let left = Some(done.left).filter(|left| !left.is_empty());
        if done.was_old {
            return left;
        }
        let before = self.waiting.remove(&partition);
        let before = before.filter(|_| !done.has_begun);
        let again = sooner(before, done.again);
        // The events that are left come next, without a further walk.
        let of_left = left.as_ref().map(|_| Instant::now() + SCAN_PERIOD);
        match sooner(again, of_left) {
            None => {
                self.clear.insert(partition);
            }
            Some(again) => {
                self.clear.remove(&partition);
                self.waiting.insert(partition, again);
            }
        }
        left
    }
}

pub(super) fn sooner(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests;

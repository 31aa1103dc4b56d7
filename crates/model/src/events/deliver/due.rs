//! The work of a lane, in its order, and the knowledge of partitions from which it follows.

use std::collections::{BTreeMap, BTreeSet};

use archipel_base::{PartitionId, Stamp};
use archipel_cluster::Brought;
use archipel_storage::RowKey;
use bytes::Bytes;
use tokio::time::Instant;

use super::{AGAIN, SCAN_PERIOD};

/// Rows of objects, each with the lowest stamp of the news if nothing waited before it; `None` if all
/// events are looked at.
pub(super) type Objects = BTreeMap<RowKey, Option<Stamp>>;

/// A look at all objects of which this replica holds events, in the order of their rows.
pub(super) struct Walk {
    /// Objects without an event from before this time are passed over, in milliseconds.
    pub before_ms: u64,
    /// The row after which it goes on.
    pub after: Option<Bytes>,
    /// The number of objects that were looked at.
    pub begun: usize,
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
        }
    }

    /// Returns true if it is one over old events: this is not the partition's first live replica.
    pub fn is_old(&self) -> bool {
        self.before_ms != u64::MAX
    }
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
    }
}

/// The result of a turn in a partition.
pub(super) struct Done {
    /// True if a walk over all events began.
    pub has_begun: bool,
    /// True if the walk was one over old events.
    pub was_old: bool,
    pub again: Option<Instant>,
    /// The rest of the work.
    pub left: Due,
}

/// The knowledge of partitions whose first live replica is here. A partition that is not named has to
/// be looked at whole.
#[derive(Default)]
pub(super) struct Known {
    /// Nothing waits but what came since.
    clear: BTreeSet<PartitionId>,
    /// Events wait, and are not looked at before this time.
    waiting: BTreeMap<PartitionId, Instant>,
}

impl Known {
    /// Returns what is to be looked at because of news of a partition.
    pub fn due(&self, partition: PartitionId, brought: Brought) -> Due {
        let is_clear = self.clear.contains(&partition);
        let is_known = is_clear || self.waiting.contains_key(&partition);
        let is_whole = brought.is_none() || !is_known;
        let objects = brought.unwrap_or_default().into_iter();
        // Where something waits, the object may have earlier events.
        let objects =
            objects.map(|(key, from)| (RowKey { partition, key }, is_clear.then_some(from)));
        Due::now(is_whole.then(Walk::over_all), objects.collect())
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
        let left = Some(done.left).filter(|left| !left.is_empty());
        if done.was_old {
            return left;
        }
        let before = self.waiting.remove(&partition);
        let before = before.filter(|_| !done.has_begun);
        let again = sooner(before, done.again);
        // What is left comes next, without a further walk.
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
mod tests {
    use archipel_base::Writer;

    use super::*;

    const PARTITION: PartitionId = PartitionId(3);

    fn object(name: &'static str) -> RowKey {
        RowKey {
            partition: PARTITION,
            key: Bytes::from_static(name.as_bytes()),
        }
    }

    fn at(millis: u64) -> Stamp {
        Stamp::new(millis, 0, Writer(1))
    }

    fn news(name: &'static str, millis: u64) -> Brought {
        Some([(object(name).key, at(millis))].into())
    }

    fn done(walk: Option<Walk>, objects: Objects, has_begun: bool) -> Done {
        Done {
            has_begun,
            was_old: false,
            again: None,
            left: Due::now(walk, objects),
        }
    }

    #[test]
    fn news_is_looked_at_from_its_stamp_on_only_where_nothing_waits() {
        let mut known = Known::default();
        let due = known.due(PARTITION, news("a", 5));
        assert!(due.walk.is_some() && due.objects == Objects::from([(object("a"), None)]));
        assert!(
            known
                .note(PARTITION, done(None, Objects::new(), true))
                .is_none()
        );
        let due = known.due(PARTITION, news("a", 5));
        assert!(due.walk.is_none() && due.objects == Objects::from([(object("a"), Some(at(5)))]));
        // An object was cut: the partition is not clear, also after the object is done.
        let cut = Pass::cut(&object("b")).cut;
        let left = known.note(PARTITION, done(None, cut.clone(), false));
        assert_eq!(left.map(|due| due.objects), Some(cut));
        for _ in 0..2 {
            let due = known.due(PARTITION, news("a", 5));
            assert!(due.walk.is_none() && due.objects == Objects::from([(object("a"), None)]));
            assert!(known.waits(PARTITION, Instant::now()));
            assert!(
                known
                    .note(PARTITION, done(None, Objects::new(), false))
                    .is_none()
            );
        }
        // A walk that began after that finds nothing.
        known.note(PARTITION, done(None, Objects::new(), true));
        assert!(known.due(PARTITION, None).walk.is_some());
        assert!(known.due(PARTITION, news("a", 5)).objects[&object("a")].is_some());
    }

    #[test]
    fn result_of_the_first_part_of_a_walk_counts_at_its_end() {
        let mut known = Known::default();
        let again = Instant::now() + AGAIN;
        let first = Done {
            again: Some(again),
            ..done(Some(Walk::over_all()), Objects::new(), true)
        };
        assert!(known.note(PARTITION, first).is_some());
        known.note(PARTITION, done(None, Objects::new(), false));
        assert_eq!(known.next(), Some(again));
    }

    #[test]
    fn what_comes_later_does_not_begin_a_walk_again() {
        let mut work = Work::new();
        let walk = Walk {
            after: Some(object("m").key),
            ..Walk::over_all()
        };
        let since = Instant::now();
        let begun = Due {
            since,
            ..Due::now(Some(walk), [(object("a"), Some(at(5)))].into())
        };
        add(&mut work, PARTITION, begun);
        let objects: Objects = [(object("a"), Some(at(3))), (object("b"), None)].into();
        let later = || Due::now(Some(Walk::over_all()), objects.clone());
        add(&mut work, PARTITION, later());
        let due = &work[&PARTITION];
        assert_eq!((due.since, &due.objects), (since, &objects));
        assert_eq!(due.walk.as_ref().unwrap().after, Some(object("m").key));
        // This replica became the first live one, or is it no longer.
        add(
            &mut work,
            PARTITION,
            Due::now(Some(Walk::over_old(9)), Objects::new()),
        );
        assert!(work[&PARTITION].walk.as_ref().unwrap().is_old());
        add(&mut work, PARTITION, later());
        assert!(work[&PARTITION].walk.as_ref().unwrap().after.is_none());
    }
}

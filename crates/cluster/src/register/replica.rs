//! The replica: its answer for one row, and the state that must be durable before the answer.
//!
//! # For the author of a driver
//! For each request, in one critical section per row (a storage transaction):
//! 1. Read the row's [`Cell`] (default if there is none) and its [`Recent`]. If no `Recent` is in
//!    memory (first use, evicted, or the node restarted), use [`Recent::forgotten`].
//! 2. Call [`step`].
//! 3. If [`Step::cell`] is given, commit it durably. If that fails, or its outcome is unknown,
//!    answer nothing and drop the row's `Recent`.
//! 4. Keep the `Recent` in memory (bounded: any row's may be evicted at any time). Then send the
//!    answer.
//!
//! Steps of one row must not interleave. Steps of one batch may see one another before the batch is
//! durable, as long as no answer leaves before.

use archipel_base::{Id, Stamp, Writer};

use super::floor::Floors;
use super::message::{Answer, Remembered, Request, Version};
use super::rules::{Mutant, Rules};

/// A row as one replica holds it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cell<V> {
    /// The highest ballot promised. Writes below it are refused.
    pub promised: Stamp,
    /// The stamp of the value; [`Stamp::ZERO`] if the row has a promise only.
    pub stamp: Stamp,
    /// The write that made the value.
    pub write: Id,
    /// The value; `None` is a tombstone, or a row never written.
    pub value: Option<V>,
}

impl<V> Default for Cell<V> {
    fn default() -> Cell<V> {
        Cell {
            promised: Stamp::ZERO,
            stamp: Stamp::ZERO,
            write: Id::default(),
            value: None,
        }
    }
}

impl<V: Clone> Cell<V> {
    /// Returns the version held.
    pub fn version(&self) -> Version<V> {
        Version {
            stamp: self.stamp,
            write: self.write,
            value: self.value.clone(),
        }
    }

    fn holding(&self, version: Version<V>) -> Cell<V> {
        Cell {
            promised: self.promised.max(version.stamp),
            stamp: version.stamp,
            write: version.write,
            value: version.value,
        }
    }
}

/// The writes that a replica accepted for one row, as far as it remembers them in memory.
///
/// Stamps are accepted in ascending order, so forgetting the oldest keeps a suffix: everything at
/// or above `known_from` is remembered.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Recent {
    known_from: Stamp,
    accepted: Vec<(Stamp, Id)>,
}

impl Recent {
    /// The number of acceptances that are remembered for each row.
    pub const CAPACITY: usize = 64;

    /// Returns what the row itself still shows after the memory is gone.
    pub fn forgotten<V>(rules: Rules, cell: &Cell<V>, bounds: &Bounds) -> Recent {
        let known_from = if rules.breaks(Mutant::ForgetMeansNever) {
            Stamp::ZERO
        } else {
            cell.stamp.max(bounds.closed)
        };
        Recent {
            known_from,
            accepted: vec![(cell.stamp, cell.write)],
        }
    }

    /// Returns what is known of a row that was lost: anything that the bounds allow may have been
    /// accepted.
    pub fn lost(bounds: &Bounds) -> Recent {
        let after = bounds.latest_millis.saturating_add(1);
        Recent {
            known_from: Stamp::new(after, 0, Writer::default()).max(bounds.closed),
            accepted: Vec::new(),
        }
    }

    fn remember(&mut self, stamp: Stamp, write: Id) {
        if self.accepted.len() >= Recent::CAPACITY {
            self.accepted.remove(0);
            let first = self.accepted.first().map_or(stamp, |(s, _)| *s);
            self.known_from = self.known_from.max(first);
        }
        self.accepted.push((stamp, write));
    }

    /// Forgets the last acceptance again if it is this one: the replica could not store the
    /// version.
    pub fn undo(&mut self, stamp: Stamp, write: Id) {
        if self.accepted.last() == Some(&(stamp, write)) {
            self.accepted.pop();
        }
    }

    fn has(&self, stamp: Stamp, write: Id) -> bool {
        self.accepted.contains(&(stamp, write))
    }

    fn of_write(&self, write: Id) -> Vec<Stamp> {
        let of = self.accepted.iter().filter(|(_, w)| *w == write);
        of.map(|(s, _)| *s).collect()
    }
}

/// The limits on the stamps that a replica accepts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bounds {
    /// Stamps of a later millisecond are refused: the local wall clock plus the configured bound.
    pub latest_millis: u64,
    /// The partition's closed floor: new stamps at or below it are refused. [`Stamp::ZERO`] for
    /// none.
    pub closed: Stamp,
    /// The partition's agreed floor, at most `closed`. Promises at or below it are void, and no row
    /// at or below it is applied from a peer.
    pub agreed: Stamp,
    /// No row at or below this stamp is applied from a peer. At least `agreed`.
    pub frozen: Stamp,
    /// Tombstones at or below this stamp are gone. At least `agreed`.
    pub gone: Stamp,
}

impl Bounds {
    /// Returns bounds without floors. Stamps may be `ahead_millis` ahead of the wall clock.
    pub fn without_floors(now_millis: u64, ahead_millis: u64) -> Bounds {
        Bounds {
            latest_millis: now_millis.saturating_add(ahead_millis),
            closed: Stamp::ZERO,
            agreed: Stamp::ZERO,
            frozen: Stamp::ZERO,
            gone: Stamp::ZERO,
        }
    }

    /// Returns these bounds with a partition's floors.
    #[must_use]
    pub fn with_floors(self, floors: &Floors) -> Bounds {
        Bounds {
            closed: floors.closed,
            agreed: floors.agreed,
            frozen: floors.frozen,
            gone: floors.gone,
            ..self
        }
    }
}

/// The result of one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step<V> {
    /// The row's new state if it changed. It must be durable before the answer leaves.
    pub cell: Option<Cell<V>>,
    /// The answer.
    pub answer: Answer<V>,
}

impl<V> Step<V> {
    fn unchanged(answer: Answer<V>) -> Step<V> {
        Step { cell: None, answer }
    }
}

/// Answers `request` for the row `cell`.
///
/// `guard_holds` is true if the row that guards the operation is live here (in the same
/// transaction). It matters only if the request is `guarded`.
pub fn step<V: Clone>(
    rules: Rules,
    bounds: &Bounds,
    cell: &Cell<V>,
    recent: &mut Recent,
    request: Request<V>,
    guard_holds: bool,
) -> Step<V> {
    let cell = &above_floor(cell, bounds);
    match request {
        Request::Read { with_value } => Step::unchanged(found(bounds, cell, with_value)),
        // This precedes what was accepted: another replica may have brought the version after the
        // guard was gone, and the coordinator would count it.
        Request::Prepare { guarded: true, .. } | Request::Write { guarded: true, .. }
            if !guard_holds =>
        {
            Step::unchanged(Answer::Guarded)
        }
        Request::Write { version, .. } if was_accepted(bounds, cell, recent, &version) => {
            Step::unchanged(Answer::Accepted)
        }
        Request::Prepare { ballot, asking, .. } => prepare(bounds, cell, recent, ballot, asking),
        Request::Write { version, .. } => write(rules, bounds, cell, recent, version),
    }
}

/// Returns the row without a promise or tombstone at or below the agreed floor.
pub fn above_floor<V: Clone>(cell: &Cell<V>, bounds: &Bounds) -> Cell<V> {
    let mut cell = cell.clone();
    if cell.promised <= bounds.agreed {
        cell.promised = Stamp::ZERO;
    }
    if cell.stamp <= bounds.gone && cell.value.is_none() {
        cell.stamp = Stamp::ZERO;
        cell.write = Id::default();
    }
    cell
}

/// Applies a version that a peer holds (anti-entropy). Returns the row's new state if it is
/// accepted.
///
/// This is an acceptance like any other and obeys promises. Otherwise a value that a conditional
/// write did not see could spread behind its back. Only a version that a quorum is known to hold
/// (`settled`: a read returned it) may pass a promise, because the coordinator that prepared has
/// seen it or a newer one. So if a promise keeps a row from spreading, the driver reads the row and
/// offers the result.
pub fn spread<V: Clone>(
    rules: Rules,
    bounds: &Bounds,
    cell: &Cell<V>,
    recent: &mut Recent,
    version: Version<V>,
    settled: bool,
) -> Option<Cell<V>> {
    let cell = &above_floor(cell, bounds);
    let may_pass = settled || rules.breaks(Mutant::SpreadOverPromise);
    let promised = version.stamp < cell.promised && !may_pass;
    let below = version.stamp <= bounds.frozen && !rules.breaks(Mutant::TakeBelowFloor);
    let dropped = version.value.is_none() && version.stamp <= bounds.gone;
    if version.stamp <= cell.stamp || promised || below || dropped {
        return None;
    }
    recent.remember(version.stamp, version.write);
    Some(cell.holding(version))
}

fn found<V: Clone>(bounds: &Bounds, cell: &Cell<V>, with_value: bool) -> Answer<V> {
    let value = cell.value.as_ref().filter(|_| with_value);
    Answer::Found {
        version: Version {
            stamp: cell.stamp,
            write: cell.write,
            value: value.cloned(),
        },
        live: cell.value.is_some(),
        floor: bounds.gone,
        agreed: bounds.agreed,
        versions: Vec::new(),
    }
}

fn prepare<V: Clone>(
    bounds: &Bounds,
    cell: &Cell<V>,
    recent: &Recent,
    ballot: Stamp,
    asking: Option<Id>,
) -> Step<V> {
    if ballot.millis() > bounds.latest_millis {
        return Step::unchanged(Answer::Ahead);
    }
    // A ballot belongs to one coordinator, so a second promise of it answers a repeated message.
    if ballot < cell.promised || ballot <= cell.stamp || ballot <= bounds.closed {
        let remembered = asking.map(|id| Remembered {
            accepted: recent.of_write(id),
            known_from: recent.known_from,
        });
        return Step::unchanged(stale(bounds, cell, remembered));
    }
    let promise = Cell {
        promised: ballot,
        ..cell.clone()
    };
    let answer = Answer::Promised {
        version: cell.version(),
        accepted: asking.map_or_else(Vec::new, |id| recent.of_write(id)),
        known_from: recent.known_from,
        floor: bounds.gone,
        agreed: bounds.agreed,
        versions: Vec::new(),
    };
    Step {
        cell: (promise.promised != cell.promised).then_some(promise),
        answer,
    }
}

fn write<V: Clone>(
    rules: Rules,
    bounds: &Bounds,
    cell: &Cell<V>,
    recent: &mut Recent,
    version: Version<V>,
) -> Step<V> {
    let stamp = version.stamp;
    if stamp.millis() > bounds.latest_millis {
        return Step::unchanged(Answer::Ahead);
    }
    let below_promise = stamp < cell.promised && !rules.breaks(Mutant::AcceptBelowPromise);
    if stamp < cell.stamp || below_promise || stamp <= bounds.closed {
        return Step::unchanged(stale(bounds, cell, None));
    }
    recent.remember(stamp, version.write);
    Step {
        cell: Some(cell.holding(version)),
        answer: Answer::Accepted,
    }
}

/// Returns true for a repeated message, or for one of several that write the same version back. A
/// write may have ended its own guard, so this is checked first.
///
/// A replica that accepted the version holds it or a newer one, unless it is a tombstone which is
/// gone by now. A replica whose row is older was made to forget it, and must accept it again, or
/// refuse it if a floor was closed above it: a store that joins hears of floors below which it
/// holds nothing.
fn was_accepted<V>(bounds: &Bounds, cell: &Cell<V>, recent: &Recent, version: &Version<V>) -> bool {
    let stamp = version.stamp;
    let is_gone = version.value.is_none() && stamp <= bounds.gone;
    let held = stamp <= cell.stamp || is_gone;
    stamp != Stamp::ZERO && (stamp == cell.stamp || held && recent.has(stamp, version.write))
}

fn stale<V>(bounds: &Bounds, cell: &Cell<V>, remembered: Option<Remembered>) -> Answer<V> {
    Answer::Stale {
        highest: cell.promised.max(cell.stamp).max(bounds.closed),
        remembered,
    }
}

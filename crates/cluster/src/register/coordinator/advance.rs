//! What an operation does with the answers that it has.

use archipel_base::Stamp;

use super::state::{Kind, Phase, Promise, Purpose, Told};
use super::{MAX_SECOND_LOOKS, NextStamp, Operation, Outcome, Output};
use crate::register::message::Version;
use crate::register::quorum::ReplicaSet;
use crate::register::rules::Mutant;

/// What became of the operation's own earlier writes.
enum Fate {
    /// One of them is the newest version.
    Newest,
    /// A quorum held one under this stamp; it was overwritten since.
    Happened(Stamp),
    /// No quorum ever held one, and what a minority holds cannot come up any more unless the operation writes on.
    Never,
    /// It cannot be known.
    Unknown,
}

impl<V: Clone + Eq> Operation<V> {
    /// Goes on if the answers allow it. `patient` is over when a timeout passed.
    pub(super) fn advance(&mut self, timeout: bool, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        match self.phase.clone() {
            Phase::Reading { with_values, found } => {
                self.advance_reading(with_values, &found, timeout)
            }
            Phase::Preparing { ballot, promises } => {
                let from = promises.iter().map(|p| p.told.from).collect();
                if self.quorums().is_quorum(from) {
                    return self.act_on(ballot, &promises, timeout);
                }
                match self.obstacle(timeout) {
                    Some(Obstacle::Others) => self.pause(),
                    Some(Obstacle::Failures) => self.end(self.cannot_go_on()),
                    None => Vec::new(),
                }
            }
            Phase::Writing {
                version,
                purpose,
                accepted,
            } => {
                if self.quorums().is_quorum(accepted) {
                    return self.written(version.stamp, purpose, next);
                }
                match self.obstacle(timeout) {
                    Some(Obstacle::Others) => self.refused_write(purpose, next),
                    Some(Obstacle::Failures) => self.end(self.cannot_go_on()),
                    None => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }

    fn obstacle(&self, timeout: bool) -> Option<Obstacle> {
        let quorums = self.quorums();
        if quorums.is_blocked_by(self.failed) {
            return Some(Obstacle::Failures);
        }
        let blocked = quorums.is_blocked_by(self.failed.union(self.refused));
        let tired = timeout && !self.refused.is_empty();
        (blocked || tired).then_some(Obstacle::Others)
    }

    fn advance_reading(
        &mut self,
        with_values: bool,
        found: &[Told<V>],
        timeout: bool,
    ) -> Vec<Output<V>> {
        if !self
            .quorums()
            .is_quorum(found.iter().map(|told| told.from).collect())
        {
            if self.quorums().is_blocked_by(self.failed) {
                return self.end(Outcome::Unavailable);
            }
            return Vec::new();
        }
        let (newest, holders) = newest_of(&self.counting(found.iter()));
        let live = |told: &Told<V>| {
            holders.contains(told.from) && told.live && told.version.stamp == newest.stamp
        };
        if found.iter().any(live) && newest.value.is_none() && !with_values {
            // Others were faster, but the value is on its way.
            let nearest = self.quorums().all().iter().next();
            if !timeout && nearest.is_some_and(|nearest| self.unanswered().contains(nearest)) {
                return Vec::new();
            }
            return self.begin_reading(true);
        }
        let held = self.quorums().is_quorum(holders);
        if held || self.rules.breaks(Mutant::SkipWriteBack) {
            return self.end(Outcome::Value(newest));
        }
        let end = Purpose::End(Outcome::Value(newest.clone()));
        self.write_version(newest, end, holders)
    }

    /// Whose versions count, and which: a tombstone at or below an agreed floor is no version at all. Nor is what one replica told before
    /// that floor was agreed, and another, which agreed, holds no more: the tombstone that ended it is gone.
    fn counting<'t>(
        &self,
        told: impl Iterator<Item = &'t Told<V>> + Clone,
    ) -> Vec<(usize, Version<V>)>
    where
        V: 't,
    {
        // A row that was taken below a floor would be told and not count: to see that rule missed, this one must be, too.
        let believes =
            self.rules.breaks(Mutant::BelievePast) || self.rules.breaks(Mutant::TakeBelowFloor);
        let is_past = |one: &Told<V>| {
            told.clone().any(|other| {
                one.version.stamp <= other.agreed && other.version.stamp < one.version.stamp
            })
        };
        let count = |one: &Told<V>| {
            let gone = !one.live && one.version.stamp <= self.floor;
            match gone || (is_past(one) && !believes) {
                true => (one.from, Version::absent()),
                false => (one.from, one.version.clone()),
            }
        };
        told.clone().map(count).collect()
    }

    /// A quorum has promised.
    fn act_on(&mut self, ballot: Stamp, promises: &[Promise<V>], timeout: bool) -> Vec<Output<V>> {
        let told = promises.iter().map(|promise| &promise.told);
        let (newest, holders) = newest_of(&self.counting(told));
        let held = self.quorums().is_quorum(holders);
        if !self.attempts.is_empty() {
            match self.fate(&newest, promises) {
                // The guard was gone before a quorum held the write. Whoever ended it may have looked
                // for what it guarded: the write must not be acknowledged, though a reader may complete it.
                Fate::Newest | Fate::Happened(_) | Fate::Unknown if self.guard_refused => {
                    return self.end(Outcome::Unknown);
                }
                Fate::Newest if held => {
                    let stamp = newest.stamp;
                    return self.end(Outcome::Written { stamp });
                }
                Fate::Newest => return self.complete(ballot, newest),
                Fate::Happened(stamp) => return self.end(Outcome::Written { stamp }),
                // All replicas together know it, unless one has forgotten.
                Fate::Unknown if !timeout && self.unanswered() != ReplicaSet::EMPTY => {
                    return Vec::new();
                }
                Fate::Unknown if !self.refused.is_empty() && self.pauses < MAX_SECOND_LOOKS => {
                    return self.pause();
                }
                Fate::Unknown => return self.end(Outcome::Unknown),
                Fate::Never => {}
            }
        }
        self.act_on_newest(ballot, newest, held)
    }

    /// None of the operation's own writes took effect: begin anew on what is there.
    fn act_on_newest(&mut self, ballot: Stamp, newest: Version<V>, held: bool) -> Vec<Output<V>> {
        if self.guard_refused {
            return self.settle(ballot, newest, held, Outcome::Guarded);
        }
        match self.kind.clone() {
            Kind::Write { value, .. } => self.put(ballot, value),
            Kind::Read if held => self.end(Outcome::Value(newest)),
            Kind::Read => {
                let again = under(ballot, newest);
                let end = Purpose::End(Outcome::Value(again.clone()));
                self.write_version(again, end, ReplicaSet::EMPTY)
            }
            Kind::Update { .. } if held || self.rules.breaks(Mutant::ActOnMinority) => {
                let shown = newest.clone();
                self.phase = Phase::Deciding { ballot, newest };
                vec![Output::Decide(shown)]
            }
            Kind::Update { .. } => {
                self.write_version(under(ballot, newest), Purpose::Prepare, ReplicaSet::EMPTY)
            }
        }
    }

    /// Ends with an outcome that says that nothing was or will be written.
    ///
    /// An attempt that a minority accepted must not come up later: unless a quorum holds a newer
    /// version, what was found is written over it first.
    pub(super) fn settle(
        &mut self,
        ballot: Stamp,
        newest: Version<V>,
        held: bool,
        outcome: Outcome<V>,
    ) -> Vec<Output<V>> {
        let last = self.attempts.iter().map(|(stamp, _)| *stamp).max();
        let buried = held && last.is_none_or(|last| newest.stamp > last);
        if last.is_none() || buried || self.rules.breaks(Mutant::LeaveAttemptBehind) {
            return self.end(outcome);
        }
        let end = Purpose::End(outcome);
        self.write_version(under(ballot, newest), end, ReplicaSet::EMPTY)
    }

    /// The operation's own write is the newest version, and a minority's: make it a quorum's.
    fn complete(&mut self, ballot: Stamp, newest: Version<V>) -> Vec<Output<V>> {
        self.attempts.push((ballot, ReplicaSet::EMPTY));
        let end = Purpose::End(Outcome::Written { stamp: ballot });
        self.write_version(under(ballot, newest), end, ReplicaSet::EMPTY)
    }

    fn written(
        &mut self,
        stamp: Stamp,
        purpose: Purpose<V>,
        next: &mut NextStamp<'_>,
    ) -> Vec<Output<V>> {
        match purpose {
            Purpose::Put => self.end(Outcome::Written { stamp }),
            Purpose::Prepare => self.prepare(next),
            Purpose::End(outcome) => self.end(outcome),
        }
    }

    /// A write was refused: prepare, to find out what there is now. From the second time on, wait first.
    fn refused_write(&mut self, purpose: Purpose<V>, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        if self.rules.breaks(Mutant::BlindRetry) && purpose == Purpose::Put {
            return self.retry_blindly(next);
        }
        if self.pauses == 0 {
            self.pauses = 1;
            return self.prepare(next);
        }
        self.pause()
    }

    fn retry_blindly(&mut self, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        if let Kind::Write { value, .. } = self.kind.clone() {
            let stamp = next(self.highest);
            return self.put(stamp, value);
        }
        self.attempts.clear();
        self.prepare(next)
    }

    fn fate(&self, newest: &Version<V>, promises: &[Promise<V>]) -> Fate {
        if newest.stamp != Stamp::ZERO && Some(newest.write) == self.write_id() {
            return Fate::Newest;
        }
        // What was accepted under different layouts may have been a quorum of none while it counted.
        let one_layout = self.layouts.len() == 1 || self.rules.breaks(Mutant::CountAcrossLayouts);
        if one_layout && let Some(stamp) = self.once_held(promises) {
            return Fate::Happened(stamp);
        }
        let never = self.never_accepted(promises);
        // Of a layout that was skipped it is not known whose acceptance would have been a quorum.
        if !self.skipped_epochs && self.layouts.iter().all(|l| l.is_blocked_by(never)) {
            return Fate::Never;
        }
        Fate::Unknown
    }

    /// A stamp under which a quorum once held a write of this operation.
    fn once_held(&self, promises: &[Promise<V>]) -> Option<Stamp> {
        let reported = promises.iter().flat_map(|p| p.accepted.iter().copied());
        let mut stamps: Vec<Stamp> = self.attempts.iter().map(|(s, _)| *s).collect();
        stamps.extend(reported);
        if self.rules.breaks(Mutant::CountById) {
            let any = stamps.iter().map(|s| self.acceptors(*s, promises));
            let all = any.fold(ReplicaSet::EMPTY, ReplicaSet::union);
            return stamps
                .first()
                .copied()
                .filter(|_| self.quorums().is_quorum(all));
        }
        let held = |s: &Stamp| self.quorums().is_quorum(self.acceptors(*s, promises));
        stamps.into_iter().find(held)
    }

    /// Who accepted a write of this operation under `stamp`, by their own word.
    fn acceptors(&self, stamp: Stamp, promises: &[Promise<V>]) -> ReplicaSet {
        let told = promises.iter().filter(|p| p.accepted.contains(&stamp));
        let own = self.attempts.iter().filter(|(s, _)| *s == stamp);
        own.map(|(_, acceptors)| *acceptors)
            .fold(told.map(|p| p.told.from).collect(), ReplicaSet::union)
    }

    /// Who certainly never accepted any write of this operation.
    fn never_accepted(&self, promises: &[Promise<V>]) -> ReplicaSet {
        let first = self.attempts.first().map_or(Stamp::ZERO, |(s, _)| *s);
        let never = |p: &&Promise<V>| {
            p.accepted.is_empty()
                && p.known_from <= first
                && self.attempts.iter().all(|(_, a)| !a.contains(p.told.from))
        };
        promises.iter().filter(never).map(|p| p.told.from).collect()
    }
}

/// Why a round cannot succeed.
enum Obstacle {
    /// Another coordinator's stamps are in the way.
    Others,
    /// Too many replicas are out of reach.
    Failures,
}

/// The newest version seen, and who holds it under that stamp.
fn newest_of<V: Clone>(seen: &[(usize, Version<V>)]) -> (Version<V>, ReplicaSet) {
    let Some(stamp) = seen.iter().map(|(_, v)| v.stamp).max() else {
        return (Version::absent(), ReplicaSet::EMPTY);
    };
    let holding = seen.iter().filter(|(_, v)| v.stamp == stamp);
    let holders = holding.clone().map(|(from, _)| *from).collect();
    // Of those that hold it, only some may have been asked for the value.
    let with_value = holding.clone().find(|(_, v)| v.value.is_some());
    let newest = with_value.or(holding.clone().next());
    (
        newest.map_or_else(Version::absent, |(_, v)| v.clone()),
        holders,
    )
}

/// The same version under a new stamp.
fn under<V>(stamp: Stamp, version: Version<V>) -> Version<V> {
    Version { stamp, ..version }
}

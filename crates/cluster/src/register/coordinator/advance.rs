//! The progress of an operation from the answers that it has.

use archipel_base::Stamp;

use super::fate::Fate;
use super::state::{Kind, Phase, Promise, Purpose, Report};
use super::versions::{is_living, told};
use super::{MAX_SECOND_LOOKS, NextStamp, Operation, Outcome, Output, Repeat, RowValue};
use crate::register::message::Version;
use crate::register::quorum::ReplicaSet;
use crate::register::rules::Mutant;

impl<V: RowValue> Operation<V> {
    /// Goes on if the answers allow it. After a `timeout` it waits for no further answer.
    pub(super) fn advance(&mut self, timeout: bool, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        match self.phase.clone() {
            Phase::Reading { with_values, found } => {
                self.advance_reading(with_values, &found, timeout)
            }
            Phase::Preparing { ballot, promises } => {
                let from = promises.iter().map(|p| p.report.from).collect();
                self.note_fate(ballot, &promises);
                if self.quorums().is_quorum(from) && !self.lacks_promises(from) {
                    return self.act_on(ballot, &promises, timeout);
                }
                match self.obstacle(timeout) {
                    Some(Obstacle::Others) => self.pause(),
                    Some(Obstacle::Failures) if !timeout && self.may_be_held() => Vec::new(),
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
                    // Too few can store it: it is ahead of their clocks, their disks are full, or its
                    // blocks are lost.
                    Some(Obstacle::Failures)
                        if self.was_found(&purpose)
                            && !accepted.without(self.left_out).is_empty() =>
                    {
                        self.go_without(accepted, next)
                    }
                    Some(Obstacle::Failures) => self.end(self.cannot_go_on()),
                    None => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }

    /// Returns true if the version that is written is one that the operation found, and not its own.
    fn was_found(&self, purpose: &Purpose<V>) -> bool {
        match purpose {
            Purpose::Put => false,
            Purpose::Prepare => true,
            Purpose::End(_) => self.kind == Kind::Read || self.resolves(),
        }
    }

    /// Returns true if the operation needs a promise of a replica that is not among these. Once it has
    /// sent its write, it only asks what became of it.
    fn lacks_promises(&self, from: ReplicaSet) -> bool {
        let needs_all = self.of_versions.by_all && self.attempts.is_empty();
        needs_all
            && !self.rules.breaks(Mutant::HoldByQuorum)
            && !self.quorums().all().without(from).is_empty()
    }

    /// Returns true if the round cannot succeed without these replicas.
    fn is_blocked_by(&self, those: ReplicaSet) -> bool {
        let is_preparing = matches!(self.phase, Phase::Preparing { .. });
        let others = self.quorums().all().without(those);
        self.quorums().is_blocked_by(those) || (is_preparing && self.lacks_promises(others))
    }

    fn obstacle(&self, timeout: bool) -> Option<Obstacle> {
        if self.is_blocked_by(self.failed) {
            return Some(Obstacle::Failures);
        }
        let blocked = self.is_blocked_by(self.failed.union(self.refused));
        let tired = timeout && !self.refused.is_empty();
        (blocked || tired).then_some(Obstacle::Others)
    }

    fn advance_reading(
        &mut self,
        with_values: bool,
        found: &[Report<V>],
        timeout: bool,
    ) -> Vec<Output<V>> {
        if !self
            .quorums()
            .is_quorum(found.iter().map(|report| report.from).collect())
        {
            if self.quorums().is_blocked_by(self.failed) {
                return self.end(Outcome::Unavailable);
            }
            return Vec::new();
        }
        if let Kind::Look { name } = self.kind {
            return self.seen(name, found, timeout);
        }
        let (newest, holders) = newest_of(&self.counting(found.iter()));
        let live = |report: &Report<V>| {
            holders.contains(report.from) && report.live && report.version.stamp == newest.stamp
        };
        if found.iter().any(live) && newest.value.is_none() && !with_values {
            // Other replicas were faster, but the value is under way.
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

    /// Returns the versions that count, with their replicas. A tombstone at or below an agreed
    /// floor is no version at all. An answer from before that floor was agreed does not count
    /// either if a replica that agreed no longer holds the row: the tombstone that ended it is
    /// gone.
    fn counting<'t>(
        &self,
        reports: impl Iterator<Item = &'t Report<V>> + Clone,
    ) -> Vec<(usize, Version<V>)>
    where
        V: 't,
    {
        // A row below a floor that a replica applied would be reported and not count. To show that
        // the rule `TakeBelowFloor` is broken, this rule must be broken, too.
        let believes =
            self.rules.breaks(Mutant::BelievePast) || self.rules.breaks(Mutant::TakeBelowFloor);
        let is_past = |one: &Report<V>| {
            reports.clone().any(|other| {
                one.version.stamp <= other.agreed && other.version.stamp < one.version.stamp
            })
        };
        let count = |one: &Report<V>| {
            let gone = !one.live && one.version.stamp <= self.floor;
            if gone || (is_past(one) && !believes) {
                (one.from, Version::absent())
            } else {
                (one.from, one.version.clone())
            }
        };
        reports.clone().map(count).collect()
    }

    /// Acts on the promises of a quorum.
    fn act_on(&mut self, ballot: Stamp, promises: &[Promise<V>], timeout: bool) -> Vec<Output<V>> {
        let reports = promises.iter().map(|promise| &promise.report);
        let (newest, holders) = newest_of(&self.counting(reports));
        let held = self.quorums().is_quorum(holders);
        if !self.attempts.is_empty() {
            match self.fate(ballot, &newest, promises) {
                // The guard was gone before a quorum held the write. Its owner may already have
                // looked for the rows that it guarded. So the write must not be acknowledged,
                // although a reader may complete it.
                Fate::Newest | Fate::Happened(_) | Fate::Unknown if self.guard_refused => {
                    return self.end(Outcome::Unknown);
                }
                Fate::Newest | Fate::Happened(_) if self.trusts_only_its_own() => {
                    return self.end(Outcome::Unknown);
                }
                // Readers may have brought a guarded write to others after its guard was gone. So
                // its own round confirms it, as it confirms the write of a minority.
                Fate::Newest if held && !self.guarded => {
                    let stamp = newest.stamp;
                    return self.end(Outcome::Written { stamp });
                }
                Fate::Newest => return self.complete(ballot, newest),
                Fate::Happened(stamp) => return self.end(Outcome::Written { stamp }),
                // All replicas together know the fate, unless one has forgotten.
                Fate::Unknown if !timeout && self.unanswered() != ReplicaSet::EMPTY => {
                    return Vec::new();
                }
                Fate::Unknown if !self.refused.is_empty() && self.pauses < MAX_SECOND_LOOKS => {
                    return self.pause();
                }
                Fate::Unknown if self.resolves() => {
                    return self.settle(ballot, newest, held, promises, Outcome::Unknown);
                }
                Fate::Unknown => return self.end(Outcome::Unknown),
                // A client has read the attempt, or deleted it, as a version.
                Fate::Never if self.is_touched(promises) && self.resolves() => {
                    return self.settle(ballot, newest, held, promises, Outcome::Unknown);
                }
                Fate::Never if self.is_touched(promises) => return self.end(Outcome::Unknown),
                // Its first attempt may show up again as a version of its own.
                Fate::Never if self.may_surface(&newest, promises) => {
                    let is_told = timeout || self.unanswered() == ReplicaSet::EMPTY;
                    return if is_told {
                        self.end(Outcome::Unknown)
                    } else {
                        Vec::new()
                    };
                }
                Fate::Never if !self.repeats(&newest) && !self.guard_refused => {
                    return self.settle(ballot, newest, held, promises, Outcome::Overtaken);
                }
                Fate::Never => {}
            }
        }
        self.act_on_newest(ballot, newest, held, promises)
    }

    /// Returns true if the operation may write again after its attempts took no effect.
    fn repeats(&self, newest: &Version<V>) -> bool {
        match self.repeat {
            Repeat::Always => true,
            Repeat::UnlessOvertaken => !self.is_overtaken_by(newest),
            Repeat::Never => {
                self.rules.breaks(Mutant::RepeatIntent) || self.rules.breaks(Mutant::RepeatDecision)
            }
        }
    }

    fn trusts_only_its_own(&self) -> bool {
        self.own_quorum && !self.rules.breaks(Mutant::TrustUnmarked)
    }

    /// Returns true if the operation finds out the fate of another operation's write.
    pub(crate) fn resolves(&self) -> bool {
        matches!(self.kind, Kind::Resolve { .. })
    }

    /// Returns true if a version is newer than the operation's first attempt.
    fn is_overtaken_by(&self, newest: &Version<V>) -> bool {
        let first = self.attempts.first();
        first.is_some_and(|(stamp, _)| newest.stamp > *stamp)
    }

    /// Begins again on the newest version, because none of the operation's own writes took effect.
    fn act_on_newest(
        &mut self,
        ballot: Stamp,
        newest: Version<V>,
        held: bool,
        promises: &[Promise<V>],
    ) -> Vec<Output<V>> {
        if self.guard_refused {
            return self.settle(ballot, newest, held, promises, Outcome::Guarded);
        }
        match self.kind.clone() {
            Kind::Write { value, .. } => self.put(ballot, value),
            Kind::Read | Kind::Look { .. } if held => self.end(Outcome::Value(newest)),
            Kind::Read | Kind::Look { .. } => {
                let again = under(ballot, newest);
                let end = Purpose::End(Outcome::Value(again.clone()));
                self.write_version(again, end, ReplicaSet::EMPTY)
            }
            Kind::Update { .. } if held || self.rules.breaks(Mutant::ActOnMinority) => {
                let shown = newest.clone();
                self.phase = Phase::Deciding {
                    ballot,
                    newest,
                    versions: told(promises),
                };
                vec![Output::Decide(shown)]
            }
            Kind::Resolve { .. } => {
                let kept = Outcome::Kept(newest.clone());
                self.settle(ballot, newest, held, promises, kept)
            }
            Kind::Update { .. } => {
                self.write_version(under(ballot, newest), Purpose::Prepare, ReplicaSet::EMPTY)
            }
        }
    }

    /// Ends with an outcome that says that nothing was or will be written.
    ///
    /// An attempt that a minority accepted must not take effect later. So unless a quorum holds a
    /// newer version, the version found is written over it first. Nobody knows the last attempt of
    /// another operation's write, so then the version found is written in any case.
    pub(super) fn settle(
        &mut self,
        ballot: Stamp,
        newest: Version<V>,
        held: bool,
        promises: &[Promise<V>],
        outcome: Outcome<V>,
    ) -> Vec<Output<V>> {
        // If nobody can know whether an attempt took effect, a version that lives must stay.
        let may_live = |attempt| outcome == Outcome::Unknown && is_living(attempt, promises);
        if let Some(attempt) = self.attempt().filter(|_| self.is_keeping())
            && !may_live(attempt)
        {
            if self.is_nowhere(attempt, promises) || self.rules.breaks(Mutant::LeaveGhost) {
                return self.end(outcome);
            }
            self.phase = Phase::Burying {
                ballot,
                newest: newest.clone(),
                outcome,
            };
            return vec![Output::Bury {
                newest,
                is_chosen: held,
                attempt,
            }];
        }
        let last = self.attempts.iter().map(|(stamp, _)| *stamp).max();
        let buried = held && !self.resolves() && last.is_none_or(|last| newest.stamp > last);
        if last.is_none() || buried || self.rules.breaks(Mutant::LeaveAttemptBehind) {
            return self.end(outcome);
        }
        let end = Purpose::End(outcome);
        self.write_version(under(ballot, newest), end, ReplicaSet::EMPTY)
    }

    /// Makes a quorum accept the operation's own write, which is the newest version of a minority. The
    /// guard counts as for the first attempt.
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

    /// Prepares after a refused write, to find the current version. From the second time on, pauses
    /// first.
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
}

/// The reason why a round cannot succeed.
enum Obstacle {
    /// Another coordinator's stamps are in the way.
    Others,
    /// Too many replicas are unreachable.
    Failures,
}

/// Returns the newest version seen, and the replicas that hold it under that stamp.
fn newest_of<V: Clone>(seen: &[(usize, Version<V>)]) -> (Version<V>, ReplicaSet) {
    let Some(stamp) = seen.iter().map(|(_, v)| v.stamp).max() else {
        return (Version::absent(), ReplicaSet::EMPTY);
    };
    let holding = seen.iter().filter(|(_, v)| v.stamp == stamp);
    let holders = holding.clone().map(|(from, _)| *from).collect();
    // Perhaps only some of the replicas that hold it were asked for the value.
    let with_value = holding.clone().find(|(_, v)| v.value.is_some());
    let newest = with_value.or(holding.clone().next());
    (
        newest.map_or_else(Version::absent, |(_, v)| v.clone()),
        holders,
    )
}

/// Returns the same version under a new stamp.
fn under<V>(stamp: Stamp, version: Version<V>) -> Version<V> {
    Version { stamp, ..version }
}

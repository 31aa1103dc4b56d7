//! The progress of an operation from the answers that it has.

use archipel_base::Stamp;

use super::state::{Kind, Phase, Purpose, Report, Values};
use super::{NextStamp, Operation, Outcome, Output, RowValue};
use crate::register::message::Version;
use crate::register::quorum::ReplicaSet;
use crate::register::rules::Mutant;

impl<V: RowValue> Operation<V> {
    /// Goes on if the answers allow it. After a `timeout` it waits for no further answer.
    pub(super) fn advance(&mut self, timeout: bool, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        match self.phase.clone() {
            Phase::Reading { values, found } => self.advance_reading(values, &found, timeout),
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
                    // Too few can store it: it is ahead of their clocks, their disks are full, or
                    // its blocks are lost.
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

    /// Returns true if the version that is written is one that the operation found, and not its
    /// own.
    fn was_found(&self, purpose: &Purpose<V>) -> bool {
        match purpose {
            Purpose::Put => false,
            Purpose::Prepare => true,
            Purpose::End(_) => self.kind == Kind::Read || self.resolves(),
        }
    }

    /// Returns true if the operation needs a promise of a replica that is not among these. Once it
    /// has sent its write, it only asks what became of it.
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
        values: Values,
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
        if found.iter().any(live) && newest.value.is_none() && values == Values::OfNearest {
            // Other replicas were faster, but the value is under way.
            let nearest = self.quorums().all().iter().next();
            if !timeout && nearest.is_some_and(|nearest| self.unanswered().contains(nearest)) {
                return Vec::new();
            }
            return self.begin_reading(Values::OfAll);
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
    pub(super) fn counting<'t>(
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

    /// Returns true if the operation finds out the fate of another operation's write.
    pub(crate) fn resolves(&self) -> bool {
        matches!(self.kind, Kind::Resolve { .. })
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
pub(super) fn newest_of<V: Clone>(seen: &[(usize, Version<V>)]) -> (Version<V>, ReplicaSet) {
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

//! The next step of an operation from the promises of a quorum: first by the fate of its own
//! writes, then by the newest version.

use archipel_base::Stamp;

use super::advance::newest_of;
use super::fate::Fate;
use super::state::{Kind, Phase, Promise, Purpose};
use super::versions::{is_living, told};
use super::{MAX_SECOND_LOOKS, Operation, Outcome, Output, Repeat, RowValue};
use crate::register::message::Version;
use crate::register::quorum::ReplicaSet;
use crate::register::rules::Mutant;

/// The promises of a quorum, and the newest version that they show.
pub(super) struct Promised<'p, V> {
    /// The promised ballot.
    pub(super) ballot: Stamp,
    pub(super) newest: Version<V>,
    /// True if a quorum holds the newest version.
    pub(super) is_held: bool,
    pub(super) promises: &'p [Promise<V>],
}

impl<V: RowValue> Operation<V> {
    /// Acts on the promises of a quorum.
    pub(super) fn act_on(
        &mut self,
        ballot: Stamp,
        promises: &[Promise<V>],
        timeout: bool,
    ) -> Vec<Output<V>> {
        let reports = promises.iter().map(|promise| &promise.report);
        let (newest, holders) = newest_of(&self.counting(reports));
        let promised = Promised {
            ballot,
            newest,
            is_held: self.quorums().is_quorum(holders),
            promises,
        };
        match self.attempts.is_empty() {
            true => self.act_on_newest(promised),
            false => self.act_on_fate(promised, timeout),
        }
    }

    /// Acts on the fate of the operation's own writes.
    fn act_on_fate(&mut self, promised: Promised<'_, V>, timeout: bool) -> Vec<Output<V>> {
        match self.fate(promised.ballot, &promised.newest, promised.promises) {
            // The guard was gone before a quorum held the write. Its owner may already have
            // looked for the rows that it guarded. So the write must not be acknowledged,
            // although a reader may complete it.
            Fate::Newest | Fate::Happened(_) | Fate::Unknown if self.guard_refused => {
                self.end(Outcome::Unknown)
            }
            Fate::Newest | Fate::Happened(_) if self.trusts_only_its_own() => {
                self.end(Outcome::Unknown)
            }
            // Readers may have brought a guarded write to others after its guard was gone. So
            // its own round confirms it, as it confirms the write of a minority.
            Fate::Newest if promised.is_held && !self.guarded => {
                let stamp = promised.newest.stamp;
                self.end(Outcome::Written { stamp })
            }
            Fate::Newest => self.complete(promised.ballot, promised.newest),
            Fate::Happened(stamp) => self.end(Outcome::Written { stamp }),
            Fate::Unknown => self.act_on_unknown_fate(promised, timeout),
            Fate::Never => self.act_on_no_effect(promised, timeout),
        }
    }

    /// Waits, pauses or ends, because nobody that answered knows whether an attempt took effect.
    fn act_on_unknown_fate(&mut self, promised: Promised<'_, V>, timeout: bool) -> Vec<Output<V>> {
        // All replicas together know the fate, unless one has forgotten.
        if !timeout && self.unanswered() != ReplicaSet::EMPTY {
            return Vec::new();
        }
        if !self.refused.is_empty() && self.pauses < MAX_SECOND_LOOKS {
            return self.pause();
        }
        self.end_as_unknown(promised)
    }

    /// Begins again or ends, because none of the operation's own writes took effect.
    fn act_on_no_effect(&mut self, promised: Promised<'_, V>, timeout: bool) -> Vec<Output<V>> {
        // A client has read the attempt, or deleted it, as a version.
        if self.is_touched(promised.promises) {
            return self.end_as_unknown(promised);
        }
        // The first attempt may show up again as a version of its own.
        if self.may_surface(&promised.newest, promised.promises) {
            return match timeout || self.unanswered() == ReplicaSet::EMPTY {
                true => self.end(Outcome::Unknown),
                false => Vec::new(),
            };
        }
        if !self.repeats(&promised.newest) && !self.guard_refused {
            return self.settle(promised, Outcome::Overtaken);
        }
        self.act_on_newest(promised)
    }

    /// Ends because the fate of an attempt stays unknown. Another operation's write is settled
    /// first.
    fn end_as_unknown(&mut self, promised: Promised<'_, V>) -> Vec<Output<V>> {
        match self.resolves() {
            true => self.settle(promised, Outcome::Unknown),
            false => self.end(Outcome::Unknown),
        }
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

    /// Returns true if a version is newer than the operation's first attempt.
    fn is_overtaken_by(&self, newest: &Version<V>) -> bool {
        let first = self.attempts.first();
        first.is_some_and(|(stamp, _)| newest.stamp > *stamp)
    }

    /// Acts on the newest version, because no write of the operation's own has taken effect.
    fn act_on_newest(&mut self, promised: Promised<'_, V>) -> Vec<Output<V>> {
        if self.guard_refused {
            return self.settle(promised, Outcome::Guarded);
        }
        match self.kind.clone() {
            Kind::Write { value, .. } => self.put(promised.ballot, value),
            Kind::Read | Kind::Look { .. } if promised.is_held => {
                self.end(Outcome::Value(promised.newest))
            }
            Kind::Read | Kind::Look { .. } => {
                let again = under(promised.ballot, promised.newest);
                let end = Purpose::End(Outcome::Value(again.clone()));
                self.write_version(again, end, ReplicaSet::EMPTY)
            }
            Kind::Update { .. } if promised.is_held || self.rules.breaks(Mutant::ActOnMinority) => {
                let shown = promised.newest.clone();
                self.phase = Phase::Deciding {
                    ballot: promised.ballot,
                    newest: promised.newest,
                    versions: told(promised.promises),
                };
                vec![Output::Decide(shown)]
            }
            Kind::Resolve { .. } => {
                let kept = Outcome::Kept(promised.newest.clone());
                self.settle(promised, kept)
            }
            Kind::Update { .. } => {
                let again = under(promised.ballot, promised.newest);
                self.write_version(again, Purpose::Prepare, ReplicaSet::EMPTY)
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
        promised: Promised<'_, V>,
        outcome: Outcome<V>,
    ) -> Vec<Output<V>> {
        let Promised {
            ballot,
            newest,
            is_held,
            promises,
        } = promised;
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
                is_chosen: is_held,
                attempt,
            }];
        }
        let last = self.attempts.iter().map(|(stamp, _)| *stamp).max();
        let buried = is_held && !self.resolves() && last.is_none_or(|last| newest.stamp > last);
        if last.is_none() || buried || self.rules.breaks(Mutant::LeaveAttemptBehind) {
            return self.end(outcome);
        }
        let end = Purpose::End(outcome);
        self.write_version(under(ballot, newest), end, ReplicaSet::EMPTY)
    }

    /// Makes a quorum accept the operation's own write, which is the newest version of a minority.
    /// The guard counts as for the first attempt.
    fn complete(&mut self, ballot: Stamp, newest: Version<V>) -> Vec<Output<V>> {
        self.attempts.push((ballot, ReplicaSet::EMPTY));
        let end = Purpose::End(Outcome::Written { stamp: ballot });
        self.write_version(under(ballot, newest), end, ReplicaSet::EMPTY)
    }
}

/// Returns the same version under a new stamp.
fn under<V>(stamp: Stamp, version: Version<V>) -> Version<V> {
    Version { stamp, ..version }
}

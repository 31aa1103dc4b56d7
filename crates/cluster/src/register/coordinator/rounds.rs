//! One round of messages: the requests to send, and the answers.

use archipel_base::Stamp;

use super::state::{Kind, Memory, Phase, Promise, Purpose, Report, Values};
use super::{MAX_ATTEMPTS, MAX_PAUSES, NextStamp, Operation, Outcome, Output, RowValue};
use crate::register::message::{Answer, Remembered, Request, Version};
use crate::register::quorum::ReplicaSet;

impl<V: RowValue> Operation<V> {
    pub(super) fn enter(&mut self, phase: Phase<V>, to: ReplicaSet) -> Vec<Output<V>> {
        self.phase = phase;
        self.round += 1;
        self.refused = ReplicaSet::EMPTY;
        self.memories.clear();
        self.failed = self.left_out.without(to);
        self.of_versions.held = ReplicaSet::EMPTY;
        self.send_to(to)
    }

    pub(super) fn begin_reading(&mut self, values: Values) -> Vec<Output<V>> {
        let phase = Phase::Reading {
            values,
            found: Vec::new(),
        };
        self.enter(phase, self.quorums().all().without(self.left_out))
    }

    /// Goes on without the replicas that hold a version which the others cannot store. If a quorum
    /// of the others agrees on an older version, that one is chosen, and nothing newer was before
    /// they answered. If a quorum of the others promises a ballot, what they do not hold is not
    /// chosen, and will not be under a lower one.
    pub(super) fn go_without(
        &mut self,
        holders: ReplicaSet,
        next: &mut NextStamp<'_>,
    ) -> Vec<Output<V>> {
        self.left_out = self.left_out.union(holders);
        match self.kind {
            Kind::Read => self.begin_reading(Values::OfAll),
            _ => self.prepare(next),
        }
    }

    pub(super) fn prepare(&mut self, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        let ballot = next(self.highest);
        self.highest = self.highest.max(ballot);
        let phase = Phase::Preparing {
            ballot,
            promises: Vec::new(),
        };
        self.enter(phase, self.quorums().all().without(self.left_out))
    }

    pub(super) fn put(&mut self, stamp: Stamp, value: Option<V>) -> Vec<Output<V>> {
        if self.attempts.len() >= MAX_ATTEMPTS {
            return self.end(Outcome::Unknown);
        }
        self.highest = self.highest.max(stamp);
        self.attempts.push((stamp, ReplicaSet::EMPTY));
        let write = self.write_id().unwrap_or_default();
        self.of_versions.note_sent(value.as_ref());
        let version = Version {
            stamp,
            write,
            value,
        };
        self.write_version(version, Purpose::Put, ReplicaSet::EMPTY)
    }

    /// Writes `version` to all replicas except those that hold it already.
    pub(super) fn write_version(
        &mut self,
        version: Version<V>,
        purpose: Purpose<V>,
        holders: ReplicaSet,
    ) -> Vec<Output<V>> {
        let phase = Phase::Writing {
            version,
            purpose,
            accepted: holders,
        };
        self.enter(phase, self.quorums().all().without(holders))
    }

    pub(super) fn refresh(&mut self, epoch: u64) -> Vec<Output<V>> {
        self.round += 1;
        self.phase = Phase::Refreshing;
        vec![Output::Refresh { epoch }]
    }

    pub(super) fn pause(&mut self) -> Vec<Output<V>> {
        self.pauses += 1;
        if self.pauses > MAX_PAUSES {
            return self.end(self.cannot_go_on());
        }
        self.round += 1;
        self.phase = Phase::Pausing;
        vec![Output::Pause {
            attempt: self.pauses,
        }]
    }

    pub(super) fn end(&mut self, outcome: Outcome<V>) -> Vec<Output<V>> {
        self.phase = Phase::Over;
        vec![Output::Done(outcome)]
    }

    /// Returns the outcome when nothing more can be done. Without an own write sent, nothing
    /// happened.
    pub(super) fn cannot_go_on(&self) -> Outcome<V> {
        if self.is_surely_held() && self.attempts.is_empty() {
            Outcome::Held
        } else if self.attempts.is_empty() || self.resolves() {
            Outcome::Unavailable
        } else {
            Outcome::Unknown
        }
    }

    pub(super) fn send_to(&self, to: ReplicaSet) -> Vec<Output<V>> {
        let nearest = self.quorums().all().iter().next();
        let send = |to: usize| {
            let request = self.request(Some(to) == nearest)?;
            let round = self.round;
            Some(Output::Send { to, round, request })
        };
        to.iter().filter_map(send).collect()
    }

    pub(super) fn request(&self, nearest: bool) -> Option<Request<V>> {
        match &self.phase {
            Phase::Reading { values, .. } => Some(Request::Read {
                with_value: *values == Values::OfAll || nearest,
            }),
            Phase::Preparing { ballot, .. } => Some(Request::Prepare {
                ballot: *ballot,
                asking: self.write_id().filter(|_| !self.attempts.is_empty()),
                guarded: self.guarded && self.attempts.is_empty(),
            }),
            Phase::Writing {
                version, purpose, ..
            } => Some(Request::Write {
                version: version.clone(),
                guarded: self.guarded && purpose.is_own_write(),
            }),
            _ => None,
        }
    }

    pub(super) fn unanswered(&self) -> ReplicaSet {
        let answered = match &self.phase {
            Phase::Reading { found, .. } => found.iter().map(|report| report.from).collect(),
            Phase::Preparing { promises, .. } => promises.iter().map(|p| p.report.from).collect(),
            Phase::Writing { accepted, .. } => *accepted,
            _ => return ReplicaSet::EMPTY,
        };
        let silent = self.quorums().all().without(answered);
        silent.without(self.refused).without(self.failed)
    }

    /// Notes an answer to the request of the current round.
    pub(super) fn note(&mut self, from: usize, answer: Answer<V>) {
        match answer {
            // These end the round before.
            Answer::Superseded { .. } | Answer::Guarded => {}
            Answer::Stale { remembered, .. } => {
                self.refused.insert(from);
                let memory = remembered.map(|remembered| Memory { from, remembered });
                self.memories.extend(memory);
            }
            Answer::Ahead | Answer::Lacking { .. } | Answer::LacksPointing => {
                self.failed.insert(from);
            }
            Answer::Held => {
                self.failed.insert(from);
                self.of_versions.held.insert(from);
            }
            Answer::Found {
                version,
                live,
                floor,
                agreed,
                versions,
            } => {
                let report = Report {
                    from,
                    version,
                    live,
                    agreed,
                    versions,
                };
                self.on_found(report, floor);
            }
            Answer::Promised {
                version,
                accepted,
                known_from,
                floor,
                agreed,
                versions,
            } => {
                self.floor = self.floor.max(floor);
                let report = Report {
                    from,
                    live: version.value.is_some(),
                    version,
                    agreed,
                    versions,
                };
                let remembered = Remembered {
                    accepted,
                    known_from,
                };
                self.on_promised(Promise { report, remembered });
            }
            Answer::Accepted => self.on_accepted(from),
        }
    }

    fn on_found(&mut self, report: Report<V>, floor: Stamp) {
        self.floor = self.floor.max(floor);
        self.highest = self.highest.max(report.version.stamp);
        if let Phase::Reading { found, .. } = &mut self.phase
            && found.iter().all(|other| other.from != report.from)
        {
            found.push(report);
        }
    }

    fn on_promised(&mut self, promise: Promise<V>) {
        if let Phase::Preparing { promises, .. } = &mut self.phase
            && promises
                .iter()
                .all(|p| p.report.from != promise.report.from)
        {
            promises.push(promise);
        }
    }

    fn on_accepted(&mut self, from: usize) {
        let Phase::Writing {
            version, accepted, ..
        } = &mut self.phase
        else {
            return;
        };
        accepted.insert(from);
        let own = self.attempts.iter_mut().find(|(s, _)| *s == version.stamp);
        if let Some((_, acceptors)) = own {
            acceptors.insert(from);
        }
    }

    pub(super) fn on_guarded(&mut self, from: usize, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        if self.attempts.is_empty() {
            return self.end(Outcome::Guarded);
        }
        self.guard_refused = true;
        self.refused.insert(from);
        self.advance(false, next)
    }
}

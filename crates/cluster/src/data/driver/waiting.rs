//! The times at which an operation asks again, and at which it ends without an answer.
//!
//! A failed call says little: the connection may have closed at that moment, or the node may have
//! restarted. If a quorum needs the replica, it is asked again for a while with the same request.
//! Suspected nodes are awaited for a shorter time.

use std::time::Duration;

use archipel_storage as storage;
use tokio::time::Instant;

use crate::error::Error;
use crate::node::times::Times;
use crate::register::{Answer, Quorums, ReplicaSet};

/// The next step if nothing came until [`Waiting::until`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// Continue with the answers so far, or ask the silent replicas again.
    Again,
    /// The time is over.
    Over,
}

/// The time limits of one operation.
#[derive(Debug)]
pub(super) struct Waiting {
    times: Times,
    begun: Instant,
    patience: Duration,
    /// When the operation's patience ends.
    patient_until: Instant,
    /// The round of the failures.
    round: u32,
    /// The retry of the replicas that failed in this round.
    retry: Option<Retry>,
    /// The replicas whose calls failed in this round in a way that may pass.
    failed: ReplicaSet,
    /// The replicas that failed otherwise: their disks are full or were lost, for example.
    lost: ReplicaSet,
}

/// A retry of failed replicas.
#[derive(Clone, Copy, Debug)]
struct Retry {
    /// The time at which they are asked again; `None` once they were.
    at: Option<Instant>,
    pause: Duration,
    until: Instant,
}

/// The state of the replicas that matters here.
pub(super) struct Replicas<'a> {
    pub quorums: &'a Quorums,
    /// The suspected replicas.
    pub away: ReplicaSet,
    /// The replicas that were asked in this round and have not answered.
    pub open: ReplicaSet,
    /// The replicas without which the round goes on.
    pub without: ReplicaSet,
    /// The operation's round.
    pub round: u32,
}

impl Waiting {
    pub fn new(now: Instant, times: Times) -> Waiting {
        Waiting {
            times,
            begun: now,
            patience: times.patience,
            patient_until: now + times.patience,
            retry: None,
            round: 0,
            failed: ReplicaSet::EMPTY,
            lost: ReplicaSet::EMPTY,
        }
    }

    /// Notes that a call failed; `passing` tells that a retry may help. Returns true if the
    /// operation is to be told now. Otherwise the replicas that the quorum needs are asked again
    /// first.
    pub fn on_failure(
        &mut self,
        now: Instant,
        (from, round): (usize, u32),
        passing: bool,
        replicas: &Replicas<'_>,
    ) -> bool {
        self.enter(round);
        match passing {
            true => self.failed.insert(from),
            false => self.lost.insert(from),
        };
        let (failed, lost) = (self.failed, self.lost.union(replicas.without));
        if !replicas.quorums.is_blocked_by(lost.union(failed)) {
            return true;
        }
        if replicas
            .quorums
            .is_blocked_by(lost.union(failed.intersection(replicas.away)))
        {
            return true;
        }
        let last = self.begun + self.times.operation;
        let (pause, until) = match self.retry {
            None => (self.times.first_retry, (now + self.times.retries).min(last)),
            // The pending retry covers this replica, too.
            Some(retry) if retry.at.is_some() => return false,
            Some(retry) => ((2 * retry.pause).min(self.times.longest_retry), retry.until),
        };
        if now >= until {
            return true;
        }
        self.retry = Some(Retry {
            at: Some(now + pause),
            pause,
            until,
        });
        false
    }

    /// Notes that a replica says that it is busy. If the time for retries has been over for long, the
    /// replica has worked at the last retry since then, and does not fail again and again. So this
    /// time begins again. The time of the whole operation does not.
    pub fn on_busy(&mut self, now: Instant) {
        let patience = self.times.retries;
        let worked = |retry: Retry| retry.at.is_none() && now >= retry.until + patience;
        if self.retry.is_some_and(worked) {
            self.retry = None;
        }
    }

    /// Forgets the failures of another round. They say nothing about this one, which may leave a
    /// replica out.
    fn enter(&mut self, round: u32) {
        if self.round != round {
            self.round = round;
            self.retry = None;
            self.forget_failures();
        }
    }

    /// Notes that an answer came. The others are expected within `usual`, if that is known.
    pub fn on_answer(&mut self, now: Instant, usual: Option<Duration>) {
        self.patient_until = now + usual.map_or(self.patience, |usual| usual.min(self.patience));
    }

    /// Returns until when an answer is awaited, which may be over; `None` if none is to be expected.
    pub fn until(&mut self, replicas: &Replicas<'_>) -> Option<Instant> {
        self.enter(replicas.round);
        let retry = self.retry.and_then(|retry| retry.at);
        if replicas.open.is_empty() && retry.is_none() {
            return None;
        }
        let absent = self
            .waits_for_absent(replicas)
            .then(|| self.begun + self.times.absence);
        let patient = (!replicas.open.is_empty()).then_some(self.patient_until);
        let all = [
            Some(self.begun + self.times.operation),
            absent,
            patient,
            retry,
        ];
        all.into_iter().flatten().min()
    }

    fn waits_for_absent(&self, replicas: &Replicas<'_>) -> bool {
        let silent = replicas.open.union(self.failed);
        let absent = silent.intersection(replicas.away);
        let lost = self.lost.union(replicas.without);
        replicas.quorums.is_blocked_by(lost.union(absent))
    }

    fn forget_failures(&mut self) {
        (self.failed, self.lost) = (ReplicaSet::EMPTY, ReplicaSet::EMPTY);
    }

    /// Decides what to do, because nothing came in time.
    pub fn on_silence(&mut self, now: Instant, replicas: &Replicas<'_>) -> Due {
        self.enter(replicas.round);
        let absent = self.waits_for_absent(replicas) && now >= self.begun + self.times.absence;
        if absent || now >= self.begun + self.times.operation {
            return Due::Over;
        }
        // The failed replicas are asked again now, and may fail again.
        self.forget_failures();
        if let Some(retry) = &mut self.retry {
            retry.at = None;
        }
        if now >= self.patient_until {
            self.patience = (2 * self.patience).min(self.times.longest_patience);
        }
        self.patient_until = now + self.patience;
        Due::Again
    }
}

/// Returns true if a retry may help: the connection broke, or the replica could not do it at that
/// moment.
pub(super) fn is_passing(error: &Error) -> bool {
    match error {
        Error::Unavailable(_) | Error::Storage(storage::Error::Busy(_)) => true,
        Error::Guarded | Error::Held | Error::Overtaken | Error::Storage(_) => false,
    }
}

/// Returns true if the replica is there, and could not do it in time.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(error, Error::Storage(storage::Error::Busy(_)))
}

/// Returns true if this answer to a write says that the replica holds the write, or that nothing
/// needs to be held.
pub(super) fn is_settled<V, E>(answer: &Result<Answer<V>, E>) -> bool {
    use Answer::{Accepted, Guarded, Superseded};
    matches!(answer, Ok(Accepted | Guarded | Superseded { .. }))
}

/// Calls `ask` again for a while if a retry may help, unless the node is suspected.
pub(crate) async fn again_if_it_fails<T, F: Future<Output = Result<T, Error>>>(
    times: &Times,
    is_away: impl Fn() -> bool,
    ask: impl Fn() -> F,
) -> Result<T, Error> {
    let mut pause = times.first_retry;
    let mut until = None;
    loop {
        let answer = ask().await;
        let now = Instant::now();
        let last = *until.get_or_insert(now + times.retries);
        match answer {
            Err(error) if is_passing(&error) && !is_away() && now < last => {}
            answer => return answer,
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(times.longest_retry);
    }
}

#[cfg(test)]
mod tests;

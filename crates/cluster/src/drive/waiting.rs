//! When an operation asks again, and when it ends without an answer.
//!
//! A call that failed says little: the connection may have been closed at that moment, or the node started again. Where a
//! quorum needs the replica, it is asked again, with the same request, for a while; nodes that are known to be away are not
//! waited for as long.

use std::time::Duration;

use archipel_storage as storage;
use tokio::time::Instant;

use crate::error::Error;
use crate::register::{Quorums, ReplicaSet};

/// After how long without an answer the operation goes on with what it has, or asks again; doubles from there.
const PATIENCE: Duration = Duration::from_millis(250);
const LONGEST_PATIENCE: Duration = Duration::from_secs(1);
/// How long an operation may take in all.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long nodes that seem to be away are waited for if no quorum can be found without them.
const ABSENCE: Duration = Duration::from_secs(3);
/// For how long replicas that failed are asked again once no quorum can be found without them.
const RETRIES: Duration = Duration::from_secs(2);
/// The first pause before that; it doubles.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_millis(500);

/// What is to be done when nothing came for as long as [`Waiting::until`] said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// Go on with what there is, or ask again who has not answered.
    Again,
    /// The time is over.
    Over,
}

/// The times of one operation.
#[derive(Debug)]
pub(super) struct Waiting {
    begun: Instant,
    patience: Duration,
    /// When the operation's patience is at its end.
    patient_until: Instant,
    retry: Option<Retry>,
    /// Whose calls failed in this round.
    round: u32,
    lost: ReplicaSet,
}

/// Replicas that failed are asked again.
#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Instant,
    pause: Duration,
    until: Instant,
}

/// What is known of the replicas that matters here.
pub(super) struct Replicas<'a> {
    pub quorums: &'a Quorums,
    /// Those that seem to be away.
    pub away: ReplicaSet,
    /// Those that were asked in this round and have not answered.
    pub open: ReplicaSet,
}

impl Waiting {
    pub fn new(now: Instant) -> Waiting {
        Waiting {
            begun: now,
            patience: PATIENCE,
            patient_until: now + PATIENCE,
            retry: None,
            round: 0,
            lost: ReplicaSet::EMPTY,
        }
    }

    /// A call of a round failed, in a way that may pass. Whether it is to be told to the operation now; otherwise the replica
    /// is asked again first.
    pub fn on_failure(
        &mut self,
        now: Instant,
        from: usize,
        round: u32,
        replicas: &Replicas<'_>,
    ) -> bool {
        if self.round != round {
            (self.round, self.lost) = (round, ReplicaSet::EMPTY);
        }
        self.lost.insert(from);
        if !replicas.quorums.is_blocked_by(self.lost) {
            return true;
        }
        if replicas
            .quorums
            .is_blocked_by(self.lost.intersection(replicas.away))
        {
            return true;
        }
        let (pause, until) = match self.retry {
            None => (FIRST_RETRY, now + RETRIES),
            // Another one is part of it.
            Some(retry) if retry.at > now => return false,
            Some(retry) => ((2 * retry.pause).min(LONGEST_RETRY), retry.until),
        };
        if now >= until {
            return true;
        }
        let at = now + pause;
        self.retry = Some(Retry { at, pause, until });
        false
    }

    /// Something came; what is still out is expected within `usual`, if that is known.
    pub fn on_answer(&mut self, now: Instant, usual: Option<Duration>) {
        self.patient_until = now + usual.map_or(self.patience, |usual| usual.min(self.patience));
    }

    /// Until when an answer is waited for; `None` if none is to be expected.
    pub fn until(&self, now: Instant, replicas: &Replicas<'_>) -> Option<Instant> {
        let retry = self.retry.map(|retry| retry.at).filter(|at| *at > now);
        if replicas.open.is_empty() && retry.is_none() {
            return None;
        }
        let absent = self
            .waits_for_absent(replicas)
            .then(|| self.begun + ABSENCE);
        let patient = (!replicas.open.is_empty()).then_some(self.patient_until);
        let all = [Some(self.begun + DEADLINE), absent, patient, retry];
        all.into_iter().flatten().min()
    }

    fn waits_for_absent(&self, replicas: &Replicas<'_>) -> bool {
        let silent = replicas.open.union(self.lost);
        replicas
            .quorums
            .is_blocked_by(silent.intersection(replicas.away))
    }

    /// Nothing came until then.
    pub fn on_silence(&mut self, now: Instant, replicas: &Replicas<'_>) -> Due {
        let absent = self.waits_for_absent(replicas) && now >= self.begun + ABSENCE;
        if absent || now >= self.begun + DEADLINE {
            return Due::Over;
        }
        // Whoever failed is asked again now, and may fail again.
        self.lost = ReplicaSet::EMPTY;
        if let Some(retry) = &mut self.retry {
            retry.at = retry.at.min(now);
        }
        if now >= self.patient_until {
            self.patience = (2 * self.patience).min(LONGEST_PATIENCE);
        }
        self.patient_until = now + self.patience;
        Due::Again
    }
}

/// Whether asking again may help: the connection broke, or the replica could not do it at that moment.
pub(super) fn is_passing(error: &Error) -> bool {
    match error {
        Error::Unavailable(_) | Error::Storage(storage::Error::Busy(_)) => true,
        Error::Guarded | Error::Storage(_) => false,
    }
}

/// Asks again for a while if that may help, unless the one who is asked seems to be away.
pub(crate) async fn again_if_it_fails<T, F: Future<Output = Result<T, Error>>>(
    is_away: impl Fn() -> bool,
    ask: impl Fn() -> F,
) -> Result<T, Error> {
    let mut pause = FIRST_RETRY;
    let mut until = None;
    loop {
        let answer = ask().await;
        let now = Instant::now();
        let last = *until.get_or_insert(now + RETRIES);
        match answer {
            Err(error) if is_passing(&error) && !is_away() && now < last => {}
            answer => return answer,
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LONGEST_RETRY);
    }
}

#[cfg(test)]
mod tests;

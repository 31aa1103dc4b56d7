//! How background work leaves room for clients: the more it slows them down, the less of it runs at once.
//!
//! A unit is a few rows that healing takes or the mover moves, with their blocks. While nobody waits for anything, units run as they come.
//! While clients are served, an allowance of units runs at once; below one, a unit is followed by a rest. The allowance
//! grows slowly and shrinks fast, by what this node's own replica takes to answer calls that somebody waits for: beside units, compared
//! with the same without them.
//!
//! # Invariants
//! - There is always some progress: [`LEAST`] of a unit at a time.
//! - A wait here holds no lock or permit that clients need.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::register::Request;

/// How many rows a unit has at most: their transactions share a sync.
pub(crate) const UNIT_ROWS: usize = 8;
/// How many units may run at once at first, at most and at least while clients are served.
const FIRST: f64 = 2.0;
const MOST: f64 = 64.0;
const LEAST: f64 = 1.0 / 4.0;
/// By how much the allowance changes at a time.
const GROW: f64 = 1.1;
const SHRINK: f64 = 0.7;
/// How often it changes at most.
const TICK: Duration = Duration::from_millis(100);
/// Clients that asked nothing for so long are not there.
const GONE: Duration = Duration::from_secs(1);
/// How long a rest is at most.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// Units slow clients down if answers take so many times what they take without, and so much more.
const SLOWER: f64 = 1.5;
const SLACK_S: f64 = 0.000_5;
/// What answers are taken to need without units, in seconds, before any was seen.
const USUAL_S: [f64; 2] = [0.001, 0.010];
/// What the last answer weighs in the averages: beside units, without any for a while, and between units.
const WEIGHT: f64 = 1.0 / 16.0;
const WEIGHT_BETWEEN: f64 = 1.0 / 256.0;

/// A call that somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    /// What ends with a sync, most often.
    Write,
}

impl Kind {
    pub fn of<V>(request: &Request<V>) -> Kind {
        match request {
            Request::Read { .. } => Kind::Read,
            Request::Prepare { .. } | Request::Write { .. } => Kind::Write,
        }
    }
}

/// What background work passes through.
#[derive(Default)]
pub(crate) struct Throttle {
    state: Mutex<State>,
    /// Who is next waits here alone; the others behind it.
    door: tokio::sync::Mutex<()>,
    ended: Notify,
}

impl Throttle {
    /// Runs a unit of background work once there is room for it.
    pub async fn run<T>(&self, unit: impl Future<Output = T>) -> T {
        let _working = self.begin().await;
        unit.await
    }

    async fn begin(&self) -> Working<'_> {
        let _next = self.door.lock().await;
        loop {
            let now = Instant::now();
            let begun = self.lock().begin(now);
            let Err(wait) = begun else {
                return Working {
                    throttle: self,
                    began: now,
                };
            };
            let _ = tokio::time::timeout(wait, self.ended.notified()).await;
        }
    }

    /// The own replica answered a call that somebody waits for.
    pub fn answered(&self, kind: Kind, took: Duration) {
        self.lock().answered(Instant::now(), kind, took);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cluster {
    /// How many units of 8 rows may be healed or moved at once beside clients; below one, for which part of the time one may be.
    pub fn background_allowance(&self) -> f64 {
        self.0.throttle.lock().allowed
    }
}

/// A unit that runs, until it is dropped.
struct Working<'a> {
    throttle: &'a Throttle,
    began: Instant,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        self.throttle.lock().end(now, now - self.began);
        self.throttle.ended.notify_one();
    }
}

/// What an answer takes on average, in seconds, by [`Kind`].
type Averages = [Option<f64>; 2];

/// The pure part: time is an argument.
struct State {
    allowed: f64,
    working: u32,
    /// When the last unit ended.
    worked: Option<Instant>,
    /// Until when none begins.
    resting: Option<Instant>,
    /// When clients were last heard of.
    heard: Option<Instant>,
    /// When the allowance was last looked at.
    judged: Option<Instant>,
    alone: Averages,
    beside: Averages,
}

impl Default for State {
    fn default() -> State {
        State {
            allowed: FIRST,
            working: 0,
            worked: None,
            resting: None,
            heard: None,
            judged: None,
            alone: [None; 2],
            beside: [None; 2],
        }
    }
}

impl State {
    /// A unit begins, or it is told when to look again: the allowance may have grown then, or clients be gone.
    fn begin(&mut self, now: Instant) -> Result<(), Duration> {
        if self.has_clients(now) {
            let rest = self.resting.map_or(Duration::ZERO, |until| until - now);
            if rest > Duration::ZERO {
                return Err(rest.min(TICK));
            }
            if f64::from(self.working) >= self.allowed.max(1.0).floor() {
                return Err(TICK);
            }
        }
        self.working += 1;
        Ok(())
    }

    fn end(&mut self, now: Instant, took: Duration) {
        self.working -= 1;
        self.worked = Some(now);
        let rests = 1.0 / self.allowed - 1.0;
        if rests > 0.0 {
            let until = now + took.mul_f64(rests).min(LONGEST_REST);
            self.resting = self.resting.max(Some(until));
        }
    }

    fn has_clients(&self, now: Instant) -> bool {
        is_within(GONE, self.heard, now)
    }

    fn answered(&mut self, now: Instant, kind: Kind, took: Duration) {
        self.heard = Some(now);
        let worked_meanwhile = self.working > 0 || is_within(took, self.worked, now);
        let (averages, weight) = match worked_meanwhile {
            true => (&mut self.beside, WEIGHT),
            // What units left to do may take a while yet.
            false if is_within(GONE, self.worked, now) => (&mut self.alone, WEIGHT_BETWEEN),
            false => (&mut self.alone, WEIGHT),
        };
        let average = &mut averages[kind as usize];
        let took = took.as_secs_f64();
        *average = Some(average.map_or(took, |before| before + (took - before) * weight));
        if worked_meanwhile && !is_within(TICK, self.judged, now) {
            self.judged = Some(now);
            self.judge();
        }
    }

    fn judge(&mut self) {
        let slower = |kind: Kind| {
            let alone = self.alone[kind as usize].unwrap_or(USUAL_S[kind as usize]);
            let beside = self.beside[kind as usize];
            beside.is_some_and(|beside| beside > alone * SLOWER + SLACK_S)
        };
        let change = match slower(Kind::Read) || slower(Kind::Write) {
            true => SHRINK,
            false => GROW,
        };
        self.allowed = (self.allowed * change).clamp(LEAST, MOST);
    }
}

/// Whether something was, at most so long ago.
fn is_within(time: Duration, then: Option<Instant>, now: Instant) -> bool {
    then.is_some_and(|then| now.duration_since(then) < time)
}

#[cfg(test)]
mod tests;

//! Limits background work while clients are served: the more it slows them down, the less of it
//! runs at once.
//!
//! A unit is a few rows that anti-entropy applies, a block that it stores, or a few rows that a
//! rebalance moves. While no client asks for anything, units run as they come. While clients are
//! served, an allowance says how many units run at once. If it is below one, a rest follows each
//! unit. The allowance grows slowly and shrinks fast. The measure is how long this node's own
//! replica takes for calls that a client waits for, compared with the same calls when no unit runs.
//!
//! # Invariants
//! - There is always some progress: [`LEAST`] of a unit at a time.
//! - A wait here holds no lock or permit that clients need.
//! - A unit does not wait for blocks from another node for longer than an operation may take. They
//!   may come very slowly, and would hold up all other units.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Node;
use crate::register::Request;

/// The number of units that may run at once while clients are served: at first, at most and at
/// least.
const FIRST: f64 = 2.0;
const MOST: f64 = 64.0;
const LEAST: f64 = 1.0 / 4.0;
/// The factors by which the allowance changes.
const GROW: f64 = 1.1;
const SHRINK: f64 = 0.7;
/// The shortest time between two changes.
const TICK: Duration = Duration::from_millis(100);
/// Clients that were quiet for this long count as gone.
const GONE: Duration = Duration::from_secs(1);
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// Units slow clients down if answers take this many times as long as without units, and this much
/// longer.
const SLOWER: f64 = 1.5;
const SLACK_S: f64 = 0.000_5;
/// The time of answers without units, in seconds, as assumed before any was measured.
const USUAL_S: [f64; 2] = [0.001, 0.010];
/// The weight of the last answer in the averages: beside units and long after them, and between two
/// units.
const WEIGHT: f64 = 1.0 / 16.0;
const WEIGHT_BETWEEN: f64 = 1.0 / 256.0;

/// A kind of call that a client waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    /// A call that mostly ends with a sync.
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

/// The throttle of background work.
#[derive(Default)]
pub(crate) struct Throttle {
    state: Mutex<State>,
    /// Held by the unit that starts next. The others queue behind it.
    next: tokio::sync::Mutex<()>,
    ended: Notify,
}

impl Throttle {
    /// Runs a unit of background work once it may start.
    pub async fn run<T>(&self, unit: impl Future<Output = T>) -> T {
        let _working = self.begin().await;
        unit.await
    }

    async fn begin(&self) -> Working<'_> {
        let _next = self.next.lock().await;
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

    /// Notes how long the own replica took for a call that a client waits for.
    pub fn answered(&self, kind: Kind, took: Duration) {
        self.lock().answered(Instant::now(), kind, took);
    }

    /// Returns true if a client was served a moment ago.
    pub fn serves_clients(&self) -> bool {
        self.lock().has_clients(Instant::now())
    }

    /// Returns how many units may run at once while clients are served.
    pub fn allowance(&self) -> f64 {
        self.lock().allowed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Node {
    /// Runs a unit of background work once it may start: a few rows. The more such work slows
    /// clients down, the less of it runs at once.
    pub async fn in_background<T>(&self, unit: impl Future<Output = T>) -> T {
        self.throttle.run(unit).await
    }

    /// Returns true if a client was served within the last second, as far as this node's replica
    /// knows.
    pub fn serves_clients(&self) -> bool {
        self.throttle.serves_clients()
    }

    /// Returns how many units of background work may run at once while clients are served. A value
    /// below one is the part of the time in which one unit may run.
    pub fn background_allowance(&self) -> f64 {
        self.throttle.allowance()
    }
}

/// A unit that runs until this is dropped.
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

/// The average time of an answer in seconds, by [`Kind`].
type Averages = [Option<f64>; 2];

/// The pure part. Time is an argument.
struct State {
    allowed: f64,
    working: u32,
    /// When the last unit ended.
    worked: Option<Instant>,
    /// No unit begins before this time.
    resting: Option<Instant>,
    /// When a client was last served.
    heard: Option<Instant>,
    /// When the allowance was last adjusted.
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
    /// Begins a unit, or returns when to try again. The allowance may have grown by then, or the
    /// clients may be gone.
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
        let (averages, weight) = if worked_meanwhile {
            (&mut self.beside, WEIGHT)
        } else if is_within(GONE, self.worked, now) {
            // The effects of a unit may outlast it for a while.
            (&mut self.alone, WEIGHT_BETWEEN)
        } else {
            (&mut self.alone, WEIGHT)
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
        let change = if slower(Kind::Read) || slower(Kind::Write) {
            SHRINK
        } else {
            GROW
        };
        self.allowed = (self.allowed * change).clamp(LEAST, MOST);
    }
}

/// Returns true if `then` was at most `time` ago.
fn is_within(time: Duration, then: Option<Instant>, now: Instant) -> bool {
    then.is_some_and(|then| now.duration_since(then) < time)
}

#[cfg(test)]
mod tests;

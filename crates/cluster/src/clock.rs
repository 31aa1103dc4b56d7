//! The cluster's time: a wall clock that follows the other nodes' when it is far off by itself.
//!
//! Stamps are taken from wall clocks, and a replica refuses those that are far ahead of its own. A node whose clock is
//! minutes ahead could write nothing, and what it holds of its own attempts would be in everybody's way until
//! time has caught up. So nodes tell one another what their own clocks show, and one whose clock differs from the median
//! of all by more than a few seconds takes the median instead. What is told is never the corrected time: a
//! correction does not feed on itself. Nothing that must be right rests on it; two nodes never correct each other.
//!
//! A node that starts may do so with a clock that went wrong while it was off, and cannot tell before it has heard others.
//! It issues no stamps until then, or for a minute: see [`WallClock::is_known`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::clock::WallClock;
use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// A clock that is no further off is left alone: stamps put up with that much.
const TOLERANCE_MS: i64 = 5_000;
/// A wall clock that moves so much against the steady one was set.
const JUMP_MS: i64 = 1_000;
/// An answer that took longer says too little of the time at which it was given.
const LONGEST_EXCHANGE_MS: i64 = 5_000;

/// Who is alone with another, and no further from it, does no harm whoever of the two is wrong: half of how far stamps may be ahead.
const AGREEMENT_MS: i64 = 30_000;
/// A clock that nobody bore out for so long is used as it is: those who could may be gone.
const LONGEST_DOUBT: Duration = Duration::from_secs(60);

/// A wall clock, corrected by what the other nodes' show.
pub struct CommonClock {
    own: Arc<dyn WallClock>,
    begun: Instant,
    /// Once it is known what time it is, it stays known.
    known: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many other nodes there are; `None` before any layout is known.
    others: Option<usize>,
    /// Wall time minus steady time, as of the last look; `None` before the first.
    base_ms: Option<i64>,
    /// How far each node's clock is ahead of this one's.
    ahead_ms: BTreeMap<NodeId, i64>,
    correction_ms: i64,
}

impl CommonClock {
    /// Follows `own` until others are heard.
    pub fn new(own: Arc<dyn WallClock>) -> CommonClock {
        CommonClock {
            own,
            begun: Instant::now(),
            known: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// What this node's own clock shows, in milliseconds since 1970: what others are told.
    pub fn own_millis(&self) -> u64 {
        self.look().0 as u64
    }

    /// How much is added to this node's own clock, in milliseconds; 0 if it is right.
    pub fn correction_millis(&self) -> i64 {
        self.look().1.correction_ms
    }

    /// Another node answered that its own clock shows `theirs`; it was asked when this node's showed `asked`.
    pub fn heard(&self, node: NodeId, theirs: u64, asked: u64) {
        let (now, mut state) = self.look();
        let took = now.saturating_sub(asked as i64);
        // Nobody has a clock in the far future, but anybody may say so.
        let theirs = theirs.min(i64::MAX as u64 / 4) as i64;
        if (0..=LONGEST_EXCHANGE_MS).contains(&took) {
            state.ahead_ms.insert(node, theirs - (now - took / 2));
            state.correct();
        }
    }

    /// Only these nodes count from now on, beside this one.
    pub fn retain(&self, others: &BTreeSet<NodeId>) {
        let mut state = self.look().1;
        state.others = Some(others.len());
        state.ahead_ms.retain(|node, _| others.contains(node));
        state.correct();
    }

    /// The own clock's time, after a jump was taken into account.
    fn look(&self) -> (i64, MutexGuard<'_, State>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.own.now_millis().min(i64::MAX as u64 / 4) as i64;
        let base = now - self.begun.elapsed().as_millis() as i64;
        let moved = base - *state.base_ms.get_or_insert(base);
        if moved.abs() > JUMP_MS {
            state.base_ms = Some(base);
            // The others' have not moved.
            state
                .ahead_ms
                .values_mut()
                .for_each(|ahead| *ahead -= moved);
            state.correct();
        }
        (now, state)
    }
}

impl WallClock for CommonClock {
    fn now_millis(&self) -> u64 {
        let (now, state) = self.look();
        now.saturating_add(state.correction_ms).max(0) as u64
    }

    fn is_known(&self) -> bool {
        if self.known.load(Ordering::Relaxed) {
            return true;
        }
        let state = self.look().1;
        let doubted = !state.is_borne_out();
        if doubted && self.begun.elapsed() < LONGEST_DOUBT {
            return false;
        }
        if doubted {
            tracing::warn!(
                heard = state.ahead_ms.len(),
                "nobody bears out this node's clock; it is used as it is: make sure that it is right"
            );
        }
        self.known.store(true, Ordering::Relaxed);
        true
    }
}

impl State {
    /// Whether enough others were heard to tell which clocks are wrong: two, the only one, or one that agrees.
    fn is_borne_out(&self) -> bool {
        let Some(others) = self.others else {
            return false;
        };
        let agrees = |ahead: &i64| ahead.abs() <= AGREEMENT_MS;
        self.ahead_ms.len() >= others.min(2) || self.ahead_ms.values().any(agrees)
    }

    fn correct(&mut self) {
        let median = median(self.ahead_ms.values().copied().chain([0]).collect());
        let correction = if median.abs() > TOLERANCE_MS {
            median
        } else {
            0
        };
        // As the others' clocks are told, each time a little different: not worth a word.
        if (correction - self.correction_ms).abs() > TOLERANCE_MS {
            let seconds = correction as f64 / 1000.0;
            match correction {
                0 => tracing::info!("this node's clock is right again"),
                _ => tracing::warn!(
                    seconds,
                    "this node's clock differs from most others'; their time is used; fix: set the clock, and keep it by NTP"
                ),
            }
        }
        self.correction_ms = correction;
    }
}

/// The one in the middle; of two, the one nearer to 0.
fn median(mut of: Vec<i64>) -> i64 {
    of.sort_unstable();
    let upper = of.get(of.len() / 2).copied().unwrap_or_default();
    let lower = of
        .get((of.len().max(1) - 1) / 2)
        .copied()
        .unwrap_or_default();
    if lower.abs() <= upper.abs() {
        lower
    } else {
        upper
    }
}

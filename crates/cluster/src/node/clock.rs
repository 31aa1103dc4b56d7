//! The cluster's time: a wall clock that follows the clocks of the other nodes if it is far off.
//!
//! Stamps come from wall clocks, and a replica refuses stamps that are far ahead of its own clock.
//! A node whose clock is minutes ahead could write nothing. The attempts that it holds itself would
//! block other writers until time has caught up. So nodes tell one another what their own clocks
//! show. A node whose clock differs from the median of all clocks by more than a few seconds uses
//! the median. A node never tells the corrected time, so a correction does not feed on itself. No
//! guarantee depends on the correction. Two nodes alone never correct each other.
//!
//! A node's clock may have gone wrong while the node was off. The node cannot know this before it
//! has heard other nodes. Until then, or for a minute, it issues no stamps: see
//! [`WallClock::is_known`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::clock::WallClock;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// A clock that is off by more than this is corrected. Stamps tolerate that much.
pub(crate) const TOLERANCE_MS: i64 = 5_000;
/// A move of the wall clock against the steady clock by more than this counts as a jump.
const JUMP_MS: i64 = 1_000;
/// The longest exchange that counts. A slower one says too little about the time of the answer.
const LONGEST_EXCHANGE_MS: i64 = 5_000;

/// The clocks of two nodes agree if they differ by no more than this. It is half of what stamps
/// tolerate, so neither clock does harm, whichever is wrong.
const AGREEMENT_MS: i64 = 30_000;
/// After this time an unconfirmed clock is used as it is. The nodes that could confirm it may be
/// gone.
const LONGEST_DOUBT: Duration = Duration::from_secs(60);

/// A wall clock, corrected by the clocks of the other nodes.
pub struct CommonClock {
    own: Arc<dyn WallClock>,
    begun: Instant,
    /// Once the time is known, it stays known.
    known: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The other nodes of the layout; `None` before any layout is known.
    others: Option<BTreeSet<NodeId>>,
    /// Wall time minus steady time at the last look; `None` before the first.
    base_ms: Option<i64>,
    /// The lead of each node's clock over this one's.
    ahead_ms: BTreeMap<NodeId, i64>,
    /// The lead of the clock as it was before all jumps over the present one.
    before_jumps_ms: i64,
    correction_ms: i64,
}

impl CommonClock {
    /// Creates a clock that follows `own` until other nodes are heard.
    pub fn new(own: Arc<dyn WallClock>) -> CommonClock {
        CommonClock {
            own,
            begun: Instant::now(),
            known: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Returns what this node's own clock shows, in milliseconds since 1970. Other nodes are told
    /// this time.
    pub fn own_millis(&self) -> u64 {
        self.look().0 as u64
    }

    /// Returns what is added to this node's own clock, in milliseconds; 0 if the clock is right.
    pub fn correction_millis(&self) -> i64 {
        self.look().1.correction_ms
    }

    /// Notes what another node's own clock shows. `asked` is this node's own time at the request. A
    /// node that is not in the layout is not believed.
    pub fn heard(&self, node: NodeId, theirs: u64, asked: u64) {
        let (now, mut state) = self.look();
        let took = now.saturating_sub(asked as i64);
        // No clock is in the far future, but any node may claim so.
        let theirs = theirs.min(i64::MAX as u64 / 4) as i64;
        let is_strange = state
            .others
            .as_ref()
            .is_some_and(|all| !all.contains(&node));
        if !is_strange && (0..=LONGEST_EXCHANGE_MS).contains(&took) {
            state.ahead_ms.insert(node, theirs - (now - took / 2));
            state.correct();
        }
    }

    /// Drops the clocks of all nodes but `others`, and believes no other one from now on.
    pub fn retain(&self, others: &BTreeSet<NodeId>) {
        let mut state = self.look().1;
        state.others = Some(others.clone());
        state.ahead_ms.retain(|node, _| others.contains(node));
        state.correct();
    }

    /// Returns the own clock's time, after it has accounted for a jump.
    fn look(&self) -> (i64, MutexGuard<'_, State>) {
        let mut state = self.state.lock();
        let now = self.own.now_millis().min(i64::MAX as u64 / 4) as i64;
        // The steady clock stands still while the machine is suspended, and the wall clock moves
        // on.
        let steady = self.begun.elapsed().as_millis() as i64 + self.own.suspended_millis() as i64;
        let base = now - steady;
        let moved = base - *state.base_ms.get_or_insert(base);
        if moved.abs() > JUMP_MS {
            state.base_ms = Some(base);
            // The other clocks have not moved.
            state
                .ahead_ms
                .values_mut()
                .for_each(|ahead| *ahead -= moved);
            state.before_jumps_ms -= moved;
            state.correct();
        }
        (now, state)
    }
}

impl WallClock for CommonClock {
    fn suspended_millis(&self) -> u64 {
        self.own.suspended_millis()
    }

    fn now_millis(&self) -> u64 {
        let (now, state) = self.look();
        now.saturating_add(state.correction_ms).max(0) as u64
    }

    fn earliest_millis(&self) -> u64 {
        if !self.is_known() {
            return 0;
        }
        self.own_millis().min(self.now_millis())
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
                "no other node has confirmed this node's clock, so the clock is used as it is; fix: check it"
            );
        }
        self.known.store(true, Ordering::Relaxed);
        true
    }
}

impl State {
    /// Returns true if enough nodes were heard to tell which clocks are wrong: two nodes, the only
    /// other node, or one that agrees.
    fn is_borne_out(&self) -> bool {
        let Some(others) = self.others.as_ref().map(BTreeSet::len) else {
            return false;
        };
        let agrees = |ahead: &i64| ahead.abs() <= AGREEMENT_MS;
        self.ahead_ms.len() >= others.min(2) || self.ahead_ms.values().any(agrees)
    }

    fn correct(&mut self) {
        let mut clocks: Vec<i64> = self.ahead_ms.values().copied().chain([0]).collect();
        // One other node cannot tell which of two clocks is wrong. If this one has jumped, and the
        // other one is where this one was before, then the jump was wrong.
        if clocks.len() == 2 && self.before_jumps_ms != 0 {
            clocks.push(self.before_jumps_ms);
        }
        let median = median(clocks);
        let correction = if median.abs() > TOLERANCE_MS {
            median
        } else {
            0
        };
        // A correction varies a little from exchange to exchange. That is not worth a log line.
        if (correction - self.correction_ms).abs() > TOLERANCE_MS {
            let seconds = correction as f64 / 1000.0;
            match correction {
                0 => tracing::info!("this node's clock is right again"),
                _ => tracing::warn!(
                    seconds,
                    "this node's clock differs from most others, so their time is used; fix: set the clock, and keep it by NTP"
                ),
            }
        }
        self.correction_ms = correction;
    }
}

/// Returns the middle value; of two, the one nearer to 0.
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

//! The failure detector: it judges from signs of life and failed calls which nodes are suspected.

/// A node is suspected after this many failed calls in a row, if no node has had a sign of life of
/// it since the first of them.
const FAILURES: u32 = 3;
/// It is also suspected after this many failed calls over this time, whatever others say: this node
/// cannot reach it.
const FAILURES_ALONE: u32 = 6;
const FAILING_MS: i64 = 2_000;
/// The time for which failed calls are remembered after the last one.
const FAILURES_LAST_MS: i64 = 30_000;

/// The verdict on a node: suspected or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Standing {
    /// There was a recent sign of life.
    Alive,
    /// There was none, the node cannot be reached, or it said that it leaves. It is asked last, and
    /// no operation waits for it.
    Suspected,
}

/// The failure detector of one node. Times are milliseconds of this node's steady clock. Times
/// before its start are negative.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FailureDetector {
    /// When the node last certainly lived.
    alive_ms: i64,
    failures: u32,
    first_failed_ms: i64,
    last_failed_ms: i64,
    standing: Standing,
    since_ms: i64,
}

impl FailureDetector {
    /// Creates the detector of a node that is first heard of now, and lived at `alive_ms`.
    pub fn new(alive_ms: i64, now_ms: i64) -> FailureDetector {
        FailureDetector {
            alive_ms,
            failures: 0,
            first_failed_ms: 0,
            last_failed_ms: 0,
            // This holds until the first judgement.
            standing: Standing::Suspected,
            since_ms: now_ms,
        }
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Returns since when the node has this standing.
    pub fn since_ms(&self) -> i64 {
        self.since_ms
    }

    /// Returns how long ago the node certainly lived.
    pub fn age_ms(&self, now_ms: i64) -> u64 {
        now_ms.saturating_sub(self.alive_ms).max(0).unsigned_abs()
    }

    /// Notes that the node lived at a time, as another node tells.
    pub fn lived(&mut self, at_ms: i64) {
        self.alive_ms = self.alive_ms.max(at_ms);
    }

    /// Forgets failed calls, because the node has restarted.
    pub fn restarted(&mut self) {
        self.failures = 0;
    }

    /// Notes that the node answered, or called.
    pub fn met(&mut self, now_ms: i64) {
        self.lived(now_ms);
        self.failures = 0;
    }

    /// Notes a failed call. It says nothing about a node without any sign of life for
    /// `patience_ms`: when that node comes back, a sign of life is enough.
    pub fn failed(&mut self, patience_ms: u64, now_ms: i64) {
        if self.age_ms(now_ms) > patience_ms {
            return;
        }
        if self.failures == 0 || now_ms - self.last_failed_ms > FAILURES_LAST_MS {
            self.failures = 0;
            self.first_failed_ms = now_ms;
        }
        self.failures = self.failures.saturating_add(1);
        self.last_failed_ms = now_ms;
    }

    /// Shifts all times, because this node itself stood still for so long. It could not hear
    /// anything meanwhile.
    pub fn slept(&mut self, millis: i64) {
        if self.standing == Standing::Alive {
            self.alive_ms += millis;
        }
    }

    fn is_unreachable(&self, now_ms: i64) -> bool {
        let unheard = self.failures >= FAILURES && self.alive_ms <= self.first_failed_ms;
        let alone = self.failures >= FAILURES_ALONE
            && self.last_failed_ms - self.first_failed_ms >= FAILING_MS;
        (unheard || alone) && now_ms - self.last_failed_ms <= FAILURES_LAST_MS
    }

    /// Judges the node. Returns true if its standing changed. It is suspected after `patience_ms`
    /// without a sign of life.
    pub fn judge(&mut self, leaving: bool, patience_ms: u64, now_ms: i64) -> bool {
        let away = leaving || self.is_unreachable(now_ms) || self.age_ms(now_ms) > patience_ms;
        let standing = if away {
            Standing::Suspected
        } else {
            Standing::Alive
        };
        let changed = standing != self.standing;
        if changed {
            (self.standing, self.since_ms) = (standing, now_ms);
        }
        changed
    }
}

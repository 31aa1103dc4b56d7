//! What speaks for a node being there, and what against it.

/// What becomes of a node that is not there: who fails so many calls in a row, with no sign of life from anybody since the
/// first of them, is suspected.
const FAILURES: u32 = 3;
/// Or so many, over so long, whatever others say: it cannot be reached from here.
const FAILURES_ALONE: u32 = 6;
const FAILING_MS: i64 = 2_000;
/// How long failed calls are remembered after the last of them.
const FAILURES_LAST_MS: i64 = 30_000;

/// How a node seems to be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Standing {
    /// It was heard of lately.
    Alive,
    /// It was not, it cannot be reached, or it said that it goes: it is asked last, and waited for by nobody.
    Suspected,
}

/// Evidence about one node. Times are milliseconds of this node's steady clock; before it began they are negative.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Evidence {
    /// When it certainly lived.
    alive_ms: i64,
    failures: u32,
    first_failed_ms: i64,
    last_failed_ms: i64,
    standing: Standing,
    since_ms: i64,
}

impl Evidence {
    /// Of a node that is first heard of now, and lived then.
    pub fn new(alive_ms: i64, now_ms: i64) -> Evidence {
        Evidence {
            alive_ms,
            failures: 0,
            first_failed_ms: 0,
            last_failed_ms: 0,
            // Until it is judged.
            standing: Standing::Suspected,
            since_ms: now_ms,
        }
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Since when it has stood so.
    pub fn since_ms(&self) -> i64 {
        self.since_ms
    }

    /// How long ago it certainly lived.
    pub fn age_ms(&self, now_ms: i64) -> u64 {
        now_ms.saturating_sub(self.alive_ms).max(0).unsigned_abs()
    }

    /// Somebody tells that it lived then.
    pub fn lived(&mut self, at_ms: i64) {
        self.alive_ms = self.alive_ms.max(at_ms);
    }

    /// It has begun anew: what it failed before says nothing.
    pub fn restarted(&mut self) {
        self.failures = 0;
    }

    /// It answered, or called.
    pub fn met(&mut self, now_ms: i64) {
        self.lived(now_ms);
        self.failures = 0;
    }

    /// It did not answer. That says nothing about a node that nobody has heard of for `patience_ms`: when it comes
    /// back, it will be enough to hear of it.
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

    /// This node was not running for so long: nothing that it did not hear meanwhile counts.
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

    /// Judges it; gives whether that changed. After `patience_ms` without a sign of life it is suspected.
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

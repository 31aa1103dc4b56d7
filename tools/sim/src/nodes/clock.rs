//! The clocks of machines.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use archipel_base::clock::WallClock;
use tokio::time::Instant;

/// The start of simulated time in milliseconds since 1970. An hour ends 45 seconds later, and
/// floors lie on hours.
const EPOCH_MILLIS: u64 = 1_700_002_800_000 - 45_000;

/// A machine's clock: virtual time, and the clock's offset.
#[derive(Clone, Debug)]
pub struct MachineClock {
    start: Instant,
    skew_millis: Arc<AtomicI64>,
    passed_millis: Arc<AtomicU64>,
}

impl MachineClock {
    /// Returns a right clock, which begins now. All clocks are ahead by the time that passed while
    /// nothing happened.
    pub fn new(passed_millis: Arc<AtomicU64>) -> MachineClock {
        MachineClock {
            start: Instant::now(),
            skew_millis: Arc::default(),
            passed_millis,
        }
    }

    /// Sets the clock this far ahead (or behind, if negative).
    pub fn set_skew(&self, millis: i64) {
        self.skew_millis.store(millis, Ordering::SeqCst);
    }

    /// Returns the right time, in milliseconds since 1970.
    pub fn right_millis(&self) -> u64 {
        let passed = self.passed_millis.load(Ordering::SeqCst);
        EPOCH_MILLIS + passed + self.start.elapsed().as_millis() as u64
    }

    /// Returns the offset in milliseconds.
    pub fn skew(&self) -> i64 {
        self.skew_millis.load(Ordering::SeqCst)
    }
}

impl WallClock for MachineClock {
    fn now_millis(&self) -> u64 {
        self.right_millis()
            .saturating_add_signed(self.skew_millis.load(Ordering::SeqCst))
    }
}

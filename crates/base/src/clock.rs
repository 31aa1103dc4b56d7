//! Wall clocks: the system's, and a manual one for tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock of the time of day. It may jump; no safety property depends on it.
pub trait WallClock: Send + Sync {
    /// Returns the milliseconds since 1970-01-01 00:00 UTC.
    fn now_millis(&self) -> u64;

    /// Returns true if the time is reliable. A clock that is compared with other nodes' clocks is
    /// not reliable before the first comparison; work that depends on dates waits until then.
    fn is_known(&self) -> bool {
        true
    }
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    // The only place that reads the system's time.
    #[allow(clippy::disallowed_methods)]
    fn now_millis(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_millis() as u64)
    }
}

/// A clock that moves only when it is told to.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Creates a clock that shows `millis` since 1970.
    pub fn at(millis: u64) -> ManualClock {
        ManualClock(AtomicU64::new(millis))
    }

    /// Sets the time, forward or back.
    pub fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::SeqCst);
    }

    /// Moves the time forward.
    pub fn advance(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl WallClock for ManualClock {
    fn now_millis(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

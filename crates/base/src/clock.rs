//! Wall clocks: the system's, and a manual one for tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// 24 hours.
pub const DAY: Duration = Duration::from_hours(24);
/// 24 hours, in milliseconds.
pub const DAY_MS: u64 = DAY.as_millis() as u64;

/// A clock of the time of day. It may jump; no safety property depends on it.
pub trait WallClock: Send + Sync {
    /// Returns the milliseconds since 1970-01-01 00:00 UTC.
    fn now_millis(&self) -> u64;

    /// Returns the earliest time that it may be now, for what must not happen too early. A clock
    /// that follows others returns the earlier of its own time and theirs, and 0 before it has
    /// heard them.
    fn earliest_millis(&self) -> u64 {
        self.now_millis()
    }

    /// Returns true if the time is reliable. A clock that is compared with other nodes' clocks is
    /// not reliable before the first comparison; work that depends on dates waits until then.
    fn is_known(&self) -> bool {
        true
    }

    /// Returns the milliseconds for which the machine was suspended since it booted. Timers stand
    /// still meanwhile.
    fn suspended_millis(&self) -> u64 {
        0
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

    fn suspended_millis(&self) -> u64 {
        let millis = |clock| {
            let time = rustix::time::clock_gettime(clock);
            time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
        };
        // In this order the difference is never too small.
        let running = millis(rustix::time::ClockId::Monotonic);
        let all = millis(rustix::time::ClockId::Boottime);
        all.saturating_sub(running)
    }
}

/// A clock that moves only when it is told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicU64,
    suspended: AtomicU64,
}

impl ManualClock {
    /// Creates a clock that shows `millis` since 1970.
    pub fn at(millis: u64) -> ManualClock {
        let clock = ManualClock::default();
        clock.set(millis);
        clock
    }

    /// Sets the time, forward or back.
    pub fn set(&self, millis: u64) {
        self.now.store(millis, Ordering::SeqCst);
    }

    /// Moves the time forward.
    pub fn advance(&self, millis: u64) {
        self.now.fetch_add(millis, Ordering::SeqCst);
    }

    /// Acts as if the machine had been suspended for `millis` more.
    pub fn suspend(&self, millis: u64) {
        self.suspended.fetch_add(millis, Ordering::SeqCst);
        self.advance(millis);
    }
}

impl WallClock for ManualClock {
    fn now_millis(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn suspended_millis(&self) -> u64 {
        self.suspended.load(Ordering::SeqCst)
    }
}

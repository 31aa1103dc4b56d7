//! Wall clocks: the system's, and one that a test moves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock that tells the time of day. It may jump; nothing that must be safe rests on it.
pub trait WallClock: Send + Sync {
    /// Milliseconds since 1970-01-01 00:00 UTC.
    fn now_millis(&self) -> u64;

    /// Whether it is to be relied upon. A clock that is compared with others' may not have been yet; what
    /// is dated is put off until then.
    fn is_known(&self) -> bool {
        true
    }
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    // The one place where the system's time comes in.
    #[allow(clippy::disallowed_methods)]
    fn now_millis(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_millis() as u64)
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `millis` since 1970.
    pub fn at(millis: u64) -> ManualClock {
        ManualClock(AtomicU64::new(millis))
    }

    /// Sets the time, forwards or back.
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

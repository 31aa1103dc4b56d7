//! The usage of connections: which are in use, and how long the others have been idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The number of streams that use a connection, and the time of the last use.
#[derive(Clone)]
pub struct Usage(Arc<Used>);

struct Used {
    begun: Instant,
    /// Milliseconds between `begun` and the last use.
    last: AtomicU64,
    streams: AtomicUsize,
    /// True once many streams were in use at the same time.
    busy: AtomicBool,
    /// The number of streams that wait to send anything but background content.
    sending: AtomicUsize,
}

impl Usage {
    pub(crate) fn new() -> Usage {
        Usage(Arc::new(Used {
            begun: Instant::now(),
            last: AtomicU64::new(0),
            streams: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
            sending: AtomicUsize::new(0),
        }))
    }

    /// Marks the connection as used for as long as the returned guard exists.
    pub fn hold(&self) -> UsageGuard {
        self.0.streams.fetch_add(1, Ordering::Relaxed);
        UsageGuard(self.clone())
    }

    /// Returns true if more than `many` streams are in use at once for the first time. Both
    /// directions of a stream count.
    pub fn becomes_busy(&self, many: usize) -> bool {
        let used = &self.0;
        used.streams.load(Ordering::Relaxed) > many && !used.busy.swap(true, Ordering::Relaxed)
    }

    /// Returns the time since the connection was last used.
    pub(super) fn idle(&self) -> Duration {
        if self.0.streams.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let last = Duration::from_millis(self.0.last.load(Ordering::Relaxed));
        self.0.begun.elapsed().saturating_sub(last)
    }
}

/// A stream's claim on its connection.
pub struct UsageGuard(Usage);

/// The wait of a stream to send something. It is over once this is dropped.
pub(crate) struct SendingGuard(Arc<Used>);

impl UsageGuard {
    /// Notes that this stream waits to send something, and no background content.
    pub(crate) fn sends(&self) -> SendingGuard {
        let used = &self.0.0;
        used.sending.fetch_add(1, Ordering::Relaxed);
        SendingGuard(used.clone())
    }

    /// Returns true if a stream of the connection waits to send anything but background content.
    pub(crate) fn has_senders(&self) -> bool {
        self.0.0.sending.load(Ordering::Relaxed) > 0
    }
}

impl Drop for SendingGuard {
    fn drop(&mut self) {
        self.0.sending.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Clone for UsageGuard {
    fn clone(&self) -> UsageGuard {
        self.0.hold()
    }
}

impl Drop for UsageGuard {
    fn drop(&mut self) {
        let used = &self.0.0;
        let now = used.begun.elapsed().as_millis() as u64;
        used.last.store(now, Ordering::Relaxed);
        used.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

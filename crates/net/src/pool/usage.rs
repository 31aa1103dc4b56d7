//! Which connections are in use, and since when the others are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// When a connection was used last, and by how many streams it is in use.
#[derive(Clone)]
pub struct Usage(Arc<Used>);

struct Used {
    begun: Instant,
    /// Milliseconds after it began.
    last: AtomicU64,
    streams: AtomicUsize,
    /// Many streams were in use at once.
    busy: AtomicBool,
}

impl Usage {
    pub(super) fn new() -> Usage {
        Usage(Arc::new(Used {
            begun: Instant::now(),
            last: AtomicU64::new(0),
            streams: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
        }))
    }

    /// For as long as what is returned is kept, the connection is in use.
    pub fn hold(&self) -> Held {
        self.0.streams.fetch_add(1, Ordering::Relaxed);
        Held(self.clone())
    }

    /// Whether more than `many` streams are in use at once, for the first time. Both directions of a stream count.
    pub fn becomes_busy(&self, many: usize) -> bool {
        let used = &self.0;
        used.streams.load(Ordering::Relaxed) > many && !used.busy.swap(true, Ordering::Relaxed)
    }

    /// How long nobody has used the connection.
    pub(super) fn idle(&self) -> Duration {
        if self.0.streams.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let last = Duration::from_millis(self.0.last.load(Ordering::Relaxed));
        self.0.begun.elapsed().saturating_sub(last)
    }
}

/// A stream's claim on its connection.
pub struct Held(Usage);

impl Clone for Held {
    fn clone(&self) -> Held {
        self.0.hold()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let used = &self.0.0;
        let now = used.begun.elapsed().as_millis() as u64;
        used.last.store(now, Ordering::Relaxed);
        used.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

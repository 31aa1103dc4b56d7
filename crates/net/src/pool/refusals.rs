//! Refused connections: counted, and logged at a limited rate.

use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The minimum time between two log lines.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Refusals(Mutex<RefusalCounts>);

#[derive(Default)]
struct RefusalCounts {
    count: u64,
    logged: Option<(Instant, u64)>,
}

impl Refusals {
    /// Counts a refused connection, and logs it unless a line was logged recently.
    pub fn note(&self, from: SocketAddr, why: &str) {
        let now = Instant::now();
        let unlogged = {
            let mut state = self.0.lock();
            state.count += 1;
            let (last, logged) = state.logged.unzip();
            if last.is_some_and(|last| now.duration_since(last) < QUIET) {
                return;
            }
            state.logged = Some((now, state.count));
            state.count - logged.unwrap_or(0) - 1
        };
        tracing::warn!(%from, why, unlogged, "a connection was refused");
    }

    /// Returns the number of refused connections.
    pub fn count(&self) -> u64 {
        let state = self.0.lock();
        state.count
    }
}

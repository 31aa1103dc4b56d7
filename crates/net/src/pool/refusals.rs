//! Those who were not let in: counted, and logged so that they cannot fill the log.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// At most one line in so long.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Refusals(Mutex<State>);

#[derive(Default)]
struct State {
    count: u64,
    logged: Option<(Instant, u64)>,
}

impl Refusals {
    /// One more.
    pub fn note(&self, from: SocketAddr, why: &str) {
        let now = Instant::now();
        let unlogged = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// How many so far.
    pub fn count(&self) -> u64 {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.count
    }
}

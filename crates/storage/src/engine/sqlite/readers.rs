//! The connections that read: a bounded number, kept open for the next reader.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use super::super::{EngineOptions, Result};
use super::{connect, from_sqlite};
use crate::error::Error;

/// Connections that stay open while nobody reads: each keeps its own cache and file descriptors.
const KEPT_IDLE: usize = 8;
/// Connections at most: each has three open files and up to its share of cache.
const MOST_CONNECTIONS: usize = 32;
/// How long a reader waits for its turn before it is told to try again.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(super) struct Readers {
    path: PathBuf,
    cache_bytes: u64,
    limit: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Connection>,
    /// Connections in use.
    busy: usize,
}

impl Readers {
    pub(super) fn new(path: PathBuf, options: &EngineOptions) -> Readers {
        Readers {
            path,
            // The writer has a cache as large as all idle readers together.
            cache_bytes: options.cache_bytes / KEPT_IDLE as u64,
            limit: (options.max_readers as usize).clamp(1, MOST_CONNECTIONS),
            state: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// A connection for one read transaction.
    pub(super) fn take(&self) -> Result<Reader<'_>> {
        let (mut state, timeout) = self
            .returned
            .wait_timeout_while(self.lock(), LONGEST_WAIT, |s| s.busy >= self.limit)
            .unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            let text = format!("SQLite: {} read transactions are open", self.limit);
            return Err(Error::Busy(text));
        }
        state.busy += 1;
        let idle = state.idle.pop();
        drop(state);
        // From here on the reader counts down when it is dropped, also without a connection.
        let mut reader = Reader {
            readers: self,
            connection: idle,
        };
        if reader.connection.is_none() {
            let opened = connect(&self.path, self.cache_bytes);
            reader.connection = Some(opened.map_err(|e| from_sqlite("opening a reader", e))?);
        }
        Ok(reader)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that goes back when it is dropped. Always has one, but while it is taken.
pub(super) struct Reader<'r> {
    readers: &'r Readers,
    connection: Option<Connection>,
}

impl Deref for Reader<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
            .as_ref()
            .expect("set by `take`, unset by `drop`")
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // One that cannot end its transaction is closed, which ends it.
        let reusable = self.connection.take().filter(|connection| {
            connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok()
        });
        let mut state = self.readers.lock();
        state.busy -= 1;
        if let Some(connection) = reusable
            && state.idle.len() < KEPT_IDLE
        {
            state.idle.push(connection);
        }
        drop(state);
        self.readers.returned.notify_one();
    }
}

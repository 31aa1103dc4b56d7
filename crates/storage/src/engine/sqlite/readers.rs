//! The connections for reading: a bounded number, kept open for the next reader.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::super::{EngineOptions, Result};
use super::{connect, from_sqlite};
use crate::error::Error;

/// The number of idle connections that stay open. Each keeps its own cache and file descriptors.
const KEPT_IDLE: usize = 8;
/// The largest number of connections. Each has three open files and up to its share of the cache.
const MOST_CONNECTIONS: usize = 32;
/// The time that a reader waits for a connection before it gets an error.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(super) struct Readers {
    path: PathBuf,
    cache_bytes: u64,
    limit: usize,
    state: Mutex<ReadersState>,
    returned: Condvar,
}

#[derive(Default)]
struct ReadersState {
    idle: Vec<Connection>,
    /// The number of connections in use.
    busy: usize,
}

impl Readers {
    pub(super) fn new(path: PathBuf, options: &EngineOptions) -> Readers {
        Readers {
            path,
            // The writer's cache is as large as those of all idle readers together.
            cache_bytes: options.cache_bytes / KEPT_IDLE as u64,
            limit: (options.max_readers as usize).clamp(1, MOST_CONNECTIONS),
            state: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// Takes a connection for one read transaction.
    pub(super) fn take(&self) -> Result<Reader<'_>> {
        let mut state = self.state.lock();
        let is_busy = |state: &mut ReadersState| state.busy >= self.limit;
        self.returned
            .wait_while_for(&mut state, is_busy, LONGEST_WAIT);
        if is_busy(&mut state) {
            let text = format!("SQLite: {} read transactions are open", self.limit);
            return Err(Error::Busy(text));
        }
        state.busy += 1;
        let idle = state.idle.pop();
        drop(state);
        // From here on dropping the reader lowers the count, even if it has no connection.
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
}

/// A connection that returns to the pool when it is dropped. It is `None` only while it is being
/// taken.
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
        // If its transaction cannot end, the connection is closed, which ends it.
        let reusable = self.connection.take().filter(|connection| {
            connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok()
        });
        let mut state = self.readers.state.lock();
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

//! Checkpoints: copying the log to the database file, so that the log begins again and stays short.

use std::ffi::c_int;
use std::sync::Arc;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, ffi};

use super::super::failure::Breaker;
use super::{SqliteResult, from_sqlite};
use crate::error::Error;

/// The number of pages in the log from which a commit copies them: SQLite's own default.
pub(super) const CHECKPOINT_FRAMES: c_int = 1000;

/// Copies the log after commits, once it is long. SQLite would do so in the same way by itself, but
/// ignore failures. None is copied after a final failure: the file is changed only while the log is synced.
pub(super) fn run_after_commits(
    connection: &mut Connection,
    breaker: Arc<Breaker>,
) -> SqliteResult<()> {
    let mut told = false;
    connection.wal_hook(Some(move |log: &mut Wal, frames: c_int| {
        if frames < CHECKPOINT_FRAMES || breaker.check().is_err() {
            return Ok(());
        }
        let Err(error) = log.checkpoint() else {
            told = false;
            return Ok(());
        };
        // Beyond a quota, for instance.
        let is_unwritten = error.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_WRITE);
        match from_sqlite("copying the log to the file", error) {
            // The log was synced before the first page was written, and keeps all pages. After the next commit all of
            // them are written again.
            Error::Full(_) | Error::Busy(_) => {}
            error if is_unwritten => {
                if !told {
                    tracing::warn!("metadata: {error}; it is tried again after each commit");
                }
                told = true;
            }
            other => drop(breaker.trip("a checkpoint", other)),
        }
        Ok(())
    }))
}

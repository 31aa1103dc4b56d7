//! What can go wrong in storage, named by what the caller should do.

use std::io;

/// An error of one node's storage.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The disk has no room: refuse the write, keep reading and deleting.
    #[error("no space left: {0}")]
    Full(String),
    /// A disk or engine failed and stopped acknowledging; an operator must act.
    #[error("storage failed: {0}")]
    Failed(String),
    /// Bytes on disk are not what was written: look for another copy.
    #[error("damaged: {0}")]
    Damaged(String),
    /// A block is not here (deleted, never written, or lost).
    #[error("no such block: {0}")]
    NoBlock(String),
    /// Too much is waiting already: try again later.
    #[error("overloaded: {0}")]
    Busy(String),
    /// The request itself cannot be carried out (a key too long, a block too large).
    #[error("refused: {0}")]
    Refused(String),
    /// A single system call failed; the operation did not happen and may be tried again.
    #[error("I/O error: {0}")]
    Io(String),
}

impl Error {
    /// An [`Error`] from a system call's, with what was being done.
    pub fn from_io(doing: &str, error: &io::Error) -> Error {
        let text = format!("{doing}: {error}");
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full(text),
            _ => Error::Io(text),
        }
    }
}

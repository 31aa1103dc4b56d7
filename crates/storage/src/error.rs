//! The errors of storage, named by what the caller should do.

use std::io;

/// An error of one node's storage.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The disk has no room. Refuse the write; reads and deletions go on.
    #[error("no space left: {0}")]
    Full(String),
    /// A disk or engine failed and acknowledges nothing more. An operator must act.
    #[error("storage failed: {0}")]
    Failed(String),
    /// The bytes on disk are not the bytes that were written. Look for another copy.
    #[error("damaged: {0}")]
    Damaged(String),
    /// A newer release wrote the bytes, and they are whole. They are not damaged: nothing may
    /// replace or repair them. Use that release.
    #[error("a newer Archipel wrote this: {0}")]
    Newer(String),
    /// The block is not on this node: it was deleted, never written, or lost.
    #[error("no such block: {0}")]
    NoBlock(String),
    /// Too many requests are waiting. Try again later.
    #[error("overloaded: {0}")]
    Busy(String),
    /// The request cannot be carried out, for example because a key is too long or a block too
    /// large.
    #[error("refused: {0}")]
    Refused(String),
    /// A single system call failed. The operation did not happen and may be tried again.
    #[error("I/O error: {0}")]
    Io(String),
}

impl Error {
    /// Converts the error of a system call. `doing` says what the call was for.
    pub fn from_io(doing: &str, error: &io::Error) -> Error {
        let text = format!("{doing}: {error}");
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full(text),
            _ => Error::Io(text),
        }
    }
}

/// Returns true if the disk lacks the bytes or cannot read them. Other errors may pass. File systems
/// that verify what they read have errors of their own.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    error.kind() == io::ErrorKind::UnexpectedEof
        || [libc::EIO, libc::EBADMSG, libc::EUCLEAN]
            .map(Some)
            .contains(&errno)
}

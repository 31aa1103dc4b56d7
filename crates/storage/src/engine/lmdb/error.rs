//! The meaning of LMDB's errors.

use heed::MdbError;

use super::{LmdbEngine, room};
use crate::error::Error;

/// The free space of the disk below which a short write counts as lack of space.
const FULL_DISK_BYTES: u64 = 16 << 20;

impl LmdbEngine {
    /// Converts the error of a failed write. On a full disk a write usually comes out short, which
    /// LMDB reports as EIO.
    pub(super) fn write_failed(&self, doing: &str, error: heed::Error) -> Error {
        let short = matches!(&error, heed::Error::Io(io) if io.raw_os_error() == Some(libc::EIO));
        match from_lmdb(doing, error) {
            Error::Io(text) if short && room::free_bytes(&self.home.data) < FULL_DISK_BYTES => {
                Error::Full(text)
            }
            other => other,
        }
    }

    /// Converts the error of a failed commit. Lack of space changes nothing: LMDB undoes the
    /// transaction, and the next one writes all its pages again. Other errors leave it unknown.
    pub(super) fn commit_failed(&self, error: heed::Error) -> Error {
        let failed = self.write_failed("committing", error);
        // If the write of the meta page fails, LMDB gives up the environment for good.
        let given_up = matches!(self.env.read_txn(), Err(heed::Error::Mdb(MdbError::Panic)));
        match failed {
            // A failed sync looks the same to us. The kernel tells it to our handle, too.
            Error::Full(text) if !given_up && self.file.sync_data().is_ok() => Error::Full(text),
            other => self.breaker.trip("committing", other),
        }
    }
}

/// Converts an LMDB error to a storage error.
pub(super) fn from_lmdb(doing: &str, error: heed::Error) -> Error {
    let text = || format!("LMDB, {doing}: {error}");
    match &error {
        heed::Error::Io(io) => Error::from_io(&format!("LMDB, {doing}"), io),
        heed::Error::EnvAlreadyOpened => Error::Refused(text()),
        heed::Error::Mdb(MdbError::MapFull) => Error::Full(format!(
            "{}: the map is full; fix: a larger metadata_map_size, then restart",
            text()
        )),
        heed::Error::Mdb(MdbError::ReadersFull) => Error::Busy(text()),
        heed::Error::Mdb(MdbError::BadValSize | MdbError::TxnFull) => Error::Refused(text()),
        heed::Error::Mdb(
            MdbError::Corrupted
            | MdbError::PageNotFound
            | MdbError::Invalid
            | MdbError::VersionMismatch,
        ) => Error::Damaged(text()),
        _ => Error::Failed(text()),
    }
}

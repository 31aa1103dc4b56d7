//! The meaning of LMDB's errors.

use heed::MdbError;

use crate::error::Error;

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

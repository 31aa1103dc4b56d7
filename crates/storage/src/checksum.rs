//! The checksum of metadata values and of record headers.

use crc_fast::{CrcAlgorithm, Digest};

/// Returns the CRC-32C (Castagnoli) of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    // The algorithm has 32 bits; the crate answers in 64 for all of them.
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Returns the CRC-32C of all pieces, one after another.
pub(crate) fn crc32c_of(pieces: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    pieces.iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

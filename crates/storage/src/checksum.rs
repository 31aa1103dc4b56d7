//! The checksum of metadata values and of record headers.

/// Returns the CRC-32C (Castagnoli) of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    // The algorithm has 32 bits; the crate answers in 64 for all of them.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

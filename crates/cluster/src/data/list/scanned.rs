//! The rows that a scan returns.

use archipel_base::Stamp;
use archipel_storage::RowKey;
use bytes::Bytes;

/// A live row without its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scanned {
    /// Its key.
    pub key: RowKey,
    /// The stamp of its version.
    pub stamp: Stamp,
    /// Its metadata.
    pub metadata: Bytes,
    /// True if a quorum showed this version. Otherwise its write may be under way, or may have
    /// failed: read the row before anything is built on it.
    pub is_settled: bool,
}

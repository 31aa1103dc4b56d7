//! What a scan gives.

use archipel_base::Stamp;
use archipel_storage::RowKey;
use bytes::Bytes;

/// A live row, without its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scanned {
    /// Its key.
    pub key: RowKey,
    /// When it was written.
    pub stamp: Stamp,
    /// Its head.
    pub head: Bytes,
}

//! What is asked of a listing, and what comes back.

use archipel_base::{PartitionId, Stamp};
use archipel_storage::RowKey;
use bytes::Bytes;

/// Where a listing begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListStart {
    /// At this row key.
    At(Bytes),
    /// Just behind this row key.
    Behind(Bytes),
    /// Behind all row keys that begin so.
    BehindPrefix(Bytes),
}

/// A listing of one partition, evaluated where the rows are.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// Which partition.
    pub partition: PartitionId,
    /// Only row keys that begin so.
    pub prefix: Bytes,
    /// Where to begin.
    pub start: ListStart,
    /// Keys that hold it behind the prefix are rolled up.
    pub delimiter: Option<String>,
    /// At most so many entries.
    pub limit: usize,
}

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

/// An entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listed {
    /// A live row.
    Row(Scanned),
    /// At least one live row's key begins so.
    Prefix(Bytes),
}

impl Listed {
    /// The row key or the prefix.
    pub fn name(&self) -> &Bytes {
        match self {
            Listed::Row(row) => &row.key.key,
            Listed::Prefix(prefix) => prefix,
        }
    }
}

/// A page of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListPage {
    /// Sorted by name.
    pub entries: Vec<Listed>,
    /// Where to go on, if there may be more.
    pub next: Option<ListStart>,
}

//! K2V items: small values under a partition key and a sort key, with causality.
//!
//! An item is one row, a register. Its value holds the concurrent values of the item
//! ([`siblings`]). A client that inserts shows with a [`token`] which values it has seen; those are
//! replaced, and all others stay. All items of a partition key are in one of the bucket's
//! partitions, so that they can be listed there.
//!
//! # Invariants
//! - An insert never removes a value that its token does not cover.
//! - A token covers exactly the values of the version that it was given out with.
//! - Items and objects of a bucket do not meet: their row keys begin differently.
//! - A poll misses no acknowledged change ([`archipel_cluster::Watch`]).
//!
//! | module | what it holds |
//! |---|---|
//! | `siblings` | the values of an item, and what an insert makes of them; pure |
//! | `token` | causality tokens; pure |
//! | `marker` | seen markers of ranges; pure |
//! | `items` | reading, inserting and deleting single items |
//! | `polls` | polling single items |
//! | `range`, `range_poll` | reading, deleting and polling ranges of a partition key |
//! | `index` | the partition keys of a bucket, with their counts |

mod index;
mod items;
mod marker;
mod polls;
mod range;
mod range_poll;
mod siblings;
#[cfg(test)]
mod tests;
mod token;

use archipel_base::hash::placement_hash;
use archipel_cluster::Topics;
use archipel_storage::RowKey;
use bytes::Bytes;

pub use index::{Counts, Index, IndexQuery};
pub use items::{BatchError, Insert};
pub use range::{Page, Range};
pub use range_poll::Polled;

use crate::error::Error;
use crate::rowkeys;

/// The longest partition key and the longest sort key, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 512;
/// The largest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 256 << 10;
/// The largest size of all concurrent values of an item, in bytes.
pub const MAX_ITEM_BYTES: usize = 512 << 10;
/// The most concurrent values of an item. A deletion does not count, so an item that is full can be
/// deleted.
pub const MAX_ITEM_VALUES: usize = 4096;
/// The bytes that a value takes in memory besides its own.
const VALUE_OVERHEAD: usize = 32;
/// The longest bound of a range, in bytes. A bound need not be a key that an item may have.
const MAX_BOUND_BYTES: usize = 4 * MAX_KEY_BYTES;
/// The most partition keys of one page of an index.
pub const MAX_INDEX_KEYS: usize = 10_000;
/// An answer to a poll of a range ends after the item with which its values reach this size, in
/// bytes.
pub const MAX_POLLED_BYTES: usize = 4 << 20;
/// The most items of a range that is polled, tombstones included.
pub const MAX_POLLED_ITEMS: usize = 10_000;

/// The most rows that are asked for at once.
const READ_TOGETHER: usize = 1000;
/// The most items and ranges that a node reads at once for batches. Each range may take almost 1
/// MiB from each replica.
pub(crate) const BATCHED_READS: usize = 1024;

/// The name of an item within a bucket.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemName {
    /// The partition key.
    pub pk: String,
    /// The sort key.
    pub sk: String,
}

impl ItemName {
    /// Checks the two keys.
    ///
    /// # Errors
    /// [`Error::InvalidName`].
    pub fn new(pk: &str, sk: &str) -> Result<ItemName, Error> {
        check_pk(pk)?;
        check_key("sort key", sk)?;
        Ok(ItemName {
            pk: pk.to_owned(),
            sk: sk.to_owned(),
        })
    }
}

/// The values of an item, as one version has them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// The causality token that covers them.
    pub token: Bytes,
    /// The concurrent values; at least one. `None` stands for a deletion.
    pub values: Vec<Option<Bytes>>,
}

impl Item {
    /// Returns true if nothing but deletions is left of the item.
    pub fn is_tombstone(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }

    /// Returns the bytes of all values, with what each takes besides in memory.
    pub fn bytes(&self) -> usize {
        let bytes = |value: &Option<Bytes>| VALUE_OVERHEAD + value.as_ref().map_or(0, Bytes::len);
        self.values.iter().map(bytes).sum()
    }
}

fn check_pk(pk: &str) -> Result<(), Error> {
    if pk.is_empty() {
        let why = "a partition key must not be empty";
        return Err(Error::InvalidName(why.into()));
    }
    check_key("partition key", pk)
}

/// Checks the prefix, the start and the end of a range.
fn check_bounds(bounds: [&Option<String>; 3]) -> Result<(), Error> {
    let mut given = bounds.into_iter().flatten();
    if given.any(|bound| bound.len() > MAX_BOUND_BYTES) {
        let why = format!("a prefix, a start and an end have at most {MAX_BOUND_BYTES} bytes");
        return Err(Error::InvalidName(why));
    }
    Ok(())
}

fn check_key(what: &str, key: &str) -> Result<(), Error> {
    if key.len() > MAX_KEY_BYTES {
        let why = format!("a {what} has at most {MAX_KEY_BYTES} bytes");
        return Err(Error::InvalidName(why));
    }
    if key.contains('\0') {
        let why = format!("a {what} must not contain NUL");
        return Err(Error::InvalidName(why));
    }
    Ok(())
}

/// Returns the topics of a row: its partition key's, and its own.
pub fn topics(row: &RowKey) -> Option<Topics> {
    let prefix = rowkeys::item_prefix(&row.key)?;
    Some([topic_of_range(&row.key[..prefix]), topic_of_item(row)])
}

fn topic_of_range(prefix: &[u8]) -> u64 {
    placement_hash(&[b"range", prefix])
}

fn topic_of_item(row: &RowKey) -> u64 {
    placement_hash(&[b"item", &row.key])
}

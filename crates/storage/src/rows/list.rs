//! Listings: the live rows of a partition in order. Rows that share a common prefix are rolled up.
//!
//! The cost follows the number of returned entries: a common prefix is one seek, however many rows
//! share it. Only tombstones and promises are read without being returned. The query's budget
//! limits them.
//!
//! A listing **for merging** ([`ListQuery::tombstones`]) is for a coordinator that merges the
//! answers of several replicas. It contains tombstones, so that the coordinator can decide which
//! rows live. Instead of a common prefix it returns the first live row under the prefix, and the
//! tombstones before that row.
//!
//! A damaged row affects only itself. The page names it and continues after it.

use std::ops::Bound;

use archipel_base::PartitionId;
use bytes::Bytes;

use super::codec;
use super::metadata::RowMetadata;
use super::reader::PrefixRange;
use crate::engine::{Direction, Flow, ReadTxn, Result, Tree};
use crate::error::Error;
pub use versions::KeptKeys;

mod versions;

/// The default for how many rows a page may read besides those that it returns.
const DEFAULT_BUDGET: usize = 10_000;
/// The largest size of a page in bytes, roughly as sent. One entry alone may be larger. A page of
/// this size fits in one frame between nodes.
const PAGE_BYTES: usize = 768 << 10;
/// The size that an entry counts besides its key and its metadata.
const ENTRY_BYTES: usize = 128;

/// The start of a listing. Each variant holds a row key or the beginning of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListStart {
    /// Starts at this row key.
    At(Bytes),
    /// Starts just after this row key.
    After(Bytes),
    /// Starts after all row keys with this prefix. A listing continues so after a common prefix.
    AfterPrefix(Bytes),
}

/// A query for a page of a partition's rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListQuery {
    /// The partition.
    pub partition: PartitionId,
    /// Only row keys with this prefix are listed.
    pub prefix: Bytes,
    /// The start of the page.
    pub start: ListStart,
    /// Keys that contain the delimiter after the prefix are rolled up. Empty is the same as `None`.
    pub delimiter: Option<Bytes>,
    /// The largest number of entries, without tombstones.
    pub limit: usize,
    /// Lists for merging. Tombstones are included. A common prefix is replaced by its first live
    /// row, with an empty metadata, and by the tombstones before that row.
    pub tombstones: bool,
    /// The largest number of rows that may be read although they are not live.
    pub budget: usize,
    /// True if rows count whose value is [no object](RowMetadata::is_hidden). Otherwise they are
    /// listed as tombstones.
    pub hidden: bool,
    /// Lists the versions of objects instead of the rows: see [`KeptKeys`].
    pub versions: Option<KeptKeys>,
}

impl ListQuery {
    /// Asks for the first thousand live rows whose keys begin with `prefix`.
    pub fn new(partition: PartitionId, prefix: Bytes) -> ListQuery {
        ListQuery {
            partition,
            prefix,
            start: ListStart::At(Bytes::new()),
            delimiter: None,
            limit: 1000,
            tombstones: false,
            budget: DEFAULT_BUDGET,
            hidden: false,
            versions: None,
        }
    }

    /// Returns the length of the common prefix that `key` belongs to.
    pub fn group_of(&self, key: &[u8]) -> Option<usize> {
        let delimiter = self.delimiter.as_deref().filter(|d| !d.is_empty())?;
        let key = match &self.versions {
            Some(keys) => keys.object_of(key),
            None => key,
        };
        let rest = key.get(self.prefix.len()..)?;
        let mut windows = rest.windows(delimiter.len());
        let at = windows.position(|window| window == delimiter)?;
        Some(self.prefix.len() + at + delimiter.len())
    }
}

/// An entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListEntry {
    /// A row.
    Row {
        /// The row's key.
        key: Bytes,
        /// The row without its payload. Tombstones appear only if the query asks for them.
        metadata: RowMetadata,
    },
    /// The common prefix of at least one live row. It ends with the delimiter.
    Prefix(Bytes),
}

/// A page of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// The entries, sorted bytewise.
    pub entries: Vec<ListEntry>,
    /// Keys of damaged rows on this page, sorted. It is unknown if these rows are live.
    pub damaged: Vec<Bytes>,
    /// The start of the next page; `None` if nothing follows. If a page of one replica is full, an
    /// entry does follow. If the budget or the page's size is used up, it is unknown if one
    /// follows.
    pub next: Option<ListStart>,
}

/// Answers `query` from `txn`.
pub(crate) fn list(txn: &dyn ReadTxn, query: &ListQuery) -> Result<Listing> {
    let mut page = Page {
        query,
        entries: Vec::new(),
        damaged: Vec::new(),
        live: 0,
        bytes: 0,
        skipped: 0,
        next: None,
    };
    if query.limit == 0 {
        return Ok(Listing::default());
    }
    if let Some(keys) = &query.versions {
        versions::fill(txn, keys, &mut page)?;
        return Ok(page.into_listing());
    }
    let mut start = Some(query.start.clone());
    while let Some(from) = start.take() {
        let Some(range) = range_of(query, &from) else {
            break;
        };
        txn.scan(
            Tree::Rows,
            range.bounds(),
            Direction::Ascending,
            &mut |key, value| {
                let (_, row_key) = codec::split_partition(key)?;
                let step = match codec::decode_metadata(key, value) {
                    Ok(row) => page.add(row_key, row.into()),
                    Err(Error::Damaged(why)) => page.add_damaged(row_key, &why),
                    Err(error) => return Err(error),
                };
                Ok(match step {
                    Step::Continue => Flow::Continue,
                    Step::End => Flow::Stop,
                    Step::Seek(to) => {
                        start = Some(to);
                        Flow::Stop
                    }
                })
            },
        )?;
    }
    Ok(page.into_listing())
}

/// Returns the range of keys to scan; `None` if it is empty.
fn range_of(query: &ListQuery, start: &ListStart) -> Option<PrefixRange> {
    let (partition, prefix) = (query.partition, &query.prefix[..]);
    let range = match start {
        ListStart::At(key) => PrefixRange::new(partition, prefix, Bound::Included(key)),
        ListStart::After(key) => PrefixRange::new(partition, prefix, Bound::Excluded(key)),
        ListStart::AfterPrefix(group) => {
            // If no key is above the group, then nothing follows it in any partition.
            let behind = codec::successor(&codec::in_partition(partition, group))?;
            let (reached, key) = codec::split_partition(&behind).ok()?;
            if reached != partition {
                return None;
            }
            PrefixRange::new(partition, prefix, Bound::Included(key))
        }
    };
    Some(range)
}

/// The next step of a scan after a row.
enum Step {
    Continue,
    /// Continues at this start.
    Seek(ListStart),
    End,
}

/// A page that is being filled.
struct Page<'q> {
    query: &'q ListQuery,
    entries: Vec<ListEntry>,
    damaged: Vec<Bytes>,
    /// The number of entries that are not tombstones.
    live: usize,
    bytes: usize,
    skipped: usize,
    next: Option<ListStart>,
}

impl Page<'_> {
    fn add(&mut self, key: &[u8], metadata: RowMetadata) -> Step {
        let metadata = match metadata.is_hidden() && !self.query.hidden {
            true => without_value(metadata),
            false => metadata,
        };
        let shown = metadata.is_live() || (self.query.tombstones && metadata.is_written());
        if shown && self.is_full(key, &metadata) {
            self.next = Some(ListStart::At(Bytes::copy_from_slice(key)));
            return Step::End;
        }
        if !metadata.is_live() {
            if shown {
                self.push_row(key, metadata);
            }
            return self.skip(key);
        }
        self.live += 1;
        let Some(group) = self.query.group_of(key) else {
            self.push_row(key, metadata);
            return Step::Continue;
        };
        let group = Bytes::copy_from_slice(&key[..group]);
        if self.query.tombstones {
            self.push_row(key, without_content(metadata));
        } else {
            self.bytes += ENTRY_BYTES + group.len();
            self.entries.push(ListEntry::Prefix(group.clone()));
        }
        Step::Seek(ListStart::AfterPrefix(group))
    }

    fn add_damaged(&mut self, key: &[u8], why: &str) -> Step {
        let size = ENTRY_BYTES + key.len();
        if self.is_too_large(size) {
            self.next = Some(ListStart::At(Bytes::copy_from_slice(key)));
            return Step::End;
        }
        let partition = self.query.partition;
        tracing::error!(%partition, key = %key.escape_ascii(), why, "a row is damaged: the listing continues after it");
        self.bytes += size;
        self.damaged.push(Bytes::copy_from_slice(key));
        self.skip(key)
    }

    /// Returns true if the page has no room for this row.
    fn is_full(&self, key: &[u8], metadata: &RowMetadata) -> bool {
        let too_many = metadata.is_live() && self.live == self.query.limit;
        too_many || self.is_too_large(size_of_entry(key, metadata))
    }

    /// Returns true if `more` bytes would make the page too large.
    fn is_too_large(&self, more: usize) -> bool {
        let is_empty = self.entries.is_empty() && self.damaged.is_empty();
        self.bytes + more > PAGE_BYTES && !is_empty
    }

    fn push_row(&mut self, key: &[u8], metadata: RowMetadata) {
        self.bytes += size_of_entry(key, &metadata);
        let key = Bytes::copy_from_slice(key);
        self.entries.push(ListEntry::Row { key, metadata });
    }

    fn skip(&mut self, key: &[u8]) -> Step {
        self.skipped += 1;
        if self.skipped <= self.query.budget {
            return Step::Continue;
        }
        self.next = Some(ListStart::After(Bytes::copy_from_slice(key)));
        Step::End
    }

    fn into_listing(self) -> Listing {
        Listing {
            entries: self.entries,
            damaged: self.damaged,
            next: self.next,
        }
    }
}

fn size_of_entry(key: &[u8], metadata: &RowMetadata) -> usize {
    ENTRY_BYTES + key.len() + metadata.metadata.as_ref().map_or(0, Bytes::len)
}

/// Returns the row as a tombstone.
fn without_value(metadata: RowMetadata) -> RowMetadata {
    RowMetadata {
        metadata: None,
        usage: None,
        version: None,
        ..metadata
    }
}

/// Returns the row without its content. The result still shows that the row is live.
fn without_content(metadata: RowMetadata) -> RowMetadata {
    RowMetadata {
        metadata: Some(Bytes::new()),
        usage: None,
        ..metadata
    }
}

//! Listings: the live rows of a partition in order, those that share a common prefix rolled up.
//!
//! The cost is that of what is returned: a common prefix is one seek, whatever it holds. Only
//! tombstones and promises are read and passed over; how many, is bounded by the query's budget.
//!
//! A listing **for merging** ([`ListQuery::tombstones`]) is what several replicas are asked for
//! when their answers are to be merged: it shows what one needs to know to decide what lives. Of a common prefix
//! it shows the first live row instead, and the tombstones before that.

use std::ops::Bound;

use archipel_base::PartitionId;
use bytes::Bytes;

use super::codec;
use super::reader::{PrefixRange, RowHead};
use crate::engine::{Direction, Flow, ReadTxn, Result, Tree};

/// How many rows a page reads at most besides those that it returns.
const DEFAULT_BUDGET: usize = 10_000;
/// The most bytes on a page, roughly as they are sent, except where one entry alone is larger. It
/// leaves a page room in one frame between nodes.
const PAGE_BYTES: usize = 768 << 10;
/// What an entry counts besides its key and its head.
const ENTRY_BYTES: usize = 128;

/// Where a listing begins. All are row keys, or what row keys begin with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListStart {
    /// At this row key.
    At(Bytes),
    /// Just behind this row key.
    Behind(Bytes),
    /// Behind all row keys that begin so: what a common prefix is continued with.
    BehindPrefix(Bytes),
}

/// What to list of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListQuery {
    /// The partition.
    pub partition: PartitionId,
    /// Only row keys that begin so.
    pub prefix: Bytes,
    /// Where to begin.
    pub start: ListStart,
    /// Keys that hold it behind the prefix are rolled up. Empty is the same as `None`.
    pub delimiter: Option<Bytes>,
    /// At most so many entries, tombstones not counted.
    pub limit: usize,
    /// List for merging: tombstones too, and instead of a common prefix the first live row that
    /// begins so, with an empty head, and the tombstones before it.
    pub tombstones: bool,
    /// How many rows that are not live may be read.
    pub budget: usize,
}

impl ListQuery {
    /// All live rows whose keys begin with `prefix`, the first thousand.
    pub fn new(partition: PartitionId, prefix: Bytes) -> ListQuery {
        ListQuery {
            partition,
            prefix,
            start: ListStart::At(Bytes::new()),
            delimiter: None,
            limit: 1000,
            tombstones: false,
            budget: DEFAULT_BUDGET,
        }
    }
}

/// An entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListEntry {
    /// A row.
    Row {
        /// Its key.
        key: Bytes,
        /// What is known of it; a tombstone only if they were asked for.
        head: RowHead,
    },
    /// What at least one live row's key begins with; it ends with the delimiter.
    Prefix(Bytes),
}

/// A page of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// Sorted bytewise.
    pub entries: Vec<ListEntry>,
    /// Where to go on; `None` if nothing follows. With a full page of one replica something does
    /// follow; otherwise it is not known (the budget or the page's room in bytes is used up).
    pub next: Option<ListStart>,
}

/// Answers `query` from `txn`.
pub(crate) fn list(txn: &dyn ReadTxn, query: &ListQuery) -> Result<Listing> {
    let mut page = Page {
        query,
        delimiter: query.delimiter.as_deref().filter(|d| !d.is_empty()),
        entries: Vec::new(),
        live: 0,
        bytes: 0,
        passed_over: 0,
        next: None,
    };
    if query.limit == 0 {
        return Ok(Listing::default());
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
                let (_, key) = codec::split_partition(key)?;
                let head = codec::decode_head(value)?.into();
                Ok(match page.show(key, head) {
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
    Ok(Listing {
        entries: page.entries,
        next: page.next,
    })
}

/// The keys to scan; `None` if there are none.
fn range_of(query: &ListQuery, start: &ListStart) -> Option<PrefixRange> {
    let (partition, prefix) = (query.partition, &query.prefix[..]);
    let range = match start {
        ListStart::At(key) => PrefixRange::new(partition, prefix, Bound::Included(key)),
        ListStart::Behind(key) => PrefixRange::new(partition, prefix, Bound::Excluded(key)),
        ListStart::BehindPrefix(group) => {
            // Nothing above it means: nothing behind it in any partition.
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

/// What to do after a row.
enum Step {
    Continue,
    /// Go on there.
    Seek(ListStart),
    End,
}

/// A page being filled.
struct Page<'q> {
    query: &'q ListQuery,
    delimiter: Option<&'q [u8]>,
    entries: Vec<ListEntry>,
    /// How many of them are not tombstones.
    live: usize,
    bytes: usize,
    passed_over: usize,
    next: Option<ListStart>,
}

impl Page<'_> {
    fn show(&mut self, key: &[u8], head: RowHead) -> Step {
        let shown = head.is_live() || (self.query.tombstones && head.is_written());
        if shown && self.is_full(key, &head) {
            self.next = Some(ListStart::At(Bytes::copy_from_slice(key)));
            return Step::End;
        }
        if !head.is_live() {
            if shown {
                self.push_row(key, head);
            }
            return self.pass_over(key);
        }
        self.live += 1;
        let Some(group) = self.group_of(key) else {
            self.push_row(key, head);
            return Step::Continue;
        };
        let group = Bytes::copy_from_slice(&key[..group]);
        if self.query.tombstones {
            self.push_row(key, without_content(head));
        } else {
            self.bytes += ENTRY_BYTES + group.len();
            self.entries.push(ListEntry::Prefix(group.clone()));
        }
        Step::Seek(ListStart::BehindPrefix(group))
    }

    /// Whether there is no room for this row, too.
    fn is_full(&self, key: &[u8], head: &RowHead) -> bool {
        let too_many = head.is_live() && self.live == self.query.limit;
        let too_large = self.bytes + size_of_entry(key, head) > PAGE_BYTES;
        too_many || (too_large && !self.entries.is_empty())
    }

    fn push_row(&mut self, key: &[u8], head: RowHead) {
        self.bytes += size_of_entry(key, &head);
        let key = Bytes::copy_from_slice(key);
        self.entries.push(ListEntry::Row { key, head });
    }

    fn pass_over(&mut self, key: &[u8]) -> Step {
        self.passed_over += 1;
        if self.passed_over <= self.query.budget {
            return Step::Continue;
        }
        self.next = Some(ListStart::Behind(Bytes::copy_from_slice(key)));
        Step::End
    }

    /// The length of the common prefix that `key` belongs to.
    fn group_of(&self, key: &[u8]) -> Option<usize> {
        let delimiter = self.delimiter?;
        let rest = key.get(self.query.prefix.len()..)?;
        let mut windows = rest.windows(delimiter.len());
        let at = windows.position(|window| window == delimiter)?;
        Some(self.query.prefix.len() + at + delimiter.len())
    }
}

fn size_of_entry(key: &[u8], head: &RowHead) -> usize {
    ENTRY_BYTES + key.len() + head.head.as_ref().map_or(0, Bytes::len)
}

/// A live row of which only that it lives is told.
fn without_content(head: RowHead) -> RowHead {
    RowHead {
        head: Some(Bytes::new()),
        tally: None,
        ..head
    }
}

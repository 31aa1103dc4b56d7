//! Reading rows and what is derived from them, in one consistent view.

use std::borrow::Cow;
use std::ops::Bound;

use archipel_base::{Id, PartitionId, Stamp, Writer};
use bytes::Bytes;

use super::codec::{self, StoredBody, StoredRow};
use super::list::{self, ListQuery, Listing};
use super::window::{Granularity, Window};
use crate::engine::{Direction, Flow, KeyRange, MAX_KEY_BYTES, ReadTxn, Result, Tree};
use crate::error::Error;
use crate::row::{Body, Row, RowKey, Tally, Value};

/// What the model's keys in `Tree::Meta` begin with.
pub(crate) const META_PREFIX: &[u8] = b"model/";

/// A row without its body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RowHead {
    /// The highest ballot promised.
    pub promised: Stamp,
    /// The stamp of the value; [`Stamp::ZERO`] if the row was only ever promised.
    pub stamp: Stamp,
    /// The identity of the write that made the value.
    pub write: Id,
    /// The value's head; `None` for a tombstone, and for a row never written.
    pub head: Option<Bytes>,
    /// What the row adds to a counter.
    pub tally: Option<Tally>,
}

impl RowHead {
    /// Whether there is a value.
    pub fn is_live(&self) -> bool {
        self.head.is_some()
    }

    /// Whether the row was ever written: it has a value or is a tombstone.
    pub fn is_written(&self) -> bool {
        self.stamp != Stamp::ZERO
    }
}

impl From<StoredRow> for RowHead {
    fn from(row: StoredRow) -> RowHead {
        RowHead {
            promised: row.promised,
            stamp: row.stamp,
            write: row.write,
            head: row.head,
            tally: row.tally,
        }
    }
}

/// The row with an empty body: not to be written back.
impl From<RowHead> for Row {
    fn from(row: RowHead) -> Row {
        let tally = row.tally;
        Row {
            promised: row.promised,
            stamp: row.stamp,
            write: row.write,
            value: row.head.map(|head| Value {
                head,
                body: Body::Empty,
                tally,
            }),
        }
    }
}

/// What a scan of heads calls for each row: its key within the partition, and the row.
pub type HeadVisitor<'v> = dyn FnMut(&[u8], RowHead) -> Result<Flow> + 'v;

/// A consistent view of the rows.
#[derive(Clone, Copy)]
pub struct RowReader<'t> {
    txn: &'t dyn ReadTxn,
}

impl<'t> RowReader<'t> {
    /// Reads through an engine's transaction.
    pub fn new(txn: &'t dyn ReadTxn) -> RowReader<'t> {
        RowReader { txn }
    }

    pub(crate) fn txn(&self) -> &'t dyn ReadTxn {
        self.txn
    }

    /// A row with its body; `None` if it was neither written nor promised.
    pub fn row(&self, key: &RowKey) -> Result<Option<Row>> {
        let bytes = codec::row_key(key)?;
        let (mut row, at_hand) = row_at_hand(self.txn, &bytes)?;
        let value = row.as_mut().and_then(|row| row.value.as_mut());
        if let (Some(value), false) = (value, at_hand) {
            value.body = stored_body(self.txn, &bytes)?;
        }
        Ok(row)
    }

    /// A row with its body if that is at hand: empty, or short and so in the row. Tells whether it was; otherwise the body is missing.
    pub fn row_at_hand(&self, key: &RowKey) -> Result<(Option<Row>, bool)> {
        row_at_hand(self.txn, &codec::row_key(key)?)
    }

    /// A row without its body.
    pub fn head(&self, key: &RowKey) -> Result<Option<RowHead>> {
        match self.txn.get(Tree::Rows, &codec::row_key(key)?)? {
            Some(bytes) => Ok(Some(codec::decode_head(&bytes)?.into())),
            None => Ok(None),
        }
    }

    /// Shows the rows of a partition whose keys begin with `prefix`, ascending from `start`:
    /// tombstones and mere promises too.
    pub fn scan_heads(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        start: Bound<&[u8]>,
        visit: &mut HeadVisitor<'_>,
    ) -> Result<()> {
        let range = PrefixRange::new(partition, prefix, start);
        self.txn.scan(
            Tree::Rows,
            range.bounds(),
            Direction::Ascending,
            &mut |key, value| {
                let (_, key) = codec::split_partition(key)?;
                visit(key, codec::decode_head(value)?.into())
            },
        )
    }

    /// A page of a listing.
    pub fn list(&self, query: &ListQuery) -> Result<Listing> {
        list::list(self.txn, query)
    }

    /// A counter of a partition: objects, bytes.
    pub fn counter(&self, partition: PartitionId, group: Id) -> Result<(u64, u64)> {
        let key = codec::counter_key(partition, group);
        let counter = match self.txn.get(Tree::Derived, &key)? {
            Some(bytes) => codec::decode_counter(&bytes)?,
            None => codec::Counter::default(),
        };
        Ok((counter.objects, counter.bytes))
    }

    /// What is known of the windows of a partition, ascending from `first`, at most `limit`.
    /// Windows without rows are not shown.
    pub fn windows(
        &self,
        partition: PartitionId,
        granularity: Granularity,
        first: u32,
        limit: usize,
    ) -> Result<Vec<(u32, Window)>> {
        let from = codec::window_key(partition, granularity, first);
        let to = codec::window_key(partition, granularity, u32::MAX);
        let range: KeyRange<'_> = (Bound::Included(&from), Bound::Included(&to));
        let mut found = Vec::new();
        self.txn
            .scan(Tree::Derived, range, Direction::Ascending, &mut |k, v| {
                if found.len() == limit {
                    return Ok(Flow::Stop);
                }
                found.push((codec::window_number(k)?, codec::decode_window(v)?));
                Ok(Flow::Continue)
            })?;
        Ok(found)
    }

    /// The first partition, at or after this one, that has rows.
    pub fn next_partition(&self, partition: PartitionId) -> Result<Option<PartitionId>> {
        let from = codec::in_partition(partition, &[]);
        let mut found = None;
        self.txn.scan(
            Tree::Derived,
            (Bound::Included(&from), Bound::Unbounded),
            Direction::Ascending,
            &mut |key, _| {
                found = Some(codec::split_partition(key)?.0);
                Ok(Flow::Stop)
            },
        )?;
        Ok(found)
    }

    /// The change order: stamps and keys of the rows of a partition that were written behind
    /// `after` (a stamp and a key, as this call gives them) and before the millisecond
    /// `before_millis`, at most `limit`.
    pub fn log(
        &self,
        partition: PartitionId,
        after: (Stamp, &[u8]),
        before_millis: u64,
        limit: usize,
    ) -> Result<Vec<(Stamp, Bytes)>> {
        let from = codec::log_key(partition, after.0, after.1);
        let to = log_until(partition, before_millis);
        let mut found = Vec::new();
        self.txn.scan(
            Tree::Derived,
            (Bound::Excluded(&from), Bound::Excluded(&to)),
            Direction::Ascending,
            &mut |key, _| {
                if found.len() == limit {
                    return Ok(Flow::Stop);
                }
                let (_, stamp, key) = codec::split_log_key(key)?;
                found.push((stamp, Bytes::copy_from_slice(key)));
                Ok(Flow::Continue)
            },
        )?;
        Ok(found)
    }

    /// The highest stamp of a row in any partition, read at the end of each one's log.
    pub fn highest_stamp(&self) -> Result<Option<Stamp>> {
        let mut highest = None;
        let mut next = Some(PartitionId(0));
        while let Some(from) = next {
            let Some(partition) = self.next_partition(from)? else {
                break;
            };
            let (first, end) = (
                codec::in_partition(partition, &[]),
                codec::log_end(partition),
            );
            self.txn.scan(
                Tree::Derived,
                (Bound::Included(&first), Bound::Excluded(&end)),
                Direction::Descending,
                &mut |key, _| {
                    let (_, stamp, _) = codec::split_log_key(key)?;
                    highest = highest.max(Some(stamp));
                    Ok(Flow::Stop)
                },
            )?;
            next = partition.0.checked_add(1).map(PartitionId);
        }
        Ok(highest)
    }

    /// What [`log`](Self::log) gives, of one window: behind `after`, at most `limit`.
    pub fn log_of_window(
        &self,
        partition: PartitionId,
        granularity: Granularity,
        window: u32,
        after: (Stamp, &[u8]),
        limit: usize,
    ) -> Result<Vec<(Stamp, Bytes)>> {
        let (first, end) = granularity.span(window);
        // No row has an empty key, so this lies before all of the window's.
        let start = (Stamp::new(first, 0, Writer(0)), &[][..]);
        self.log(partition, after.max(start), end, limit)
    }

    /// Entries of the work queue behind the number `after`, in order, at most `limit`.
    pub fn queue(&self, after: u64, limit: usize) -> Result<Vec<(u64, Bytes)>> {
        let from = after.to_be_bytes();
        let range: KeyRange<'_> = (Bound::Excluded(&from), Bound::Unbounded);
        let mut found = Vec::new();
        self.txn
            .scan(Tree::Queue, range, Direction::Ascending, &mut |k, v| {
                if found.len() == limit {
                    return Ok(Flow::Stop);
                }
                let number = codec::decode_number(k, "a key of the queue")?;
                found.push((number, codec::decode_work(v)?));
                Ok(Flow::Continue)
            })?;
        Ok(found)
    }

    /// What was kept under a name by [`RowTxn::set_meta`](super::RowTxn::set_meta).
    pub fn meta(&self, name: &str) -> Result<Option<Bytes>> {
        let value = self.txn.get(Tree::Meta, &meta_key(name))?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }
}

/// The key of the log before which all stamps of earlier milliseconds stand.
fn log_until(partition: PartitionId, before_millis: u64) -> Vec<u8> {
    // A stamp has 48 bits of milliseconds.
    match before_millis < 1 << 48 {
        true => codec::log_key(partition, Stamp::new(before_millis, 0, Writer(0)), &[]),
        false => codec::log_end(partition),
    }
}

pub(crate) fn meta_key(name: &str) -> Vec<u8> {
    [META_PREFIX, name.as_bytes()].concat()
}

/// What `Tree::Rows` holds under an encoded key.
pub(crate) fn stored(txn: &dyn ReadTxn, key: &[u8]) -> Result<Option<StoredRow>> {
    match txn.get(Tree::Rows, key)? {
        Some(bytes) => Ok(Some(codec::decode_row(&bytes)?)),
        None => Ok(None),
    }
}

/// See [`RowReader::row_at_hand`].
fn row_at_hand(txn: &dyn ReadTxn, key: &[u8]) -> Result<(Option<Row>, bool)> {
    let Some(mut stored) = stored(txn, key)? else {
        return Ok((None, true));
    };
    let body = std::mem::take(&mut stored.body);
    let at_hand = body != StoredBody::Apart;
    let mut row = Row::from(RowHead::from(stored));
    if let (Some(value), StoredBody::Within(short)) = (&mut row.value, body) {
        value.body = Body::Inline(short);
    }
    Ok((Some(row), at_hand))
}

/// The body of a row that has one apart.
pub(crate) fn stored_body(txn: &dyn ReadTxn, key: &[u8]) -> Result<Body> {
    codec::decode_body(&stored_bytes(txn, key)?)
}

/// The same, encoded.
pub(crate) fn stored_bytes<'t>(txn: &'t dyn ReadTxn, key: &[u8]) -> Result<Cow<'t, [u8]>> {
    let without = || Error::Damaged("a row without the body it should have".into());
    txn.get(Tree::Bodies, key)?.ok_or_else(without)
}

/// The keys of a partition that begin with a prefix, from a start on.
pub(crate) struct PrefixRange {
    from: Bound<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl PrefixRange {
    /// `start` is a key within the partition; below the prefix it means the prefix.
    pub fn new(partition: PartitionId, prefix: &[u8], start: Bound<&[u8]>) -> PrefixRange {
        let first = bound(partition, prefix);
        let to = codec::successor(&first);
        let from = match start {
            Bound::Included(key) if key > prefix => Bound::Included(bound(partition, key)),
            Bound::Excluded(key) if key >= prefix => Bound::Excluded(bound(partition, key)),
            _ => Bound::Included(first),
        };
        PrefixRange { from, to }
    }

    /// As an engine takes it. Empty if the start is behind the prefix.
    pub fn bounds(&self) -> KeyRange<'_> {
        let to = self.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        (self.from.as_ref().map(Vec::as_slice), to)
    }
}

/// Engines refuse keys that are too long, and so bounds. All rows' keys are shorter than where a
/// bound is cut, so they stand on the same side of it.
fn bound(partition: PartitionId, key: &[u8]) -> Vec<u8> {
    let mut bytes = codec::in_partition(partition, key);
    bytes.truncate(MAX_KEY_BYTES);
    bytes
}

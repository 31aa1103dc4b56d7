//! Reads of rows and of derived data, in one consistent view.

use std::borrow::Cow;
use std::ops::Bound;

use archipel_base::{Id, PartitionId, Stamp, Writer};
use bytes::Bytes;

use super::codec::{self, StoredPayload, StoredRow};
use super::derived;
use super::list::{self, ListQuery, Listing};
use super::window::{Granularity, Window};
use crate::engine::{Direction, Flow, KeyRange, MAX_KEY_BYTES, ReadTxn, Result, Tree};
use crate::error::Error;
use crate::row::{Payload, Row, RowKey};
use crate::rows::metadata::RowMetadata;

/// The prefix of the model's keys in `Tree::Meta`.
pub(crate) const META_PREFIX: &[u8] = b"model/";

/// The callback of a scan of metadata. It gets each row and its key within the partition; `None` for
/// a damaged row.
pub type HeadVisitor<'v> = dyn FnMut(&[u8], Option<RowMetadata>) -> Result<Flow> + 'v;

/// A consistent view of the rows.
#[derive(Clone, Copy)]
pub struct RowReader<'t> {
    txn: &'t dyn ReadTxn,
}

impl<'t> RowReader<'t> {
    /// Makes a reader on an engine's transaction.
    pub fn new(txn: &'t dyn ReadTxn) -> RowReader<'t> {
        RowReader { txn }
    }

    pub(crate) fn txn(&self) -> &'t dyn ReadTxn {
        self.txn
    }

    /// Returns a row with its payload; `None` if it was neither written nor promised.
    pub fn row(&self, key: &RowKey) -> Result<Option<Row>> {
        let bytes = codec::row_key(key)?;
        let (mut row, at_hand) = row_at_hand(self.txn, &bytes)?;
        let row_stamp = row.as_ref().map_or(Stamp::ZERO, |row| row.stamp);
        let value = row.as_mut().and_then(|row| row.value.as_mut());
        if let (Some(value), false) = (value, at_hand) {
            value.payload = stored_payload(self.txn, &bytes, row_stamp)?;
        }
        Ok(row)
    }

    /// Returns a row, and true if its payload is complete: empty, or short and stored in the row.
    /// Otherwise the row lacks its payload.
    pub fn row_at_hand(&self, key: &RowKey) -> Result<(Option<Row>, bool)> {
        row_at_hand(self.txn, &codec::row_key(key)?)
    }

    /// Returns a row without its payload.
    pub fn metadata(&self, key: &RowKey) -> Result<Option<RowMetadata>> {
        let key = codec::row_key(key)?;
        match self.txn.get(Tree::Rows, &key)? {
            Some(bytes) => Ok(Some(codec::decode_metadata(&key, &bytes)?.into())),
            None => Ok(None),
        }
    }

    /// Visits the rows of a partition whose keys begin with `prefix`, ascending from `start`, with
    /// tombstones and mere promises. Damaged rows are visited, too, so that a visitor which counts
    /// its rows reads no more than it wants.
    pub fn scan_metadata(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        start: Bound<&[u8]>,
        visit: &mut HeadVisitor<'_>,
    ) -> Result<()> {
        let range = PrefixRange::new(partition, prefix, start);
        self.scan_heads(range.bounds(), Direction::Ascending, visit)
    }

    fn scan_heads(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut HeadVisitor<'_>,
    ) -> Result<()> {
        self.txn
            .scan(Tree::Rows, range, direction, &mut |key, value| {
                let (_, row_key) = codec::split_partition(key)?;
                match codec::decode_metadata(key, value) {
                    Ok(row) => visit(row_key, Some(row.into())),
                    Err(Error::Damaged(_)) => visit(row_key, None),
                    Err(error) => Err(error),
                }
            })
    }

    /// Visits the rows of a partition whose keys begin with `prefix` and are below `end`, descending, as
    /// [`scan_metadata`](RowReader::scan_metadata) visits them.
    pub fn scan_metadata_back(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        end: &[u8],
        visit: &mut HeadVisitor<'_>,
    ) -> Result<()> {
        let (first, end) = (bound(partition, prefix), bound(partition, end));
        let range = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
        self.scan_heads(range, Direction::Descending, visit)
    }

    /// Visits the keys of all rows of a partition, ascending, with those of damaged rows.
    pub fn scan_keys(
        &self,
        partition: PartitionId,
        visit: &mut dyn FnMut(&[u8]) -> Result<Flow>,
    ) -> Result<()> {
        let range = PrefixRange::new(partition, &[], Bound::Unbounded);
        let (bounds, direction) = (range.bounds(), Direction::Ascending);
        self.txn.scan(Tree::Rows, bounds, direction, &mut |key, _| {
            visit(codec::split_partition(key)?.1)
        })
    }

    /// Returns a page of a listing.
    pub fn list(&self, query: &ListQuery) -> Result<Listing> {
        list::list(self.txn, query)
    }

    /// Returns a counter of a partition: objects, bytes.
    pub fn counter(&self, partition: PartitionId, group: Id) -> Result<(u64, u64)> {
        let counter = derived::counter(self.txn, partition, group)?;
        Ok((counter.objects, counter.bytes))
    }

    /// Returns the windows of a partition, ascending from `first`, at most `limit`. Omits windows
    /// without rows.
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
                let number = codec::window_number(k)?;
                let window = match codec::decode_window(k, v) {
                    Err(Error::Damaged(_)) => {
                        derived::count_window(self.txn, partition, (granularity, number))?
                    }
                    window => window?,
                };
                found.push((number, window));
                Ok(Flow::Continue)
            })?;
        Ok(found)
    }

    /// Returns the first partition at or after `partition` that has rows.
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

    /// Returns a part of the change log of a partition: stamps and keys of rows, in the order of
    /// their stamps, at most `limit`. It begins after `after`, a stamp and a key as this call
    /// returns them. It ends before the millisecond `before_millis`.
    pub fn log(
        &self,
        partition: PartitionId,
        after: (Stamp, &[u8]),
        before_millis: u64,
        limit: usize,
    ) -> Result<Vec<(Stamp, Bytes)>> {
        let from = codec::log_key(partition, after.0, after.1);
        let to = codec::log_until(partition, before_millis);
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

    /// Returns the highest stamp of a row in any partition. Reads only the end of each partition's
    /// log.
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

    /// Returns the part of the [`log`](Self::log) in one window, after `after`, at most `limit`
    /// entries.
    pub fn log_of_window(
        &self,
        partition: PartitionId,
        granularity: Granularity,
        window: u32,
        after: (Stamp, &[u8]),
        limit: usize,
    ) -> Result<Vec<(Stamp, Bytes)>> {
        let (first, end) = granularity.span(window);
        // No row has an empty key, so this start is before all entries of the window.
        let start = (Stamp::new(first, 0, Writer(0)), &[][..]);
        self.log(partition, after.max(start), end, limit)
    }

    /// Returns entries of the work queue after the number `after`, in order, at most `limit`. Skips
    /// and logs damaged entries.
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
                match codec::decode_work(k, v) {
                    Ok(work) => found.push((number, work)),
                    Err(Error::Damaged(why)) => {
                        tracing::error!(number, why, "work is damaged: it is passed over");
                    }
                    Err(error) => return Err(error),
                }
                Ok(Flow::Continue)
            })?;
        Ok(found)
    }

    /// Returns the value that [`RowTxn::set_meta`](super::RowTxn::set_meta) stored under a name.
    pub fn meta(&self, name: &str) -> Result<Option<Bytes>> {
        let value = self.txn.get(Tree::Meta, &meta_key(name))?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }
}

pub(crate) fn meta_key(name: &str) -> Vec<u8> {
    [META_PREFIX, name.as_bytes()].concat()
}

/// Returns the value of `Tree::Rows` under an encoded key.
pub(crate) fn stored(txn: &dyn ReadTxn, key: &[u8]) -> Result<Option<StoredRow>> {
    match txn.get(Tree::Rows, key)? {
        Some(bytes) => Ok(Some(codec::decode_row(key, &bytes)?)),
        None => Ok(None),
    }
}

/// Reads a row as [`RowReader::row_at_hand`] does, under an encoded key.
fn row_at_hand(txn: &dyn ReadTxn, key: &[u8]) -> Result<(Option<Row>, bool)> {
    let Some(mut stored) = stored(txn, key)? else {
        return Ok((None, true));
    };
    let payload = std::mem::take(&mut stored.payload);
    let at_hand = payload != StoredPayload::Apart;
    let mut row = Row::from(RowMetadata::from(stored));
    if let (Some(value), StoredPayload::Within(short)) = (&mut row.value, payload) {
        value.payload = Payload::Inline(short);
    }
    Ok((Some(row), at_hand))
}

/// Returns the payload, stored in `Tree::Payloads`, of the row with this stamp.
pub(crate) fn stored_payload(txn: &dyn ReadTxn, key: &[u8], stamp: Stamp) -> Result<Payload> {
    codec::decode_payload_of(key, stamp, &stored_bytes(txn, key)?)
}

/// Returns the same payload, encoded.
pub(crate) fn stored_bytes<'t>(txn: &'t dyn ReadTxn, key: &[u8]) -> Result<Cow<'t, [u8]>> {
    let without = || Error::Damaged("a row whose payload is missing".into());
    txn.get(Tree::Payloads, key)?.ok_or_else(without)
}

/// The range of a partition's keys that begin with a prefix, from a start on.
pub(crate) struct PrefixRange {
    from: Bound<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl PrefixRange {
    /// Makes a range. `start` is a key within the partition. A start below the prefix means the
    /// prefix.
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

    /// Returns the bounds of the range for an engine. The range is empty if the start is after the
    /// prefix.
    pub fn bounds(&self) -> KeyRange<'_> {
        let to = self.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        (self.from.as_ref().map(Vec::as_slice), to)
    }
}

/// Returns the encoded bound, cut to the longest key that engines accept. Keys of rows are shorter
/// than the cut, so each stays on its side of the bound.
fn bound(partition: PartitionId, key: &[u8]) -> Vec<u8> {
    let mut bytes = codec::in_partition(partition, key);
    bytes.truncate(MAX_KEY_BYTES);
    bytes
}

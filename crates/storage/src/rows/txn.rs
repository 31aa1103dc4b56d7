//! Changes of rows and of all data that follow from them, in one transaction.

use archipel_base::{Id, PartitionId, Stamp};
use bytes::Bytes;

use super::codec::{self, StoredPayload, StoredRow};
use super::metadata::RowMetadata;
use super::overlay::{Changes, Overlay};
use super::reader::{self, RowReader};
use super::{derived, reader::meta_key};
use crate::blocks::Change;
use crate::engine::{Edit, ReadTxn, Result, Tree};
use crate::error::Error;
use crate::row::{BlockRef, MAX_VERSION_CHANGES, Payload, Row, RowKey};

mod damaged;
mod difference;
mod restore;

use difference::{AbsentBlocks, Difference};

/// The key in `Tree::Meta` of the number of the queue's last entry.
pub(crate) const QUEUE_LAST: &[u8] = b"queue";

/// The transaction that [`Store::transact`](crate::store::Store::transact) gives to a closure.
///
/// The closure sees its own changes. They count only if it returns `Ok`. If a change fails half way
/// (an I/O error, damage), the closure's transaction is undone even if the closure continues.
pub struct RowTxn<'t> {
    overlay: Overlay<'t>,
    references: Change,
    wiped: bool,
    context: TxnContext,
    broken: Option<Error>,
}

/// Properties of the store that a closure may ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxnContext {
    pub may_grow: bool,
    pub era: u64,
}

/// The result of a closure's transaction.
pub(crate) struct Outcome {
    pub changes: Changes,
    pub references: Change,
    /// True if the closure wiped rows.
    pub wiped: bool,
    /// The error of a change that failed half way. The changes are incomplete then.
    pub broken: Option<Error>,
}

impl<'t> RowTxn<'t> {
    pub(crate) fn new(
        below: &'t dyn ReadTxn,
        references: Change,
        context: TxnContext,
    ) -> RowTxn<'t> {
        RowTxn {
            overlay: Overlay::new(below),
            references,
            wiped: false,
            context,
            broken: None,
        }
    }

    pub(crate) fn finish(self) -> Outcome {
        Outcome {
            changes: self.overlay.into_changes(),
            references: self.references,
            wiped: self.wiped,
            broken: self.broken,
        }
    }

    /// Returns true if there is room. Otherwise only delete, or replace by something not larger.
    pub fn may_grow(&self) -> bool {
        self.context.may_grow
    }

    /// Returns the era of the store. It advances when changes of closures that had returned `Ok`
    /// are undone, and when rows are [wiped](RowTxn::forget). A closure's memory of rows, outside
    /// of the store, is valid only within one era.
    pub fn era(&self) -> u64 {
        self.context.era
    }

    /// Returns a reader of the transaction, with the closure's changes.
    pub fn reader(&self) -> RowReader<'_> {
        RowReader::new(&self.overlay)
    }

    /// Returns a row with its payload; `None` if it was neither written nor promised.
    pub fn row(&self, key: &RowKey) -> Result<Option<Row>> {
        self.reader().row(key)
    }

    /// Returns a row with its payload, for a caller that will replace it. A damaged payload counts as
    /// empty.
    pub fn row_to_replace(&self, key: &RowKey) -> Result<Option<Row>> {
        match self.row(key) {
            Err(Error::Damaged(_)) => Ok(self.metadata(key)?.map(Row::from)),
            row => row,
        }
    }

    /// Returns a row without its payload.
    pub fn metadata(&self, key: &RowKey) -> Result<Option<RowMetadata>> {
        self.reader().metadata(key)
    }

    /// Returns a counter of a partition: objects, bytes.
    pub fn counter(&self, partition: PartitionId, group: Id) -> Result<(u64, u64)> {
        self.reader().counter(partition, group)
    }

    /// Replaces a row and everything derived from it, even if the row is damaged. An empty row
    /// removes the entry.
    ///
    /// # Errors
    /// [`Error::Refused`] for an impossible row; [`Error::NoBlock`] if a block that the row refers
    /// to is not on this node. In both cases nothing has changed.
    pub fn set(&mut self, key: &RowKey, row: &Row) -> Result<()> {
        self.set_row(key, row, AbsentBlocks::Refuse)
    }

    /// Replaces a row as [`set`](RowTxn::set) does, by the content of another row of this store, which gives
    /// it up in the same transaction. Its blocks may be absent from this node: the other row referred to
    /// them already.
    pub fn take_over(&mut self, key: &RowKey, row: &Row) -> Result<()> {
        self.set_row(key, row, AbsentBlocks::Accept)
    }

    fn set_row(&mut self, key: &RowKey, row: &Row, absent: AbsentBlocks) -> Result<()> {
        let bytes = codec::row_key(key)?;
        check(row)?;
        let old = match self.old(&bytes) {
            Err(Error::Damaged(why)) => self.recover_damaged(key, &bytes, &why)?,
            old => old?,
        };
        let references = Difference::between(&old.blocks, row, absent);
        if absent == AbsentBlocks::Refuse {
            self.references.check(&self.overlay, &references.gained)?;
        }
        let done = self.replace(key, &bytes, old.row, row, references);
        let done = if old.was_damaged {
            done.and_then(|()| self.recount_partition(key.partition))
        } else {
            done
        };
        self.keep_failure(done)
    }

    /// Wipes a row, so that nothing is known of it. A new [era](RowTxn::era) begins.
    pub fn forget(&mut self, key: &RowKey) -> Result<()> {
        self.wiped = true;
        self.set(key, &Row::default())
    }

    /// Raises the ballot that a row has promised, without reading its payload. Makes the row if there
    /// is none.
    pub fn promise(&mut self, key: &RowKey, ballot: Stamp) -> Result<()> {
        let bytes = codec::row_key(key)?;
        let mut row = reader::stored(&self.overlay, &bytes)?.unwrap_or_default();
        row.promised = ballot;
        let done = self.write_row(&bytes, &row);
        self.keep_failure(done)
    }

    /// Appends to the work queue. Returns the entry's number.
    pub fn queue_push(&mut self, work: &[u8]) -> Result<u64> {
        let last = match self.overlay.get(Tree::Meta, QUEUE_LAST)? {
            Some(bytes) => codec::decode_number(&bytes, "the queue's last number")?,
            None => 0,
        };
        // The number grows by one at a time, so it never reaches 2^64.
        let number = (last + 1).to_be_bytes();
        let work = codec::encode_work(&number, work);
        let done = self
            .overlay
            .put(Tree::Meta, QUEUE_LAST, &number)
            .and_then(|()| self.overlay.put(Tree::Queue, &number, &work));
        self.keep_failure(done)?;
        Ok(last + 1)
    }

    /// Removes an entry of the work queue, if it exists.
    pub fn queue_remove(&mut self, number: u64) -> Result<()> {
        let done = self.overlay.delete(Tree::Queue, &number.to_be_bytes());
        self.keep_failure(done.map(|_| ()))
    }

    /// Returns the value that is stored under a name.
    pub fn meta(&self, name: &str) -> Result<Option<Bytes>> {
        self.reader().meta(name)
    }

    /// Stores a value under a name. `None` removes it.
    pub fn set_meta(&mut self, name: &str, value: Option<&[u8]>) -> Result<()> {
        let key = meta_key(name);
        let done = match value {
            Some(value) => self.overlay.put(Tree::Meta, &key, value),
            None => self.overlay.delete(Tree::Meta, &key).map(|_| ()),
        };
        self.keep_failure(done)
    }

    fn old(&self, key: &[u8]) -> Result<OldRow> {
        let Some(row) = reader::stored(&self.overlay, key)? else {
            return Ok(OldRow::default());
        };
        let blocks = match row.payload {
            StoredPayload::Apart => self.old_blocks(key, row.stamp)?,
            StoredPayload::Empty | StoredPayload::Within(_) => Vec::new(),
        };
        Ok(OldRow {
            row,
            blocks,
            was_damaged: false,
        })
    }

    /// Returns the blocks of the row's old payload. A damaged payload can be replaced although its blocks
    /// are unknown. Their reference counts are then too high, and a verification finds them.
    fn old_blocks(&self, key: &[u8], stamp: Stamp) -> Result<Vec<BlockRef>> {
        let blocks = reader::stored_bytes(&self.overlay, key).and_then(|payload| {
            if codec::is_inline(&payload) {
                return Ok(Vec::new());
            }
            let payload = codec::decode_payload_of(key, stamp, &payload)?;
            Ok(payload.blocks().to_vec())
        });
        match blocks {
            Err(Error::Damaged(why)) => {
                tracing::error!(
                    why,
                    "a damaged payload is replaced: its blocks stay until a verification"
                );
                Ok(Vec::new())
            }
            blocks => blocks,
        }
    }

    fn replace(
        &mut self,
        key: &RowKey,
        bytes: &[u8],
        old: StoredRow,
        row: &Row,
        references: Difference,
    ) -> Result<()> {
        for block in &references.gained {
            match references.absent {
                AbsentBlocks::Accept => self.references.retain_absent(&mut self.overlay, block)?,
                AbsentBlocks::Refuse => self.references.retain(&mut self.overlay, block)?,
            }
        }
        for block in &references.lost {
            self.references.release(&mut self.overlay, block)?;
        }
        let value = row.value.as_ref();
        let usage = value.and_then(|value| value.usage);
        derived::restamp(
            &mut self.overlay,
            key.partition,
            &key.key,
            (old.stamp, row.stamp),
        )?;
        derived::recount(&mut self.overlay, key.partition, old.usage, usage)?;
        self.write(bytes, row, &old.payload)
    }

    fn write(&mut self, key: &[u8], row: &Row, old: &StoredPayload) -> Result<()> {
        let value = row.value.as_ref();
        let payload = value.map(|value| StoredPayload::of(&value.payload));
        let stored = StoredRow {
            promised: row.promised,
            stamp: row.stamp,
            write: row.write,
            metadata: value.map(|value| value.metadata.clone()),
            usage: value.and_then(|value| value.usage),
            version: value.and_then(|value| value.version.clone()),
            payload: payload.unwrap_or_default(),
        };
        match (value, &stored.payload, old) {
            (Some(value), StoredPayload::Apart, _) => {
                self.write_payload(key, row.stamp, &value.payload)?;
            }
            (.., StoredPayload::Apart) => drop(self.overlay.delete(Tree::Payloads, key)?),
            _ => {}
        }
        self.write_row(key, &stored)
    }

    /// Writes the payload if it changed. A promise changes the row but not its payload, which may be
    /// long.
    fn write_payload(&mut self, key: &[u8], stamp: Stamp, payload: &Payload) -> Result<()> {
        match codec::encode_payload(key, stamp, payload) {
            Some(payload)
                if self.overlay.get(Tree::Payloads, key)?.as_deref() == Some(&payload) =>
            {
                Ok(())
            }
            Some(payload) => self.overlay.put(Tree::Payloads, key, &payload),
            None => Ok(()),
        }
    }

    fn write_row(&mut self, key: &[u8], row: &StoredRow) -> Result<()> {
        if *row == StoredRow::default() {
            self.overlay.delete(Tree::Rows, key).map(|_| ())
        } else {
            self.overlay
                .put(Tree::Rows, key, &codec::encode_row(key, row))
        }
    }

    /// Records that a change failed half way.
    fn keep_failure(&mut self, done: Result<()>) -> Result<()> {
        if let Err(error) = &done {
            self.broken.get_or_insert_with(|| error.clone());
        }
        done
    }
}

/// A row before its change.
#[derive(Default)]
struct OldRow {
    row: StoredRow,
    blocks: Vec<BlockRef>,
    /// True if the row was damaged, so that its share in a counter is unknown.
    was_damaged: bool,
}

/// Refuses rows that cannot exist.
fn check(row: &Row) -> Result<()> {
    let Some(value) = &row.value else {
        return Ok(());
    };
    if row.stamp == Stamp::ZERO {
        return Err(Error::Refused("a value without a stamp".into()));
    }
    if value.changes().len() > MAX_VERSION_CHANGES {
        return Err(Error::Refused("too many changes of versions".into()));
    }
    let blocks = value.payload.blocks();
    if blocks.len() > codec::MAX_BODY_BLOCKS {
        return Err(Error::Refused(format!(
            "a payload of {} blocks: at most {} are allowed",
            blocks.len(),
            codec::MAX_BODY_BLOCKS
        )));
    }
    Ok(())
}

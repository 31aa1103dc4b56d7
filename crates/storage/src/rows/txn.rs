//! Changing rows, with all that follows from it, in one transaction.

use std::collections::BTreeMap;

use archipel_base::{Id, PartitionId, Stamp};
use bytes::Bytes;

use super::codec::{self, StoredBody, StoredRow};
use super::overlay::{Changes, Overlay};
use super::reader::{self, RowHead, RowReader};
use super::{derived, reader::meta_key};
use crate::blocks::Change;
use crate::engine::{Edit, ReadTxn, Result, Tree};
use crate::error::Error;
use crate::row::{BlockRef, Body, Row, RowKey};

mod restore;

/// `Tree::Meta`: the number of the last entry of the queue.
pub(crate) const QUEUE_LAST: &[u8] = b"queue";

/// What a closure given to [`Store::transact`](crate::store::Store::transact) works with.
///
/// It sees its own changes. They count only if the closure returns `Ok`. If a change fails in the
/// middle (an I/O error, damage), the closure's transaction is undone even if it goes on.
pub struct RowTxn<'t> {
    overlay: Overlay<'t>,
    references: Change,
    gained: bool,
    forgot: bool,
    around: Around,
    broken: Option<Error>,
}

/// What a closure is told of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    pub may_grow: bool,
    pub era: u64,
}

/// What a closure leaves behind.
pub(crate) struct Outcome {
    pub changes: Changes,
    pub references: Change,
    /// Whether rows refer to blocks that they did not refer to before.
    pub gained: bool,
    /// Whether it forgot rows.
    pub forgot: bool,
    /// Set if the changes are incomplete.
    pub broken: Option<Error>,
}

impl<'t> RowTxn<'t> {
    pub(crate) fn new(below: &'t dyn ReadTxn, references: Change, around: Around) -> RowTxn<'t> {
        RowTxn {
            overlay: Overlay::new(below),
            references,
            gained: false,
            forgot: false,
            around,
            broken: None,
        }
    }

    pub(crate) fn finish(self) -> Outcome {
        Outcome {
            changes: self.overlay.into_changes(),
            references: self.references,
            gained: self.gained,
            forgot: self.forgot,
            broken: self.broken,
        }
    }

    /// Whether there is room. If not, only delete, or replace by what is not larger.
    pub fn may_grow(&self) -> bool {
        self.around.may_grow
    }

    /// How often, since the store was opened, changes of closures that had returned `Ok` were
    /// undone, or rows [forgotten](RowTxn::forget). What a closure remembers of rows outside of the store counts only while this stays the same.
    pub fn era(&self) -> u64 {
        self.around.era
    }

    /// All ways of reading.
    pub fn reader(&self) -> RowReader<'_> {
        RowReader::new(&self.overlay)
    }

    /// A row with its body; `None` if it was neither written nor promised.
    pub fn row(&self, key: &RowKey) -> Result<Option<Row>> {
        self.reader().row(key)
    }

    /// A row with its body, which is taken to be empty if it is damaged: for whoever replaces it.
    pub fn row_to_replace(&self, key: &RowKey) -> Result<Option<Row>> {
        match self.row(key) {
            Err(Error::Damaged(_)) => Ok(self.head(key)?.map(Row::from)),
            row => row,
        }
    }

    /// A row without its body.
    pub fn head(&self, key: &RowKey) -> Result<Option<RowHead>> {
        self.reader().head(key)
    }

    /// A counter of a partition: objects, bytes.
    pub fn counter(&self, partition: PartitionId, group: Id) -> Result<(u64, u64)> {
        self.reader().counter(partition, group)
    }

    /// Replaces a row, and all that follows from it. An empty row is the same as none.
    ///
    /// # Errors
    /// [`Error::Refused`] for a row that cannot be, [`Error::NoBlock`] if a block that the row
    /// refers to is not here: nothing has changed then.
    pub fn set(&mut self, key: &RowKey, row: &Row) -> Result<()> {
        let bytes = codec::row_key(key)?;
        check(row)?;
        let old = self.old(&bytes)?;
        let references = Difference::between(&old.blocks, row);
        self.references.check(&self.overlay, &references.gained)?;
        let done = self.replace(key, &bytes, old.row, row, references);
        self.note(done)
    }

    /// Removes a row as if it had never been, and as if nothing were known of it: another [era](RowTxn::era) begins.
    pub fn forget(&mut self, key: &RowKey) -> Result<()> {
        self.forgot = true;
        self.set(key, &Row::default())
    }

    /// Raises the ballot that a row has promised, without reading its body. Makes the row if
    /// there is none.
    pub fn promise(&mut self, key: &RowKey, ballot: Stamp) -> Result<()> {
        let bytes = codec::row_key(key)?;
        let mut row = reader::stored(&self.overlay, &bytes)?.unwrap_or_default();
        row.promised = ballot;
        let done = self.write_row(&bytes, &row);
        self.note(done)
    }

    /// Appends to the work queue; gives the entry's number.
    pub fn queue_push(&mut self, work: &[u8]) -> Result<u64> {
        let last = match self.overlay.get(Tree::Meta, QUEUE_LAST)? {
            Some(bytes) => codec::decode_number(&bytes, "the queue's last number")?,
            None => 0,
        };
        // One by one, 2^64 is never reached.
        let number = (last + 1).to_be_bytes();
        let work = codec::encode_work(work);
        let done = self
            .overlay
            .put(Tree::Meta, QUEUE_LAST, &number)
            .and_then(|()| self.overlay.put(Tree::Queue, &number, &work));
        self.note(done)?;
        Ok(last + 1)
    }

    /// Removes an entry of the work queue, if it is there.
    pub fn queue_remove(&mut self, number: u64) -> Result<()> {
        let done = self.overlay.delete(Tree::Queue, &number.to_be_bytes());
        self.note(done.map(|_| ()))
    }

    /// What was kept under a name.
    pub fn meta(&self, name: &str) -> Result<Option<Bytes>> {
        self.reader().meta(name)
    }

    /// Keeps something under a name; `None` removes it.
    pub fn set_meta(&mut self, name: &str, value: Option<&[u8]>) -> Result<()> {
        let key = meta_key(name);
        let done = match value {
            Some(value) => self.overlay.put(Tree::Meta, &key, value),
            None => self.overlay.delete(Tree::Meta, &key).map(|_| ()),
        };
        self.note(done)
    }

    fn old(&self, key: &[u8]) -> Result<Old> {
        let Some(row) = reader::stored(&self.overlay, key)? else {
            return Ok(Old::default());
        };
        let blocks = match row.body {
            StoredBody::Apart => self.old_blocks(key)?,
            StoredBody::Empty | StoredBody::Within(_) => Vec::new(),
        };
        Ok(Old { row, blocks })
    }

    /// What is damaged can be replaced, though nobody knows what it mentioned: a verification finds what is counted too high then.
    fn old_blocks(&self, key: &[u8]) -> Result<Vec<BlockRef>> {
        let body = reader::stored_bytes(&self.overlay, key);
        match body.and_then(|body| codec::decode_blocks(&body)) {
            Err(Error::Damaged(why)) => {
                tracing::error!(
                    why,
                    "a damaged body is replaced: its blocks stay until a verification"
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
        self.gained |= !references.gained.is_empty();
        for block in &references.gained {
            self.references.retain(&mut self.overlay, block)?;
        }
        for block in &references.lost {
            self.references.release(&mut self.overlay, block)?;
        }
        let value = row.value.as_ref();
        let tally = value.and_then(|value| value.tally);
        derived::restamp(
            &mut self.overlay,
            key.partition,
            &key.key,
            (old.stamp, row.stamp),
        )?;
        derived::recount(&mut self.overlay, key.partition, old.tally, tally)?;
        self.write(bytes, row, &old.body)
    }

    fn write(&mut self, key: &[u8], row: &Row, old: &StoredBody) -> Result<()> {
        let value = row.value.as_ref();
        let body = value.map(|value| StoredBody::of(&value.body));
        let stored = StoredRow {
            promised: row.promised,
            stamp: row.stamp,
            write: row.write,
            head: value.map(|value| value.head.clone()),
            tally: value.and_then(|value| value.tally),
            body: body.unwrap_or_default(),
        };
        match (value, &stored.body, old) {
            (Some(value), StoredBody::Apart, _) => self.write_body(key, &value.body)?,
            (.., StoredBody::Apart) => drop(self.overlay.delete(Tree::Bodies, key)?),
            _ => {}
        }
        self.write_row(key, &stored)
    }

    /// A promise changes a row and not its body, which may be long: it is not written again.
    fn write_body(&mut self, key: &[u8], body: &Body) -> Result<()> {
        match codec::encode_body(body) {
            Some(body) if self.overlay.get(Tree::Bodies, key)?.as_deref() == Some(&body) => Ok(()),
            Some(body) => self.overlay.put(Tree::Bodies, key, &body),
            None => Ok(()),
        }
    }

    fn write_row(&mut self, key: &[u8], row: &StoredRow) -> Result<()> {
        match *row == StoredRow::default() {
            true => self.overlay.delete(Tree::Rows, key).map(|_| ()),
            false => self.overlay.put(Tree::Rows, key, &codec::encode_row(row)),
        }
    }

    /// Remembers that a change failed half way.
    fn note(&mut self, done: Result<()>) -> Result<()> {
        if let Err(error) = &done {
            self.broken.get_or_insert_with(|| error.clone());
        }
        done
    }
}

/// A row before its change.
#[derive(Default)]
struct Old {
    row: StoredRow,
    blocks: Vec<BlockRef>,
}

/// Which references a row gains and loses. A block in both stays untouched.
struct Difference {
    gained: Vec<BlockRef>,
    lost: Vec<BlockRef>,
}

impl Difference {
    fn between(old: &[BlockRef], new: &Row) -> Difference {
        let new = new.value.as_ref().map_or(&[][..], |v| v.body.blocks());
        let mut mentions: BTreeMap<[u8; 32], i64> = BTreeMap::new();
        for block in old {
            *mentions.entry(block.hash.0).or_default() += 1;
        }
        let mut gained = Vec::new();
        for block in new {
            let left = mentions.entry(block.hash.0).or_default();
            *left -= 1;
            if *left < 0 {
                gained.push(*block);
            }
        }
        let mut lost = Vec::new();
        for block in old {
            let left = mentions.entry(block.hash.0).or_default();
            if *left > 0 {
                *left -= 1;
                lost.push(*block);
            }
        }
        Difference { gained, lost }
    }
}

/// Whether a row can be.
fn check(row: &Row) -> Result<()> {
    let Some(value) = &row.value else {
        return Ok(());
    };
    if row.stamp == Stamp::ZERO {
        return Err(Error::Refused("a value without a stamp".into()));
    }
    let blocks = value.body.blocks();
    if blocks.len() > codec::MAX_BODY_BLOCKS {
        return Err(Error::Refused(format!(
            "a body of {} blocks: at most {} are allowed",
            blocks.len(),
            codec::MAX_BODY_BLOCKS
        )));
    }
    Ok(())
}

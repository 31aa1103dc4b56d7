//! References, which change only in the transaction of a row.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::BlockHash;

use super::place::Entry;
use super::{Blocks, Pinned, index};
use crate::engine::{Edit, ReadTxn, Result};
use crate::error::Error;
use crate::row::BlockRef;

/// The references that one engine transaction changes.
///
/// It must live until the transaction's outcome is certain *and durable*: with
/// [`Durability::Buffered`](crate::engine::Durability::Buffered) until the next
/// [`Engine::sync`](crate::engine::Engine::sync). Dropping it is right after a durable commit and
/// after a roll back alike: what the committed index then does not name is freed. If the outcome
/// is not known (the commit returned [`Error::Failed`]) call [`abandon`](Change::abandon).
#[must_use = "dropped too early, what the transaction refers to may be freed"]
pub struct Change {
    blocks: Arc<Blocks>,
    pinned: BTreeMap<BlockHash, Pinned>,
}

impl Change {
    pub(super) fn new(blocks: Arc<Blocks>) -> Change {
        Change {
            blocks,
            pinned: BTreeMap::new(),
        }
    }

    /// Whether each of `blocks` could be retained now: [`Error::NoBlock`] names the first that
    /// could not. Changes nothing: to be asked before a row is edited.
    pub fn check(&self, txn: &dyn ReadTxn, blocks: &[BlockRef]) -> Result<()> {
        blocks
            .iter()
            .try_for_each(|block| self.find(txn, block).map(|_| ()))
    }

    /// Adds a reference. [`Error::NoBlock`] if the block is neither referred to nor uploaded.
    pub fn retain(&mut self, edit: &mut dyn Edit, block: &BlockRef) -> Result<()> {
        self.pin(&block.hash);
        let entry = self.find(edit, block)?;
        let more = Entry {
            references: entry.references + 1,
            ..entry
        };
        if entry.references == 0 {
            index::insert(edit, &block.hash, &more)
        } else {
            index::set_references(edit, &block.hash, &more)
        }
    }

    /// Takes a reference away; with the last one the block leaves the index. A block that the
    /// index does not have is logged and counted, so that a row can go that lost its blocks.
    pub fn release(&mut self, edit: &mut dyn Edit, block: &BlockRef) -> Result<()> {
        self.pin(&block.hash);
        let Some(entry) = index::entry(edit, &block.hash)? else {
            tracing::warn!(hash = %block.hash, "a row releases a block that is not in the index");
            self.blocks.counters.missing.add(1);
            return Ok(());
        };
        if entry.references > 1 {
            let less = Entry {
                references: entry.references - 1,
                ..entry
            };
            return index::set_references(edit, &block.hash, &less);
        }
        // Known to the table before the index forgets it, for those who read it now.
        self.blocks.table.publish(&block.hash, entry.located);
        index::remove(edit, &block.hash, entry.located.place)
    }

    /// The transaction is durable: what it released may go. The same as dropping it.
    pub fn settle(self) {}

    /// It is not known what became of the transaction: keeps everything until the next start.
    pub fn abandon(self) {
        self.pinned.values().for_each(Pinned::leak);
    }

    fn pin(&mut self, hash: &BlockHash) {
        let blocks = &self.blocks;
        self.pinned
            .entry(*hash)
            .or_insert_with(|| Pinned::new(blocks, *hash));
    }

    /// The block's entry; one without references if only an upload or a pin knows it.
    fn find(&self, txn: &(impl ReadTxn + ?Sized), block: &BlockRef) -> Result<Entry> {
        let entry = match index::entry(txn, &block.hash)? {
            Some(entry) => entry,
            None => self.pending(&block.hash)?,
        };
        if entry.located.len != block.len {
            let (hash, len) = (block.hash, entry.located.len);
            return Err(Error::Refused(format!(
                "block {hash} has {len} bytes, not {}",
                block.len
            )));
        }
        Ok(entry)
    }

    fn pending(&self, hash: &BlockHash) -> Result<Entry> {
        let located = self.blocks.table.place(hash);
        let located = located.ok_or_else(|| Error::NoBlock(hash.to_string()))?;
        // What lies on a disk that failed meanwhile may not be acknowledged.
        self.blocks.volume(located.place.disk)?.check()?;
        Ok(Entry {
            located,
            references: 0,
        })
    }
}

//! Changes of references. They happen only in the transaction of a row.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::BlockHash;

use super::location::{Entry, LocatedRecord};
use super::sync::Ticket;
use super::{Blocks, Pinned, index};
use crate::engine::{Edit, ReadTxn, Result};
use crate::error::Error;
use crate::row::BlockRef;

/// The references that one engine transaction changes.
///
/// Keep it until the transaction's outcome is certain *and durable*. After a
/// [`Durability::Buffered`](crate::engine::Durability::Buffered) commit this is the next
/// [`Engine::sync`](crate::engine::Engine::sync). Drop it after a durable commit or after a roll
/// back: blocks that the committed index does not name are then freed. If the outcome is unknown
/// (the commit returned [`Error::Failed`]), call [`abandon`](Change::abandon).
#[must_use = "dropped too early, what the transaction refers to may be freed"]
pub struct Change {
    blocks: Arc<Blocks>,
    pinned: BTreeMap<BlockHash, Pinned>,
    /// The tickets of retained blocks that may not be durable yet.
    tickets: Vec<Ticket>,
}

impl Change {
    pub(super) fn new(blocks: Arc<Blocks>) -> Change {
        Change {
            blocks,
            pinned: BTreeMap::new(),
            tickets: Vec::new(),
        }
    }

    /// Checks that each of `blocks` could be retained now. [`Error::NoBlock`] names the first that
    /// could not. Changes nothing: call it before a row is edited.
    pub fn check(&self, txn: &dyn ReadTxn, blocks: &[BlockRef]) -> Result<()> {
        blocks
            .iter()
            .try_for_each(|block| self.find(txn, block).map(drop))
    }

    /// Adds a reference. Returns [`Error::NoBlock`] if the block is neither referred to nor
    /// uploaded, or is on a disk that failed or is gone.
    pub fn retain(&mut self, edit: &mut dyn Edit, block: &BlockRef) -> Result<()> {
        self.pin(&block.hash);
        let (entry, ticket) = self.find(edit, block)?;
        self.tickets
            .extend(ticket.filter(|ticket| !ticket.is_done()));
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

    /// Adds a reference to a block that may be on no disk that can be used. So a row that has lost its
    /// block can move, and the index can be rebuilt. If no disk holds the block, the index says so and
    /// counts its references until a copy comes.
    pub fn retain_absent(&mut self, edit: &mut dyn Edit, block: &BlockRef) -> Result<()> {
        match self.retain(edit, block) {
            Err(Error::NoBlock(_)) => {}
            done => return done,
        }
        let entry = index::entry(edit, &block.hash)?.unwrap_or(Entry {
            located: LocatedRecord::nowhere(block),
            references: 0,
        });
        let more = Entry {
            references: entry.references + 1,
            ..entry
        };
        index::insert(edit, &block.hash, &more)
    }

    /// Puts the retained blocks on stable storage. Call it before the engine's transaction is
    /// committed, whatever the durability of the commit. It costs nothing if the uploader has
    /// synced. It blocks, but waits for no thread of the pool, so the caller may hold the engine's
    /// transaction.
    pub fn sync(&self) -> Result<()> {
        self.tickets.iter().try_for_each(Ticket::run)
    }

    /// Removes a reference. With its last reference the block leaves the index. A block that the
    /// index lacks is logged and counted, so that a row that lost its blocks can be deleted.
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
        // The pin table must know the block before the index forgets it, because readers look in
        // the index first.
        self.blocks
            .pin_table
            .publish(&block.hash, entry.located, None);
        index::remove(edit, &block.hash, entry.located.location)
    }

    /// Ends the change of a durable transaction: the blocks that it released may be freed. The same
    /// as dropping it.
    pub fn settle(self) {}

    /// Ends the change of a transaction with an unknown outcome: keeps all its blocks until the
    /// next start.
    pub fn abandon(self) {
        self.pinned.values().for_each(Pinned::leak);
    }

    fn pin(&mut self, hash: &BlockHash) {
        let blocks = &self.blocks;
        self.pinned
            .entry(*hash)
            .or_insert_with(|| Pinned::new(blocks, *hash));
    }

    /// Returns the block's entry. The entry has no references if only an upload or a pin knows the
    /// block. Also returns the ticket that makes the block durable, if it may not be durable yet.
    fn find(
        &self,
        txn: &(impl ReadTxn + ?Sized),
        block: &BlockRef,
    ) -> Result<(Entry, Option<Ticket>)> {
        let (entry, ticket) = match index::entry(txn, &block.hash)? {
            Some(entry) => (entry, None),
            None => self.pending(&block.hash)?,
        };
        // A block on a failed disk must not be acknowledged. The caller uploads it again, and it
        // goes to another disk.
        if !self.blocks.is_usable(&entry.located) {
            let (hash, disk) = (block.hash, entry.located.location.disk);
            let why = format!("{hash} is on disk {disk}, which failed or is gone");
            return Err(Error::NoBlock(why));
        }
        if entry.located.len != block.len {
            let (hash, len) = (block.hash, entry.located.len);
            return Err(Error::Refused(format!(
                "block {hash} has {len} bytes, not {}",
                block.len
            )));
        }
        Ok((entry, ticket))
    }

    fn pending(&self, hash: &BlockHash) -> Result<(Entry, Option<Ticket>)> {
        let known = self.blocks.pin_table.record(hash);
        let known = known.ok_or_else(|| Error::NoBlock(hash.to_string()))?;
        let entry = Entry {
            located: known.located,
            references: 0,
        };
        Ok((entry, known.ticket))
    }
}

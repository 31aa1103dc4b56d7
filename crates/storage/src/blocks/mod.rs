//! Blocks: content of up to 1 MiB, named by its BLAKE3 hash, in segments on one or more disks.
//!
//! # How a block lives
//! 1. An [`Upload`] appends it (or finds that it is here already) and pins its name.
//! 2. [`Upload::sync`] puts it on stable storage.
//! 3. A [`Change`] retains it in the transaction that commits the row.
//! 4. Another change releases it; once that is durable and nobody pins it, its place is freed.
//!
//! # Invariants
//! - References change only in the transaction of a row. What was committed is in the index
//!   (`Tree::Blocks`, `Tree::Places`); what is not, or no longer, but is pinned, is in the pin table.
//! - A place is freed only when nobody pins its block and the committed index does not name it. A
//!   [`Change`] pins all that it touched, so it must be kept until its outcome is *durable*.
//! - What a read returns was verified against its name.
//! - A disk whose `fdatasync` failed takes no more writes and is not asked to sync again.

use std::sync::Arc;

use archipel_base::Id;
use bytes::Bytes;

use crate::disk::Disk;
use crate::engine::{Edit, Engine, ReadTxn, Result};
use crate::pool::Pool;
use crate::row::BlockRef;

/// The longest content of a block, in bytes.
pub const MAX_BLOCK_BYTES: usize = 1 << 20;

/// How the node's last run ended, which decides what opening does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// [`Blocks::close`] was the last thing that happened: nothing to clean up.
    Clean,
    /// Anything else: what no committed row refers to is freed.
    Unclean,
    /// The index is lost: nothing is freed, so that [`Blocks::rebuild`] finds what is there.
    Rebuild,
}

/// A disk that blocks are kept on.
#[derive(Clone)]
pub struct DiskConfig {
    /// The disk's number: stands in the index, so it never changes and is never given to another disk.
    pub id: u16,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Takes no new blocks, and [`Blocks::drain_step`] empties it.
    pub draining: bool,
    /// The most bytes to use of it; all of the file system if `None`.
    pub capacity_bytes: Option<u64>,
}

/// Settings of a node's blocks.
#[derive(Clone, Debug)]
pub struct BlockOptions {
    /// Whose blocks these are: the store's identity. A disk that belongs to another store is refused.
    pub owner: Id,
    /// The size at which a segment is full, in bytes.
    pub segment_bytes: u64,
    /// How far ahead a segment's space is allocated, in bytes.
    pub preallocate_bytes: u64,
    /// Free space below which a disk takes no new blocks; `None`: 1 % of it, at least 256 MiB.
    pub reserve_bytes: Option<u64>,
    /// The zstd level for blocks that a sample shows to shrink; `None` never compresses.
    pub compression_level: Option<i32>,
}

/// A node's blocks.
pub struct Blocks {}

/// Blocks on their way in. Dropping it gives up what no committed row refers to.
pub struct Upload {}

/// Keeps blocks readable while it lives, whatever happens to the rows that referred to them.
pub struct Pin {}

/// The references that one engine transaction changes.
///
/// It must live until the transaction's outcome is certain *and durable*: with
/// [`Durability::Buffered`](crate::engine::Durability::Buffered) until the next
/// [`Engine::sync`]. Dropping it is right after a durable commit and after a roll back alike:
/// what the committed index then does not name is freed. If the outcome is not known (the commit
/// returned [`Error::Failed`](crate::Error::Failed)) call [`abandon`](Change::abandon).
#[must_use]
pub struct Change {}

impl Blocks {
    /// Opens the disks. Blocking.
    pub fn open(
        engine: Arc<dyn Engine>,
        disks: Vec<DiskConfig>,
        options: BlockOptions,
        pool: Pool,
        start: Start,
    ) -> Result<Arc<Blocks>> {
        let _ = (engine, disks, options, pool, start);
        unimplemented!()
    }

    /// Begins to write blocks.
    pub fn upload(self: &Arc<Blocks>) -> Upload {
        unimplemented!()
    }

    /// Pins blocks. Pin first, then look whether the row still refers to them.
    pub fn pin(self: &Arc<Blocks>, blocks: &[BlockRef]) -> Pin {
        let _ = blocks;
        unimplemented!()
    }

    /// Begins the changes of one engine transaction.
    pub fn change(self: &Arc<Blocks>) -> Change {
        unimplemented!()
    }

    /// The content of a block, verified.
    pub async fn read(self: &Arc<Blocks>, block: &BlockRef) -> Result<Bytes> {
        let _ = block;
        unimplemented!()
    }

    /// Finishes freeing and syncs all disks. The caller marks the store clean after this.
    pub async fn close(self: &Arc<Blocks>) -> Result<()> {
        unimplemented!()
    }
}

impl Upload {
    /// Appends a block, or pins the one that is here already. Several calls may run at once.
    pub async fn append(&self, content: Bytes) -> Result<BlockRef> {
        let _ = content;
        unimplemented!()
    }

    /// Returns once everything appended so far is on stable storage.
    pub async fn sync(&self) -> Result<()> {
        unimplemented!()
    }
}

impl Change {
    /// Whether each of `blocks` could be retained now: [`Error::NoBlock`](crate::Error::NoBlock)
    /// names the first that could not. Changes nothing: to be asked before a row is edited.
    pub fn check(&self, txn: &dyn ReadTxn, blocks: &[BlockRef]) -> Result<()> {
        let _ = (txn, blocks);
        unimplemented!()
    }

    /// Adds a reference.
    pub fn retain(&mut self, edit: &mut dyn Edit, block: &BlockRef) -> Result<()> {
        let _ = (edit, block);
        unimplemented!()
    }

    /// Takes a reference away; with the last one the block leaves the index.
    pub fn release(&mut self, edit: &mut dyn Edit, block: &BlockRef) -> Result<()> {
        let _ = (edit, block);
        unimplemented!()
    }

    /// The transaction is durable: what it released may go. The same as dropping it.
    pub fn settle(self) {}

    /// It is not known what became of the transaction: keep everything until the next start.
    pub fn abandon(self) {}
}

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

mod append;
mod change;
mod counters;
mod index;
mod place;
mod read;
mod rebuild;
mod record;
mod recover;
mod relocate;
mod scrub;
mod sweep;
mod sync;
mod table;
mod upload;
mod usage;
mod volume;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use archipel_base::{BlockHash, Id};
use bytes::Bytes;

pub use change::Change;
pub use counters::{Counter, Counters};
pub(crate) use index::{check_places, references, scan_references};
pub use place::Place;
pub use rebuild::Rebuilt;
pub use relocate::Drained;
pub use scrub::Scrubbed;
pub use upload::{Pin, Upload};
pub use volume::{DiskState, DiskStatus};

use crate::disk::Disk;
use crate::engine::{Engine, Result};
use crate::error::Error;
use crate::pool::Pool;
use crate::row::BlockRef;
use sync::Ticket;
use table::Table;
use volume::Volume;

/// The longest content of a block, in bytes.
pub const MAX_BLOCK_BYTES: usize = 1 << 20;

/// Damaged blocks that are remembered by name; the rest is only counted, and a scrub finds it again.
const MAX_DAMAGED: usize = 10_000;

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

impl Default for BlockOptions {
    fn default() -> BlockOptions {
        BlockOptions {
            owner: Id::default(),
            segment_bytes: 1 << 30,
            preallocate_bytes: 64 << 20,
            reserve_bytes: None,
            compression_level: Some(1),
        }
    }
}

/// A node's blocks.
pub struct Blocks {
    engine: Arc<dyn Engine>,
    volumes: BTreeMap<u16, Arc<Volume>>,
    compression_level: Option<i32>,
    pool: Pool,
    table: Table,
    counters: Counters,
    damaged: Mutex<BTreeMap<BlockHash, String>>,
    sweeper: Mutex<()>,
    sweep_is_due: AtomicBool,
}

/// A pin on one block.
struct Pinned {
    blocks: Arc<Blocks>,
    hash: BlockHash,
}

impl Blocks {
    /// Opens the disks, and frees what no committed row refers to unless the start is clean.
    /// Blocking.
    ///
    /// A disk that cannot be read is failed from the start; the others serve. A disk of another
    /// store, or with another number, is [`Error::Refused`].
    pub fn open(
        engine: Arc<dyn Engine>,
        disks: Vec<DiskConfig>,
        options: BlockOptions,
        pool: Pool,
        start: Start,
    ) -> Result<Arc<Blocks>> {
        let mut volumes = BTreeMap::new();
        for volume in recover::open(&*engine, disks, &options, start)? {
            if volumes.insert(volume.id, Arc::new(volume)).is_some() {
                return Err(Error::Refused("two disks have the same number".into()));
            }
        }
        Ok(Arc::new(Blocks {
            engine,
            volumes,
            compression_level: options.compression_level,
            pool,
            table: Table::default(),
            counters: Counters::default(),
            damaged: Mutex::default(),
            sweeper: Mutex::default(),
            sweep_is_due: AtomicBool::new(false),
        }))
    }

    /// Begins to write blocks.
    pub fn upload(self: &Arc<Blocks>) -> Upload {
        Upload::new(self.clone())
    }

    /// Pins blocks. Pin first, then look whether the row still refers to them: if it does, they
    /// stay readable while the pin lives.
    pub fn pin(self: &Arc<Blocks>, blocks: &[BlockRef]) -> Pin {
        Pin::new(self, blocks)
    }

    /// Begins the changes of one engine transaction.
    pub fn change(self: &Arc<Blocks>) -> Change {
        Change::new(self.clone())
    }

    /// The content of a block, verified. Its share of the memory for content is taken until the
    /// bytes are dropped, which must not wait for a client: see [`Pool::outgoing`].
    ///
    /// [`Error::NoBlock`] if it is not here, [`Error::Damaged`] if it is not what was written.
    pub async fn read(self: &Arc<Blocks>, block: &BlockRef) -> Result<Bytes> {
        let reservation = self.pool.reserve(block.len as usize).await;
        let pinned = Pinned::new(self, block.hash);
        let len = block.len;
        let job = move || pinned.blocks.load(&pinned.hash, len);
        let content = self.pool.run(job).await?;
        Ok(reservation.guard(content))
    }

    /// Puts every block appended so far on stable storage. To be called before
    /// [`Engine::sync`] when commits are buffered, so that the index never names what is not there.
    pub async fn sync(&self) -> Result<()> {
        let tickets = self.volumes.values().flat_map(|volume| {
            let dirty = volume.dirty().into_iter();
            dirty.filter_map(|segment| Ticket::of(volume, segment))
        });
        let begun: Vec<_> = tickets.map(|ticket| ticket.begin(&self.pool)).collect();
        for answer in begun {
            sync::finished(answer).await?;
        }
        Ok(())
    }

    /// Finishes freeing, syncs all disks and gives back what is allocated ahead. When this has
    /// returned and the engine is synced, the next start may be [`Start::Clean`].
    pub async fn close(self: &Arc<Blocks>) -> Result<()> {
        self.sync().await?;
        let blocks = self.clone();
        self.pool
            .run(move || {
                blocks.sweep();
                let active = |volume: &&Arc<Volume>| volume.state() != DiskState::Failed;
                blocks
                    .volumes
                    .values()
                    .filter(active)
                    .try_for_each(|volume| volume.trim())
            })
            .await
    }

    /// How the disks are. Blocking for a moment: it asks the file systems for room.
    pub fn disks(&self) -> Vec<DiskStatus> {
        self.volumes
            .values()
            .map(|volume| volume.status())
            .collect()
    }

    /// Makes a disk drain, or take blocks again.
    pub fn set_draining(&self, disk: u16, draining: bool) -> Result<()> {
        self.volume(disk)?.set_draining(draining);
        Ok(())
    }

    /// What was counted since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The threads and the memory that these blocks use.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The blocks that were found damaged and are still referred to: to be fetched from another
    /// replica, and uploaded, which heals them.
    pub fn damaged(&self) -> Vec<BlockHash> {
        self.damaged_names().keys().copied().collect()
    }

    /// How many blocks are pinned or wait to be freed.
    pub fn pinned(&self) -> usize {
        self.table.held()
    }

    fn volume(&self, disk: u16) -> Result<&Arc<Volume>> {
        let unknown = || Error::NoBlock(format!("disk {disk} is not configured"));
        self.volumes.get(&disk).ok_or_else(unknown)
    }

    fn damaged_names(&self) -> std::sync::MutexGuard<'_, BTreeMap<BlockHash, String>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unpin(self: &Arc<Blocks>, hash: &BlockHash) {
        if self.table.unpin(hash) {
            self.sweep_soon();
        }
    }
}

impl Pinned {
    fn new(blocks: &Arc<Blocks>, hash: BlockHash) -> Pinned {
        blocks.table.pin(&hash);
        Pinned {
            blocks: blocks.clone(),
            hash,
        }
    }

    /// Keeps the pin until the process ends.
    fn leak(&self) {
        self.blocks.table.pin(&self.hash);
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.blocks.unpin(&self.hash);
    }
}

#[cfg(test)]
mod tests;

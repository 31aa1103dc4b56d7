//! Blocks: content of up to 1 MiB, named by its BLAKE3 hash, in segments on one or more disks.
//!
//! # The life of a block
//! 1. An [`BlockAppender`] appends it, or finds that it exists already, and pins its name.
//! 2. [`BlockAppender::sync`] puts it on stable storage.
//! 3. A [`Change`] retains it in the transaction that commits the row. [`Change::sync`] precedes
//!    the commit.
//! 4. Another change releases it. Once that is durable and nobody pins the block, its space is
//!    freed.
//!
//! # Invariants
//! - An engine commit, buffered or not, names a record only after the record is synced on its disk.
//!   A power cut may keep any prefix of the buffered commits, and each row in that prefix must be
//!   whole.
//! - References change only in the transaction of a row. Committed references are in the index
//!   (`Tree::Blocks`, `Tree::Places`). Pinned blocks that are not yet or no longer in the index are
//!   in the pin table.
//! - A location is freed only when nobody pins its block and the committed index does not name it.
//!   A [`Change`] pins all blocks that it touched, so it must be kept until its outcome is
//!   *durable*.
//! - A read returns only content that was verified against the block's name.
//! - A disk whose `fdatasync` failed takes no more writes and is not asked to sync again.

mod append;
mod change;
mod counters;
mod index;
mod location;
mod pin_table;
mod read;
mod rebuild;
mod reclaim;
mod record;
mod recover;
mod relocate;
mod scrub;
mod startup_gc;
mod startup_gc_thread;
mod sync;
mod upload;
mod usage;
mod volume;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archipel_base::{BlockHash, Id};
use bytes::Bytes;
use parking_lot::Mutex;

pub use change::Change;
pub use counters::{Counter, Counters};
pub(crate) use index::{check_locations, references, scan_references};
pub use location::DiskLocation;
pub use rebuild::{RebuildProgress, Rebuilt};
pub use relocate::Drained;
pub use scrub::Scrubbed;
pub use upload::{BlockAppender, Pin};
pub use volume::{DiskCounts, DiskState, DiskStatus};

use crate::disk::Disk;
use crate::engine::{Engine, Result};
use crate::error::Error;
use crate::pool::{Pool, Single};
use crate::row::BlockRef;
use pin_table::PinTable;
use startup_gc_thread::StartupGcThread;
use sync::Ticket;
use volume::Volume;

/// The largest content of a block, in bytes.
pub const MAX_BLOCK_BYTES: usize = 1 << 20;

/// The number of damaged blocks that are remembered by name. Further ones are only counted, and a
/// scrub finds them again.
const MAX_DAMAGED: usize = 10_000;

/// The end of the node's last run. It decides what opening the blocks does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// The last run ended with [`Blocks::close`]: there is nothing to clean up.
    Clean,
    /// The last run ended otherwise. Blocks that no committed row refers to are freed in the
    /// background.
    Unclean,
    /// The index is lost. Nothing is freed, so that [`Blocks::rebuild`] finds all records.
    Rebuild,
}

/// The configuration of a disk for blocks.
#[derive(Clone)]
pub struct DiskConfig {
    /// The disk's number. The index contains it, so it never changes and is never given to another
    /// disk.
    pub id: u16,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// True if the disk takes no new blocks and [`Blocks::drain_step`] empties it.
    pub draining: bool,
    /// The number of bytes of the disk that may be used; the whole file system if `None`.
    pub capacity_bytes: Option<u64>,
}

impl DiskConfig {
    /// Returns the configuration of a disk that takes new blocks, up to its whole file system.
    pub fn new(id: u16, disk: Arc<dyn Disk>) -> DiskConfig {
        DiskConfig {
            id,
            disk,
            draining: false,
            capacity_bytes: None,
        }
    }
}

/// Settings of a node's blocks.
#[derive(Clone, Debug)]
pub struct BlockOptions {
    /// The identity of the store that owns the blocks. A disk of another store is refused.
    pub owner: Id,
    /// The size at which a segment is full, in bytes.
    pub segment_bytes: u64,
    /// The bytes of a segment's space that are allocated ahead.
    pub preallocate_bytes: u64,
    /// The bytes of zeros that are written ahead where records come one by one; 0 for none.
    pub zero_bytes: u64,
    /// The free space below which a disk takes no new blocks; `None`: 1 % of the disk, at least 256
    /// MiB.
    pub reserve_bytes: Option<u64>,
    /// The zstd level for blocks that compress well in a sample; `None` never compresses.
    pub compression_level: Option<i32>,
}

impl Default for BlockOptions {
    fn default() -> BlockOptions {
        BlockOptions {
            owner: Id::default(),
            segment_bytes: 1 << 30,
            preallocate_bytes: 64 << 20,
            zero_bytes: 1 << 20,
            reserve_bytes: None,
            compression_level: Some(1),
        }
    }
}

/// The blocks of a node.
pub struct Blocks {
    engine: Arc<dyn Engine>,
    volumes: BTreeMap<u16, Arc<Volume>>,
    compression_level: Option<i32>,
    pool: Pool,
    pin_table: PinTable,
    counters: Counters,
    damaged: Mutex<BTreeMap<BlockHash, String>>,
    reclaiming: Mutex<()>,
    reclaim_is_due: AtomicBool,
    startup_gc: StartupGcThread,
    /// True if a pass could not free what is dead, or what was pinned at the end.
    left_over: AtomicBool,
    /// Questions about the state of the disks.
    asking: Single,
}

/// A pin on one block.
struct Pinned {
    blocks: Arc<Blocks>,
    hash: BlockHash,
}

impl Blocks {
    /// Opens the disks. After an unclean end, the space that no committed row refers to is freed in
    /// the background; if the pool has no threads, before this returns. Blocking.
    ///
    /// A disk that cannot be read is failed from the start, and the other disks serve. A disk of
    /// another store, with another number, or with segments that the index does not know, is
    /// [`Error::Refused`].
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
        let blocks = Arc::new(Blocks {
            engine,
            volumes,
            compression_level: options.compression_level,
            pool,
            pin_table: PinTable::default(),
            counters: Counters::default(),
            damaged: Mutex::default(),
            reclaiming: Mutex::default(),
            reclaim_is_due: AtomicBool::new(false),
            startup_gc: StartupGcThread::default(),
            left_over: AtomicBool::new(false),
            asking: Single::default(),
        });
        if start == Start::Unclean {
            blocks.begin_startup_gc()?;
        }
        Ok(blocks)
    }

    /// Starts an upload of blocks.
    pub fn appender(self: &Arc<Blocks>) -> BlockAppender {
        BlockAppender::new(self.clone())
    }

    /// Pins blocks. Pin first, then check that the row still refers to them. If it does, they stay
    /// readable while the pin lives.
    pub fn pin(self: &Arc<Blocks>, blocks: &[BlockRef]) -> Pin {
        Pin::new(self, blocks)
    }

    /// Starts the changes of one engine transaction.
    pub fn change(self: &Arc<Blocks>) -> Change {
        Change::new(self.clone())
    }

    /// Returns the content of a block, verified. The bytes hold their share of the memory for
    /// content until they are dropped, so they must not wait for a client: see [`Pool::outgoing`].
    ///
    /// Returns [`Error::NoBlock`] if the block is not on this node, and [`Error::Damaged`] if its
    /// content does not match its name.
    pub async fn read(self: &Arc<Blocks>, block: &BlockRef) -> Result<Bytes> {
        let reservation = self.pool.reserve(block.len as usize).await;
        let pinned = Pinned::new(self, block.hash);
        let len = block.len;
        let job = move || pinned.blocks.load(&pinned.hash, len);
        let content = self.pool.run_read(job).await?;
        Ok(reservation.guard(content))
    }

    /// Puts all blocks that were appended so far on stable storage.
    pub async fn sync(&self) -> Result<()> {
        let tickets = self.volumes.values().flat_map(Ticket::of_all);
        let begun: Vec<_> = tickets.map(|ticket| ticket.begin(&self.pool)).collect();
        for answer in begun {
            sync::finished(answer).await?;
        }
        Ok(())
    }

    /// Frees what has died, syncs all disks, and gives back the space that is allocated ahead. Once
    /// this has returned and the engine is synced, the next start may be [`Start::Clean`] if
    /// [`startup_gc_is_done`](Blocks::startup_gc_is_done).
    pub async fn close(self: &Arc<Blocks>) -> Result<()> {
        self.startup_gc.ask_to_stop();
        self.sync().await?;
        let blocks = self.clone();
        self.pool
            .run(move || {
                blocks.startup_gc.stop();
                blocks.reclaim();
                // An upload that still runs may never be committed. Its records must not outlast the next start.
                if !blocks.pin_table.keeps_nothing() {
                    blocks.left_over.store(true, Ordering::SeqCst);
                }
                let active = |volume: &&Arc<Volume>| volume.state() != DiskState::Failed;
                blocks
                    .volumes
                    .values()
                    .filter(active)
                    .try_for_each(|volume| volume.trim())
            })
            .await
    }

    /// Returns true if no dead space is left that this process or an earlier one should have freed, as
    /// far as is known.
    pub fn startup_gc_is_done(&self) -> bool {
        self.startup_gc.is_done() && !self.left_over.load(Ordering::SeqCst)
    }

    /// Returns the number of segments that may hold dead space of an earlier process, which is being
    /// freed.
    pub fn unsearched_segments(&self) -> u64 {
        self.startup_gc.segments_left()
    }

    /// Returns the figures of the disks for which no file system is asked.
    pub fn disk_counts(&self) -> Vec<DiskCounts> {
        let volumes = self.volumes.values();
        volumes.map(|volume| volume.counts()).collect()
    }

    /// Returns the state of the disks. It asks the file systems for free space, which blocks for a
    /// moment.
    pub fn disks(&self) -> Vec<DiskStatus> {
        self.volumes
            .values()
            .map(|volume| volume.status())
            .collect()
    }

    /// Returns the state of the disks. File systems are asked on a thread of the pool, and on one
    /// at most: the next call waits while a file system hangs, so give it a time limit.
    pub async fn ask_disks(self: &Arc<Blocks>) -> Result<Vec<DiskStatus>> {
        let blocks = self.clone();
        let ask = move || Ok(blocks.disks());
        self.pool.run_single(&self.asking, ask).await
    }

    /// Returns true if the index names a block on the disk of this number. Blocks the thread.
    pub fn names_disk(&self, disk: u16) -> Result<bool> {
        Ok(index::last_of(&*self.engine.read()?, disk)?.is_some())
    }

    /// Starts or stops draining a disk.
    pub fn set_draining(&self, disk: u16, draining: bool) -> Result<()> {
        self.volume(disk)?.set_draining(draining);
        Ok(())
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the threads and the memory budget that these blocks use.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns the damaged blocks that are still referred to. They must be fetched from another
    /// replica and uploaded, which repairs them.
    pub fn damaged(&self) -> Vec<BlockHash> {
        self.damaged.lock().keys().copied().collect()
    }

    /// Returns the number of blocks that are pinned or wait to be freed.
    pub fn pinned(&self) -> usize {
        self.pin_table.held()
    }

    fn volume(&self, disk: u16) -> Result<&Arc<Volume>> {
        let unknown = || Error::NoBlock(format!("disk {disk} is not configured"));
        self.volumes.get(&disk).ok_or_else(unknown)
    }

    fn unpin(self: &Arc<Blocks>, hash: &BlockHash) {
        if self.pin_table.unpin(hash) {
            self.reclaim_soon();
        }
    }
}

impl Pinned {
    fn new(blocks: &Arc<Blocks>, hash: BlockHash) -> Pinned {
        blocks.pin_table.pin(&hash);
        Pinned {
            blocks: blocks.clone(),
            hash,
        }
    }

    /// Keeps the pin until the process ends.
    fn leak(&self) {
        self.blocks.pin_table.pin(&self.hash);
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.blocks.unpin(&self.hash);
    }
}

#[cfg(test)]
mod tests;

//! Rebuild of a lost index from the record headers in the segments.
//!
//! It has three steps, before anything is served. [`Blocks::rebuild`] enters every whole record
//! without references. The owner of the rows retains the blocks that rows refer to.
//! [`Blocks::drop_unreferenced`] removes the others. Until the last step is done, a restart must
//! begin again with [`Start::Rebuild`](super::Start::Rebuild).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::BlockHash;

use super::location::{ALIGN_BYTES, DiskLocation, Entry};
use super::record::{self, HEADER_BYTES, Header, MAGIC};
use super::startup_gc::StartupGc;
use super::volume::{DiskState, Volume};
use super::walk::Batch;
use super::{Blocks, index};
use crate::disk::PUNCH_BYTES;
use crate::engine::{Direction, Durability, Flow, Result, Tree};
use crate::error::Error;

/// The number of entries that one transaction writes.
const BATCH: usize = 1000;
/// The size of the pieces in which a segment is searched for a header, in bytes.
const SEARCH_BYTES: u64 = 1 << 20;

/// The results of a rebuild.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rebuilt {
    /// Whole records that were entered into the index.
    pub blocks: u64,
    /// Whole records of blocks that were in the index already.
    pub duplicates: u64,
    /// Headers whose content does not match, because the record is damaged or freed.
    pub broken: u64,
}

/// The progress of a rebuild. Other threads may look at it.
#[derive(Debug, Default)]
pub struct RebuildProgress {
    /// The lengths of all segments, in bytes. 0 until they are known.
    pub all_bytes: AtomicU64,
    /// Bytes of segments that were scanned.
    pub scanned_bytes: AtomicU64,
    /// References of rows that were counted.
    pub references: AtomicU64,
}

impl Blocks {
    /// Scans all segments and enters every whole record into the index, without references.
    pub async fn rebuild(self: &Arc<Blocks>, progress: &Arc<RebuildProgress>) -> Result<Rebuilt> {
        let (blocks, progress) = (self.clone(), progress.clone());
        let run = move || blocks.rebuild_blocking(&progress);
        self.pool.run(run).await
    }

    /// Removes blocks without references from the index and frees their space. It is the end of a
    /// rebuild and must not run during uploads.
    pub async fn drop_unreferenced(self: &Arc<Blocks>) -> Result<u64> {
        let blocks = self.clone();
        self.pool
            .run(move || blocks.drop_unreferenced_blocking())
            .await
    }

    fn rebuild_blocking(&self, progress: &RebuildProgress) -> Result<Rebuilt> {
        let mut scans = Vec::new();
        let readable = |volume: &&Arc<Volume>| volume.state() != DiskState::Failed;
        for volume in self.volumes.values().filter(readable) {
            for segment in volume.segments()? {
                scans.push(Scan {
                    volume,
                    length: volume.length(segment)?,
                    at: DiskLocation::first_of(volume.id, segment),
                });
            }
        }
        let all_bytes = scans.iter().map(|scan| scan.length).sum();
        progress.all_bytes.store(all_bytes, Ordering::Relaxed);
        let (mut rebuilt, mut before) = (Rebuilt::default(), 0);
        for scan in scans {
            let length = scan.length;
            self.rebuild_segment(scan, &mut rebuilt, &mut |offset| {
                let scanned = before + offset.min(length);
                progress.scanned_bytes.store(scanned, Ordering::Relaxed);
            })?;
            before += length;
            progress.scanned_bytes.store(before, Ordering::Relaxed);
        }
        self.engine.sync()?;
        Ok(rebuilt)
    }

    fn rebuild_segment(
        &self,
        mut scan: Scan<'_>,
        rebuilt: &mut Rebuilt,
        at: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(header) = scan.next() {
            at(scan.at.offset);
            if scan.is_whole(&header) {
                scan.at.offset = header.located.end();
                batch.push(header);
            } else {
                scan.at.offset += ALIGN_BYTES;
                rebuilt.broken += 1;
            }
            if batch.len() == BATCH {
                self.enter(&batch, rebuilt)?;
                batch.clear();
            }
        }
        self.enter(&batch, rebuilt)
    }

    fn enter(&self, batch: &[Header], rebuilt: &mut Rebuilt) -> Result<()> {
        let mut txn = self.engine.write()?;
        for Header { hash, located } in batch {
            if index::entry(&*txn, hash)?.is_some() {
                rebuilt.duplicates += 1;
                continue;
            }
            let entry = Entry {
                located: *located,
                references: 0,
            };
            index::insert(&mut *txn, hash, &entry)?;
            rebuilt.blocks += 1;
        }
        txn.commit(Durability::Buffered)
    }

    fn drop_unreferenced_blocking(&self) -> Result<u64> {
        let mut dropped = 0;
        let mut after = None;
        loop {
            let (unreferenced, last) = self.unreferenced(after)?;
            let mut txn = self.engine.write()?;
            for (hash, location) in &unreferenced {
                index::remove(&mut *txn, hash, *location)?;
            }
            txn.commit(Durability::Fsync)?;
            dropped += unreferenced.len() as u64;
            after = last;
            if after.is_none() {
                break;
            }
        }
        self.free_all_dead()?;
        Ok(dropped)
    }

    /// Returns a batch of blocks without references, and the position after it.
    #[allow(clippy::type_complexity, reason = "a list and a cursor, used once")]
    fn unreferenced(
        &self,
        after: Option<BlockHash>,
    ) -> Result<(Vec<(BlockHash, DiskLocation)>, Option<BlockHash>)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let mut found = Vec::new();
        let mut last = None;
        let mut seen = 0;
        let lower = after
            .as_ref()
            .map_or(Unbounded, |hash| Excluded(hash.as_bytes().as_slice()));
        let txn = self.engine.read()?;
        let direction = Direction::Ascending;
        txn.scan(
            Tree::Blocks,
            (lower, Unbounded),
            direction,
            &mut |key, value| {
                let hash = <[u8; 32]>::try_from(key)
                    .map_err(|_| Error::Damaged(format!("a block's key of {} bytes", key.len())))?;
                let (hash, entry) = (BlockHash(hash), Entry::from_bytes(value)?);
                if entry.references == 0 {
                    found.push((hash, entry.located.location));
                }
                seen += 1;
                if seen < BATCH {
                    return Ok(Flow::Continue);
                }
                last = Some(hash);
                Ok(Flow::Stop)
            },
        )?;
        Ok((found, last))
    }

    fn free_all_dead(&self) -> Result<()> {
        let mut gc = StartupGc::new(self, Batch::default());
        while gc.step(self) {}
        gc.result().map(drop)
    }
}

/// A scan of the records of a segment.
struct Scan<'a> {
    volume: &'a Volume,
    length: u64,
    at: DiskLocation,
}

impl Scan<'_> {
    /// Returns the header at the position or the next one after it, and moves the position there.
    /// Skips unreadable bytes.
    fn next(&mut self) -> Option<Header> {
        while self.at.offset + (HEADER_BYTES as u64) <= self.length {
            let mut bytes = [0; HEADER_BYTES];
            let header = match self.read(self.at.offset, &mut bytes) {
                Ok(()) => Header::from_bytes(self.at, &bytes),
                Err(error) => {
                    tracing::warn!(at = ?self.at, "{error}");
                    None
                }
            };
            let end = self.length.next_multiple_of(ALIGN_BYTES);
            if header.is_some_and(|header| header.located.end() <= end) {
                return header;
            }
            self.search(self.at.offset + ALIGN_BYTES);
        }
        None
    }

    /// Moves the position to the next magic number at or after `from`, or one piece further.
    fn search(&mut self, from: u64) {
        let len = SEARCH_BYTES.min(self.length.saturating_sub(from));
        let mut piece = vec![0; len as usize];
        let skip = match self.read(from, &mut piece) {
            Ok(()) => {
                let mut words = piece.chunks(ALIGN_BYTES as usize);
                let found = words.position(|word| word.starts_with(&MAGIC));
                found.map_or(len.max(ALIGN_BYTES), |number| number as u64 * ALIGN_BYTES)
            }
            // Skip only one sector, so that a bad one does not hide the rest of the piece.
            Err(_) => PUNCH_BYTES - from % PUNCH_BYTES,
        };
        self.at.offset = from + skip;
    }

    fn is_whole(&self, header: &Header) -> bool {
        let Header { hash, located } = header;
        let mut stored = vec![0; located.stored as usize];
        let read = self.read(located.location.offset + HEADER_BYTES as u64, &mut stored);
        read.is_ok() && record::open(hash, located, stored).is_ok()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.volume.disk.read_at(self.at.segment, offset, buffer);
        read.map_err(|e| self.volume.error("reading a segment of", &e))
    }
}

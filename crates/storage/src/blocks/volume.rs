//! One disk: its segments, the append position and what became of it.
//!
//! # Invariants
//! - One segment is appended to. Places are given out under one lock, and known to the pin table
//!   before the lock is let go; the writes themselves run side by side.
//! - A failed sync, and nothing else, makes a running disk failed; that is final.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use archipel_base::BlockHash;

use super::place::{Located, Place, record_bytes};
use super::record::Header;
use super::sync::SegmentSync;
use super::table::Table;
use super::{BlockOptions, DiskConfig};
use crate::disk::{Disk, Space};
use crate::engine::Result;
use crate::error::Error;

const MIN_RESERVE_BYTES: u64 = 256 << 20;

/// What a disk is good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskState {
    /// Takes new blocks while it has room.
    Active,
    /// Takes none; its blocks move to other disks.
    Draining,
    /// A sync failed, or it could not be opened: takes none until the node restarts.
    Failed,
}

/// How a disk is.
#[derive(Clone, Debug)]
pub struct DiskStatus {
    /// The disk's number.
    pub id: u16,
    /// What it is good for.
    pub state: DiskState,
    /// Why it failed.
    pub reason: Option<String>,
    /// Bytes that segments take.
    pub used_bytes: u64,
    /// Bytes that may still be written, beyond the reserve.
    pub free_bytes: u64,
    /// The size of the file system, or what the settings limit it to.
    pub total_bytes: u64,
    /// Calls of `fsync` and `fdatasync` since the start.
    pub fsyncs: u64,
}

pub(super) struct Volume {
    pub id: u16,
    pub disk: Arc<dyn Disk>,
    capacity: Option<u64>,
    reserve: Option<u64>,
    segment_bytes: u64,
    preallocate_bytes: u64,
    draining: AtomicBool,
    failed: OnceLock<String>,
    used: AtomicU64,
    append: Mutex<Append>,
    syncs: Mutex<HashMap<u32, Arc<SegmentSync>>>,
}

#[derive(Default)]
struct Append {
    active: Option<Active>,
    next_segment: u32,
}

/// The segment that is appended to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub segment: u32,
    /// Where the next record begins.
    pub head: u64,
    /// How far space is allocated.
    pub allocated: u64,
}

impl Volume {
    pub fn new(config: DiskConfig, options: &BlockOptions) -> Volume {
        Volume {
            id: config.id,
            disk: config.disk,
            capacity: config.capacity_bytes,
            reserve: options.reserve_bytes,
            segment_bytes: options.segment_bytes,
            preallocate_bytes: options.preallocate_bytes,
            draining: AtomicBool::new(config.draining),
            failed: OnceLock::new(),
            used: AtomicU64::new(0),
            append: Mutex::default(),
            syncs: Mutex::default(),
        }
    }

    /// Where appending goes on after a start.
    pub fn resume(&self, active: Option<Active>, next_segment: u32, used: u64) {
        let active = active.filter(|active| active.head < self.segment_bytes);
        *self.append() = Append {
            active,
            next_segment,
        };
        self.used.store(used, Ordering::Relaxed);
    }

    pub fn state(&self) -> DiskState {
        if self.failed.get().is_some() {
            DiskState::Failed
        } else if self.draining.load(Ordering::Relaxed) {
            DiskState::Draining
        } else {
            DiskState::Active
        }
    }

    pub fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// Marks the disk failed, for good.
    pub fn fail(&self, reason: String) {
        tracing::error!(
            disk = self.id,
            reason,
            "disk failed: it takes no more blocks"
        );
        // Only the first reason counts.
        let _ = self.failed.set(reason);
    }

    /// The error to answer with while the disk is failed.
    pub fn check(&self) -> Result<()> {
        match self.failed.get() {
            Some(reason) => Err(Error::Failed(format!("disk {}: {reason}", self.id))),
            None => Ok(()),
        }
    }

    pub fn status(&self) -> DiskStatus {
        let space = self.space();
        DiskStatus {
            id: self.id,
            state: self.state(),
            reason: self.failed.get().cloned(),
            used_bytes: self.used.load(Ordering::Relaxed),
            free_bytes: space.as_ref().map_or(0, |space| space.free),
            total_bytes: space.as_ref().map_or(0, |space| space.total),
            fsyncs: self.disk.fsyncs(),
        }
    }

    /// Room for blocks: what is free beyond the reserve, within the configured capacity.
    pub fn space(&self) -> Result<Space> {
        let space = self
            .disk
            .space()
            .map_err(|e| self.error("asking for room on", &e))?;
        let reserve = self
            .reserve
            .unwrap_or_else(|| MIN_RESERVE_BYTES.max(space.total / 100));
        let free = space.free.saturating_sub(reserve);
        Ok(match self.capacity {
            None => Space { free, ..space },
            Some(capacity) => Space {
                free: free.min(capacity.saturating_sub(self.used.load(Ordering::Relaxed))),
                total: capacity.min(space.total),
            },
        })
    }

    /// Writes a record; it is on stable storage after a sync of its segment. The block must be pinned.
    pub fn write(&self, table: &Table, hash: &BlockHash, content: Content<'_>) -> Result<Located> {
        self.check()?;
        let place = self.reserve(table, record_bytes(content.stored.len() as u32))?;
        let located = Located {
            place,
            stored: content.stored.len() as u32,
            len: content.len,
            compressed: content.compressed,
        };
        let header = Header {
            hash: *hash,
            located,
        };
        let parts = [&header.to_bytes(), content.stored];
        let written = self.disk.write_at(place.segment, place.offset, &parts);
        if let Err(error) = written {
            table.discard(hash, located);
            return Err(self.error("writing a block to", &error));
        }
        self.sync_of(place.segment).wrote();
        self.used
            .fetch_add(located.record_bytes(), Ordering::Relaxed);
        Ok(located)
    }

    /// Where appending goes on.
    pub fn active(&self) -> Option<Active> {
        self.append().active
    }

    /// Gives back the space that is allocated ahead.
    pub fn trim(&self) -> Result<()> {
        let mut append = self.append();
        let Some(active) = &mut append.active else {
            return Ok(());
        };
        self.cut(active)
    }

    pub fn sync_of(&self, segment: u32) -> Arc<SegmentSync> {
        let mut syncs = self.syncs.lock().unwrap_or_else(PoisonError::into_inner);
        syncs.entry(segment).or_default().clone()
    }

    /// All segments with writes that were not synced.
    pub fn dirty(&self) -> Vec<u32> {
        let syncs = self.syncs.lock().unwrap_or_else(PoisonError::into_inner);
        let dirty = syncs.iter().filter(|(_, sync)| sync.is_dirty());
        dirty.map(|(segment, _)| *segment).collect()
    }

    /// Frees a range; answers how many bytes that gave back.
    pub fn punch(&self, segment: u32, from: u64, to: u64) -> Result<u64> {
        let freed = self.freeing(segment, || {
            self.disk.punch(segment, from, to - from)?;
            self.disk.allocated(segment)
        });
        freed.map_err(|e| self.error("punching a hole on", &e))
    }

    /// Removes an empty segment; answers how many bytes that gave back.
    pub fn unlink(&self, segment: u32) -> Result<u64> {
        let freed = self.freeing(segment, || {
            self.disk.unlink(segment)?;
            Ok(0)
        });
        let freed = freed.map_err(|e| self.error("removing a segment of", &e))?;
        let mut syncs = self.syncs.lock().unwrap_or_else(PoisonError::into_inner);
        syncs.remove(&segment);
        Ok(freed)
    }

    fn freeing(&self, segment: u32, free: impl FnOnce() -> io::Result<u64>) -> io::Result<u64> {
        let before = self.disk.allocated(segment)?;
        let freed = before.saturating_sub(free()?);
        let subtract = |used: u64| Some(used.saturating_sub(freed));
        // The closure always answers, so there is no error.
        let _ = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
        Ok(freed)
    }

    pub fn error(&self, doing: &str, error: &io::Error) -> Error {
        Error::from_io(&format!("{doing} disk {}", self.id), error)
    }

    fn append(&self) -> MutexGuard<'_, Append> {
        self.append.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives out a place for a record of `bytes`, and makes it known to `table`.
    fn reserve(&self, table: &Table, bytes: u64) -> Result<Place> {
        let mut append = self.append();
        let mut active = match append.active {
            Some(active) if active.head + bytes <= self.segment_bytes.max(bytes) => active,
            full => self.next_segment(&mut append, full, table)?,
        };
        if active.head + bytes > active.allocated {
            active.allocated = self.allocate(&active, bytes)?;
        }
        let place = Place {
            disk: self.id,
            segment: active.segment,
            offset: active.head,
        };
        active.head += bytes;
        append.active = Some(active);
        table.reserve(place, active.head);
        Ok(place)
    }

    fn next_segment(
        &self,
        append: &mut Append,
        full: Option<Active>,
        table: &Table,
    ) -> Result<Active> {
        if let Some(mut full) = full {
            append.active = None;
            table.suspect(self.id, full.segment);
            self.cut(&mut full)?;
        }
        let segment = append.next_segment;
        // A number is never tried twice, in case an attempt that failed left a file.
        append.next_segment = segment.checked_add(1).ok_or_else(|| {
            Error::Failed(format!("disk {}: no segment numbers are left", self.id))
        })?;
        if let Err(error) = self.disk.create(segment) {
            if error.raw_os_error() == Some(libc::EIO) {
                // It may have been the sync of the folder.
                self.fail(format!("making segment {segment}: {error}"));
            }
            return Err(self.error("making a segment on", &error));
        }
        let active = Active {
            segment,
            head: 0,
            allocated: 0,
        };
        append.active = Some(active);
        Ok(active)
    }

    /// Allocates space ahead: syncing is several times cheaper when it need not do that. If there
    /// is no room for a whole step, what the record needs.
    fn allocate(&self, active: &Active, bytes: u64) -> Result<u64> {
        let need = active.head + bytes;
        let step = need.max((active.allocated + self.preallocate_bytes).min(self.segment_bytes));
        for end in [step, need] {
            let len = end - active.allocated.min(end);
            match self.disk.preallocate(active.segment, active.allocated, len) {
                Ok(()) => return Ok(end),
                Err(error) if error.kind() == io::ErrorKind::StorageFull && end > need => {}
                Err(error) => return Err(self.error("allocating space on", &error)),
            }
        }
        Ok(need)
    }

    /// Cuts off what was allocated ahead.
    fn cut(&self, active: &mut Active) -> Result<()> {
        let cut = self.disk.set_length(active.segment, active.head);
        cut.map_err(|e| self.error("cutting a segment of", &e))?;
        active.allocated = active.head;
        Ok(())
    }
}

/// What a record stores.
#[derive(Clone, Copy)]
pub(super) struct Content<'a> {
    pub stored: &'a [u8],
    /// The length before compression.
    pub len: u32,
    pub compressed: bool,
}

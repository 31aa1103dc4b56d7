//! One disk: its segments, the append position and what became of it.
//!
//! # Invariants
//! - A failed sync, and nothing else, makes a running disk failed; that is final.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::append::Append;
use super::sync::SegmentSync;
use super::usage::Usage;
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
    pub segment_bytes: u64,
    pub preallocate_bytes: u64,
    draining: AtomicBool,
    failed: OnceLock<String>,
    usage: Mutex<Usage>,
    pub append: Mutex<Append>,
    syncs: Mutex<BTreeMap<u32, Arc<SegmentSync>>>,
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
            usage: Mutex::default(),
            append: Mutex::default(),
            syncs: Mutex::default(),
        }
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
            used_bytes: self.used(),
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
                free: free.min(capacity.saturating_sub(self.used())),
                total: capacity.min(space.total),
            },
        })
    }

    pub fn segments(&self) -> Result<Vec<u32>> {
        let segments = self.disk.segments();
        segments.map_err(|e| self.error("listing the segments of", &e))
    }

    pub fn length(&self, segment: u32) -> Result<u64> {
        let length = self.disk.length(segment);
        length.map_err(|e| self.error("looking at a segment of", &e))
    }

    /// The length of a segment; 0 for one that is gone, as on a disk that was lost and replaced.
    pub fn length_left(&self, segment: u32) -> Result<u64> {
        match self.disk.length(segment) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            length => length.map_err(|e| self.error("looking at a segment of", &e)),
        }
    }

    fn allocated(&self, segment: u32) -> Result<u64> {
        let allocated = self.disk.allocated(segment);
        allocated.map_err(|e| self.error("looking at a segment of", &e))
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
        let before = self.allocated(segment)?;
        let punched = self.disk.punch(segment, from, to - from);
        punched.map_err(|e| self.error("punching a hole on", &e))?;
        Ok(before.saturating_sub(self.measure(segment)?))
    }

    /// Removes an empty segment; answers how many bytes that gave back.
    pub fn unlink(&self, segment: u32) -> Result<u64> {
        let before = match self.length_left(segment)? {
            0 => 0,
            _ => self.allocated(segment)?,
        };
        match self.disk.unlink(segment) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            unlinked => unlinked.map_err(|e| self.error("removing a segment of", &e))?,
        }
        self.usage().set(segment, 0);
        let mut syncs = self.syncs.lock().unwrap_or_else(PoisonError::into_inner);
        syncs.remove(&segment);
        Ok(before)
    }

    /// Asks the disk what a segment takes.
    pub fn measure(&self, segment: u32) -> Result<u64> {
        let allocated = self.allocated(segment)?;
        self.usage().set(segment, allocated);
        Ok(allocated)
    }

    fn used(&self) -> u64 {
        self.usage().total()
    }

    pub fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn error(&self, doing: &str, error: &io::Error) -> Error {
        Error::from_io(&format!("{doing} disk {}", self.id), error)
    }
}

//! One disk: its segments, its append position and its state.
//!
//! # Invariants
//! - Only a failed sync makes a running disk failed, and the failure is final.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::append::Append;
use super::sync::SegmentSync;
use super::usage::Usage;
use super::{BlockOptions, DiskConfig};
use crate::disk::{Disk, Space};
use crate::engine::Result;
use crate::error::Error;

const MIN_RESERVE_BYTES: u64 = 256 << 20;

/// The state of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskState {
    /// The disk takes new blocks while it has room.
    Active,
    /// The disk takes no new blocks. Its blocks move to other disks.
    Draining,
    /// A sync failed, or the disk could not be opened. It takes no blocks until the node restarts.
    Failed,
}

/// The figures of a disk for which its file system is not asked. So they are known while it hangs.
#[derive(Clone, Copy, Debug)]
pub struct DiskCounts {
    /// The disk's number.
    pub id: u16,
    /// The disk's state.
    pub state: DiskState,
    /// Bytes that the segments take.
    pub used_bytes: u64,
    /// Calls of `fsync` and `fdatasync` since the start.
    pub fsyncs: u64,
}

/// The status of a disk.
#[derive(Clone, Debug)]
pub struct DiskStatus {
    /// The disk's number.
    pub id: u16,
    /// The disk's state.
    pub state: DiskState,
    /// The reason of its failure.
    pub reason: Option<String>,
    /// Bytes that the segments take.
    pub used_bytes: u64,
    /// Bytes that may still be written, beyond the reserve.
    pub free_bytes: u64,
    /// The size of the file system, or the configured capacity.
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
    pub zero_bytes: u64,
    draining: AtomicBool,
    failed: OnceLock<String>,
    pub usage: Mutex<Usage>,
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
            zero_bytes: options.zero_bytes,
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

    /// Marks the disk as failed, for good.
    pub fn fail(&self, reason: String) {
        tracing::error!(
            disk = self.id,
            reason,
            "disk failed: it takes no more blocks"
        );
        // Only the first reason counts.
        let _ = self.failed.set(reason);
    }

    /// Returns the error of the disk if it is failed.
    pub fn check(&self) -> Result<()> {
        match self.failed.get() {
            Some(reason) => Err(Error::Failed(format!("disk {}: {reason}", self.id))),
            None => Ok(()),
        }
    }

    pub fn counts(&self) -> DiskCounts {
        DiskCounts {
            id: self.id,
            state: self.state(),
            used_bytes: self.used(),
            fsyncs: self.disk.fsyncs(),
        }
    }

    pub fn status(&self) -> DiskStatus {
        let (space, counts) = (self.space(), self.counts());
        DiskStatus {
            id: counts.id,
            state: counts.state,
            reason: self.failed.get().cloned(),
            used_bytes: counts.used_bytes,
            free_bytes: space.as_ref().map_or(0, |space| space.free),
            total_bytes: space.as_ref().map_or(0, |space| space.total),
            fsyncs: counts.fsyncs,
        }
    }

    /// Returns the room for blocks: free space beyond the reserve, within the configured capacity.
    pub fn space(&self) -> Result<Space> {
        let space = self
            .disk
            .space()
            .map_err(|e| self.error("reading the free space of", &e))?;
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
        length.map_err(|e| self.error("reading the size of a segment of", &e))
    }

    /// Returns the length of a segment; 0 if the segment is gone, as on a disk that was lost and
    /// replaced.
    pub fn length_if_present(&self, segment: u32) -> Result<u64> {
        match self.disk.length(segment) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            length => length.map_err(|e| self.error("reading the size of a segment of", &e)),
        }
    }

    fn allocated(&self, segment: u32) -> Result<u64> {
        let allocated = self.disk.allocated(segment);
        allocated.map_err(|e| self.error("reading the size of a segment of", &e))
    }

    pub fn sync_of(&self, segment: u32) -> Arc<SegmentSync> {
        let mut syncs = self.syncs.lock();
        syncs.entry(segment).or_default().clone()
    }

    /// Returns the segments that were written to since the start.
    pub fn syncs(&self) -> Vec<(u32, Arc<SegmentSync>)> {
        let syncs = self.syncs.lock();
        let known = syncs.iter();
        known
            .map(|(segment, sync)| (*segment, sync.clone()))
            .collect()
    }

    /// Frees ranges, each from a begin to an end. Returns how many bytes that gave back.
    pub fn punch(&self, segment: u32, ranges: &[(u64, u64)]) -> Result<u64> {
        if ranges.is_empty() {
            return Ok(0);
        }
        let before = self.allocated(segment)?;
        for (from, to) in ranges {
            let punched = self.disk.punch(segment, *from, to - from);
            punched.map_err(|e| self.error("punching a hole on", &e))?;
        }
        Ok(before.saturating_sub(self.measure(segment)?))
    }

    /// Removes an empty segment. Returns how many bytes that gave back.
    pub fn unlink(&self, segment: u32) -> Result<u64> {
        let before = match self.length_if_present(segment)? {
            0 => 0,
            _ => self.allocated(segment)?,
        };
        let sync = self.sync_of(segment);
        sync.remove(|| match self.disk.unlink(segment) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            unlinked => unlinked.map_err(|e| self.error("removing a segment of", &e)),
        })?;
        self.usage.lock().set(segment, 0);
        let mut syncs = self.syncs.lock();
        syncs.remove(&segment);
        Ok(before)
    }

    /// Asks the disk for the space that a segment takes.
    pub fn measure(&self, segment: u32) -> Result<u64> {
        let allocated = self.allocated(segment)?;
        self.usage.lock().set(segment, allocated);
        Ok(allocated)
    }

    fn used(&self) -> u64 {
        self.usage.lock().total()
    }

    pub fn error(&self, doing: &str, error: &io::Error) -> Error {
        Error::from_io(&format!("{doing} disk {}", self.id), error)
    }
}

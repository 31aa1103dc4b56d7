//! A disk in memory. On demand it loses unsynced writes, and fails.

mod segment;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use archipel_base::random::Random;
use parking_lot::{Mutex, MutexGuard};

use super::{Disk, PUNCH_BYTES, Space};
use segment::Segment;

/// The kinds of calls, for faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskOp {
    /// Listing, lengths, free space, and reading state files.
    Look,
    /// Making a segment.
    Create,
    /// Removing a segment.
    Unlink,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Syncing.
    Sync,
    /// Allocating ahead, punching, cutting.
    Allocate,
    /// Writing a state file.
    DiskContent,
}

/// A fault to inject once.
#[derive(Clone, Copy, Debug)]
pub struct DiskFault {
    /// The kind of call that fails; any if `None`.
    pub op: Option<DiskOp>,
    /// The call that fails, counted from now: 0 is the next.
    pub after: u64,
    /// The error number of the failure (`libc::EIO`, ...).
    pub errno: i32,
}

/// A disk in memory.
#[derive(Default)]
pub struct MemoryDisk(Mutex<DiskContent>);

#[derive(Default)]
struct DiskContent {
    segments: BTreeMap<u32, Segment>,
    states: BTreeMap<String, Vec<u8>>,
    capacity: Option<u64>,
    cannot_punch: bool,
    fault: Option<DiskFault>,
    calls: u64,
    fsyncs: u64,
}

impl MemoryDisk {
    /// Makes an empty disk.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// Simulates a power cut: unsynced writes are lost. With `torn`, each of their sectors survives
    /// or not by chance.
    pub fn crash(&self, torn: Option<&dyn Random>) {
        let mut state = self.0.lock();
        state.fault = None;
        for segment in state.segments.values_mut() {
            segment.crash(torn);
        }
    }

    /// Returns a new disk with this one's synced content: a backup.
    pub fn copy(&self) -> MemoryDisk {
        let state = self.0.lock();
        let copied = DiskContent {
            segments: state.segments.clone(),
            states: state.states.clone(),
            capacity: state.capacity,
            cannot_punch: state.cannot_punch,
            ..DiskContent::default()
        };
        drop(state);
        let copied = MemoryDisk(Mutex::new(copied));
        copied.crash(None);
        copied
    }

    /// Makes a later call fail. A failed write may have written its first half. Writes before a
    /// failed sync never become durable, as with a kernel that dropped the pages.
    pub fn inject(&self, fault: DiskFault) {
        self.0.lock().fault = Some(fault);
    }

    /// Removes the fault. Returns true if it had not happened yet.
    pub fn clear_fault(&self) -> bool {
        self.0.lock().fault.take().is_some()
    }

    /// Returns how many calls were made.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// Limits the space. Writes beyond it fail because the disk is full.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.lock().capacity = bytes;
    }

    /// Makes punching holes unsupported.
    pub fn forbid_punching(&self) {
        self.0.lock().cannot_punch = true;
    }

    /// Flips bits of the stored content durably, as bit rot does. Has no effect on a hole.
    pub fn flip(&self, segment: u32, offset: u64, bits: u8) {
        let mut state = self.0.lock();
        let Some(segment) = state.segments.get_mut(&segment) else {
            return;
        };
        segment.flip(offset, bits);
    }

    /// Returns the space that all segments take, in bytes.
    pub fn allocated_total(&self) -> u64 {
        self.0.lock().allocated()
    }

    fn call(&self, op: DiskOp) -> io::Result<MutexGuard<'_, DiskContent>> {
        let mut state = self.0.lock();
        match state.count(op) {
            Some(error) => Err(error),
            None => Ok(state),
        }
    }
}

impl DiskContent {
    /// Counts a call. Returns the fault if it is due.
    fn count(&mut self, op: DiskOp) -> Option<io::Error> {
        self.calls += 1;
        let fault = self.fault.as_mut()?;
        if fault.op.is_some_and(|wanted| wanted != op) {
            return None;
        }
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        let error = io::Error::from_raw_os_error(fault.errno);
        self.fault = None;
        Some(error)
    }

    fn segment(&mut self, number: u32) -> io::Result<&mut Segment> {
        self.segments
            .get_mut(&number)
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn allocated(&self) -> u64 {
        self.segments.values().map(Segment::allocated).sum()
    }

    fn check_room(&mut self, number: u32, offset: u64, len: u64) -> io::Result<()> {
        let Some(capacity) = self.capacity else {
            return Ok(());
        };
        let pages = offset / PUNCH_BYTES..(offset + len).div_ceil(PUNCH_BYTES);
        let segment = self.segment(number)?;
        let more = pages
            .filter(|page| !segment.pages.contains_key(page))
            .count() as u64;
        if self.allocated() + more * PUNCH_BYTES > capacity {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }
}

impl Disk for MemoryDisk {
    fn segments(&self) -> io::Result<Vec<u32>> {
        Ok(self.call(DiskOp::Look)?.segments.keys().copied().collect())
    }

    fn create(&self, segment: u32) -> io::Result<()> {
        let mut state = self.call(DiskOp::Create)?;
        if state.segments.contains_key(&segment) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        state.fsyncs += 1;
        state.segments.insert(segment, Segment::default());
        Ok(())
    }

    fn unlink(&self, segment: u32) -> io::Result<()> {
        let mut state = self.call(DiskOp::Unlink)?;
        state.segment(segment)?;
        state.segments.remove(&segment);
        Ok(())
    }

    fn length(&self, segment: u32) -> io::Result<u64> {
        Ok(self.call(DiskOp::Look)?.segment(segment)?.length)
    }

    fn read_at(&self, segment: u32, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.call(DiskOp::Read)?;
        state.segment(segment)?.read(offset, buffer)
    }

    fn write_at(&self, segment: u32, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut state = self.0.lock();
        let bytes = parts.concat();
        if let Some(error) = state.count(DiskOp::Write) {
            state
                .segment(segment)?
                .write(offset, &bytes[..bytes.len() / 2]);
            return Err(error);
        }
        state.check_room(segment, offset, bytes.len() as u64)?;
        state.segment(segment)?.write(offset, &bytes);
        Ok(())
    }

    fn sync(&self, segment: u32) -> io::Result<()> {
        let mut state = self.0.lock();
        state.fsyncs += 1;
        let failed = state.count(DiskOp::Sync);
        let segment = state.segment(segment)?;
        match failed {
            Some(error) => {
                segment.dirty.clear();
                Err(error)
            }
            None => {
                segment.sync();
                Ok(())
            }
        }
    }

    fn preallocate(&self, segment: u32, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.call(DiskOp::Allocate)?;
        let segment = state.segment(segment)?;
        segment.length = segment.length.max(offset + len);
        Ok(())
    }

    fn syncs_overwrites_faster(&self) -> bool {
        true
    }

    fn punch(&self, segment: u32, offset: u64, len: u64) -> io::Result<bool> {
        let mut state = self.call(DiskOp::Allocate)?;
        if state.cannot_punch {
            return Ok(false);
        }
        state.segment(segment)?.clear(offset, offset + len);
        Ok(true)
    }

    fn set_length(&self, segment: u32, len: u64) -> io::Result<()> {
        let mut state = self.call(DiskOp::Allocate)?;
        let segment = state.segment(segment)?;
        if len < segment.length {
            let end = segment.length.next_multiple_of(PUNCH_BYTES);
            segment.clear(len, end);
            segment.durable_length = segment.durable_length.min(len);
        }
        segment.length = len;
        Ok(())
    }

    fn allocated(&self, segment: u32) -> io::Result<u64> {
        Ok(self.call(DiskOp::Look)?.segment(segment)?.allocated())
    }

    fn space(&self) -> io::Result<Space> {
        let state = self.call(DiskOp::Look)?;
        let total = state.capacity.unwrap_or(1 << 40);
        Ok(Space {
            free: total.saturating_sub(state.allocated()),
            total,
        })
    }

    fn read_state(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.call(DiskOp::Look)?.states.get(name).cloned())
    }

    fn write_state(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut state = self.call(DiskOp::DiskContent)?;
        state.fsyncs += 2;
        state.states.insert(name.to_owned(), content.to_vec());
        Ok(())
    }

    fn fsyncs(&self) -> u64 {
        self.0.lock().fsyncs
    }
}

//! Disks: the only code that accesses files for blocks.
//!
//! | disk | for |
//! |---|---|
//! | [`FileDisk`] | a folder on a file system |
//! | [`MemoryDisk`] | tests and simulation: loses unsynced writes, and fails, on demand |
//!
//! [`Scratch`] is no disk: its content is lost when the process ends.
//!
//! # Invariants
//! - Writes are on stable storage once a [`Disk::sync`] that began later has returned.
//! - After a failed sync the state of all earlier writes is unknown. The caller must treat the disk
//!   as failed and not sync again, because the kernel forgets the error and the pages.

mod calls;
mod file;
mod memory;
mod scratch;

use std::io;
use std::ops::Range;

pub use file::FileDisk;
pub use memory::{DiskFault, DiskOp, MemoryDisk};
pub use scratch::{Scratch, ScratchFile};

/// The unit in which space is freed, in bytes. Ranges to punch are rounded inwards to it.
pub const PUNCH_BYTES: u64 = 4096;

/// The space of a disk, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes that may still be written.
    pub free: u64,
    /// The size of the file system.
    pub total: u64,
}

/// A disk: a folder of numbered segment files and a few small state files. All calls may block.
///
/// The disk repeats short reads and writes and interrupted calls.
pub trait Disk: Send + Sync {
    /// Returns the numbers of all segments, ascending.
    fn segments(&self) -> io::Result<Vec<u32>>;

    /// Makes an empty segment whose name survives a power cut. Fails if the segment exists.
    fn create(&self, segment: u32) -> io::Result<()>;

    /// Removes a segment.
    fn unlink(&self, segment: u32) -> io::Result<()>;

    /// Returns the length of a segment in bytes, with the space that is allocated ahead.
    fn length(&self, segment: u32) -> io::Result<u64>;

    /// Fills `buffer` from `offset`; `UnexpectedEof` if the segment ends before that.
    fn read_at(&self, segment: u32, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes `parts`, one after the other, at `offset`.
    fn write_at(&self, segment: u32, offset: u64, parts: &[&[u8]]) -> io::Result<()>;

    /// Puts all writes to the segment on stable storage (`fdatasync`).
    fn sync(&self, segment: u32) -> io::Result<()>;

    /// Allocates space and extends the segment. Does nothing if the disk does not support it.
    fn preallocate(&self, segment: u32, offset: u64, len: u64) -> io::Result<()>;

    /// Returns true if a sync of what is written over zeros costs less than one of what is written
    /// into space that is only allocated.
    fn syncs_overwrites_faster(&self) -> bool;

    /// Frees the space of a range, which then reads as zeros. Returns false if the disk does not
    /// support it.
    fn punch(&self, segment: u32, offset: u64, len: u64) -> io::Result<bool>;

    /// Cuts the segment to `len` bytes, or extends it by zeros.
    fn set_length(&self, segment: u32, len: u64) -> io::Result<()>;

    /// Returns the space that a segment takes, in bytes.
    fn allocated(&self, segment: u32) -> io::Result<u64>;

    /// Returns the space of the disk.
    fn space(&self) -> io::Result<Space>;

    /// Returns the content of a small state file, if it exists.
    fn read_state(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Replaces a small state file, atomically and durably.
    fn write_state(&self, name: &str, content: &[u8]) -> io::Result<()>;

    /// Returns the number of calls of `fsync` and `fdatasync`.
    fn fsyncs(&self) -> u64;
}

/// Writes zeros to a range of a segment.
pub(crate) fn write_zeros(disk: &dyn Disk, segment: u32, range: Range<u64>) -> io::Result<()> {
    const ZEROS: &[u8] = &[0; 64 << 10];
    let mut at = range.start;
    while at < range.end {
        let step = (range.end - at).min(ZEROS.len() as u64);
        disk.write_at(segment, at, &[&ZEROS[..step as usize]])?;
        at += step;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

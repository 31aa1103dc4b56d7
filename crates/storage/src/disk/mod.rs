//! Disks: the only place with files for blocks.
//!
//! | disk | for |
//! |---|---|
//! | [`FileDisk`] | a folder on a file system |
//! | [`MemoryDisk`] | tests and simulation: loses what was not synced, and fails on demand |
//!
//! [`Scratch`] is no disk: what is in it is gone with the process.
//!
//! # Invariants
//! - What was written is on stable storage once a [`Disk::sync`] that began later returned.
//! - After a failed sync nothing is known of what was written before: the caller must treat the
//!   disk as failed and not sync again (the kernel forgets the error, and the pages).

mod file;
mod memory;
mod scratch;

use std::io;

pub use file::FileDisk;
pub use memory::{DiskFault, DiskOp, MemoryDisk};
pub use scratch::{Scratch, ScratchFile};

/// The unit in which space is freed, in bytes: ranges to punch are rounded inwards to it.
pub const PUNCH_BYTES: u64 = 4096;

/// Room on a disk, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// What a write may still use.
    pub free: u64,
    /// The size of the file system.
    pub total: u64,
}

/// A folder of numbered segment files and a few small state files. All calls may block.
///
/// Short reads and writes and interrupted calls are the disk's to repeat.
pub trait Disk: Send + Sync {
    /// The numbers of all segments, ascending.
    fn segments(&self) -> io::Result<Vec<u32>>;

    /// Makes an empty segment whose name survives a power cut. It is an error if it exists.
    fn create(&self, segment: u32) -> io::Result<()>;

    /// Removes a segment.
    fn unlink(&self, segment: u32) -> io::Result<()>;

    /// The length of a segment in bytes, with what is allocated ahead.
    fn length(&self, segment: u32) -> io::Result<u64>;

    /// Fills `buffer` from `offset`; `UnexpectedEof` if the segment ends before that.
    fn read_at(&self, segment: u32, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes `parts`, one after the other, at `offset`.
    fn write_at(&self, segment: u32, offset: u64, parts: &[&[u8]]) -> io::Result<()>;

    /// Puts all that was written to the segment on stable storage (`fdatasync`).
    fn sync(&self, segment: u32) -> io::Result<()>;

    /// Allocates space and extends the segment. A disk that cannot does nothing.
    fn preallocate(&self, segment: u32, offset: u64, len: u64) -> io::Result<()>;

    /// Frees the space of a range, which reads as zeros afterwards. `false` if the disk cannot.
    fn punch(&self, segment: u32, offset: u64, len: u64) -> io::Result<bool>;

    /// Cuts the segment to `len` bytes, or extends it by zeros.
    fn set_length(&self, segment: u32, len: u64) -> io::Result<()>;

    /// The space that a segment takes, in bytes.
    fn allocated(&self, segment: u32) -> io::Result<u64>;

    /// Room on the disk.
    fn space(&self) -> io::Result<Space>;

    /// The content of a small state file, if it exists.
    fn read_state(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Replaces a small state file, atomically and durably.
    fn write_state(&self, name: &str, content: &[u8]) -> io::Result<()>;

    /// How many calls of `fsync` and `fdatasync` the disk has made.
    fn fsyncs(&self) -> u64;
}

#[cfg(test)]
mod tests;

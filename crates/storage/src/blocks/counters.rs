//! Counters of a node's blocks, for metrics and tests.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The events since the start. The disks themselves count calls of `fsync`: see
/// [`DiskStatus::fsyncs`](super::DiskStatus).
#[derive(Debug, Default)]
pub struct Counters {
    /// Blocks appended.
    pub appended: Counter,
    /// Bytes of content appended, before compression.
    pub content_bytes: Counter,
    /// Bytes of records written, with headers.
    pub written_bytes: Counter,
    /// Blocks that were not written because they existed already.
    pub deduplicated: Counter,
    /// Bytes that compression saved.
    pub saved_bytes: Counter,
    /// Blocks read and verified.
    pub read: Counter,
    /// Bytes of records read.
    pub read_bytes: Counter,
    /// Times a block was found damaged or unreadable.
    pub damaged: Counter,
    /// Damaged blocks that were replaced by a good copy.
    pub repaired: Counter,
    /// Blocks freed.
    pub freed: Counter,
    /// Bytes of disk given back by punching holes and removing segments.
    pub punched_bytes: Counter,
    /// References that were released to blocks that the index lacks: a sign of a lost index.
    pub missing: Counter,
    /// Failed attempts to free space. The next unclean start frees that space.
    pub free_errors: Counter,
}

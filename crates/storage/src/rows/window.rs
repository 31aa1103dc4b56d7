//! Windows: rows grouped by the time of their stamp, and a digest of each group.
//!
//! Two replicas with equal digests of a window hold the same keys under the same stamps there.
//! If the digests differ, the replicas compare stamps (see
//! [`RowReader::log`](super::RowReader::log)).

use archipel_base::Stamp;

/// The length of a window. A longer window consists of whole shorter ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Granularity {
    /// One hour.
    Hour = 0,
    /// 24 hours, from midnight UTC.
    Day = 1,
    /// 30 days, counted from 1970-01-01.
    Month = 2,
}

impl Granularity {
    /// All granularities, shortest first.
    pub const ALL: [Granularity; 3] = [Granularity::Hour, Granularity::Day, Granularity::Month];

    /// Returns the length of a window in milliseconds.
    pub fn millis(self) -> u64 {
        const HOUR: u64 = 3_600_000;
        match self {
            Granularity::Hour => HOUR,
            Granularity::Day => 24 * HOUR,
            Granularity::Month => 30 * 24 * HOUR,
        }
    }

    /// Returns the number of the window that contains `stamp`.
    pub fn window_of(self, stamp: Stamp) -> u32 {
        // The cast is lossless: 48 bits of milliseconds are fewer than 2^27 hours.
        (stamp.millis() / self.millis()) as u32
    }

    /// Returns the first millisecond of a window, and the first one after it.
    pub fn span(self, window: u32) -> (u64, u64) {
        let first = u64::from(window) * self.millis();
        (first, first + self.millis())
    }
}

/// The XOR of the BLAKE3 hashes of (key, stamp) over a set of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WindowDigest(pub [u8; 32]);

impl WindowDigest {
    /// Returns the digest of one row. The stamp has a fixed length, so no two rows have the
    /// same input.
    pub fn of(key: &[u8], stamp: Stamp) -> WindowDigest {
        let mut hashed = Vec::with_capacity(key.len() + 16);
        hashed.extend_from_slice(key);
        hashed.extend_from_slice(&stamp.to_bytes());
        WindowDigest(*archipel_base::BlockHash::of(&hashed).as_bytes())
    }

    /// Adds `other` or removes it: with XOR both are the same operation.
    pub fn toggle(&mut self, other: WindowDigest) {
        for (byte, other) in self.0.iter_mut().zip(other.0) {
            *byte ^= other;
        }
    }
}

/// The summary of a window: the number of its rows, and their digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// The number of rows, including tombstones.
    pub rows: u64,
    /// The digest of all these rows.
    pub digest: WindowDigest,
}

//! Windows: rows grouped by the time of their stamp, and a fingerprint of each group.
//!
//! Two replicas whose fingerprints of a window are equal hold the same keys under the same stamps
//! there; where they differ, they compare the stamps (see [`RowReader::log`](super::RowReader::log)).

use archipel_base::Stamp;

/// How long windows are. A longer one consists of whole shorter ones.
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
    /// All of them, shortest first.
    pub const ALL: [Granularity; 3] = [Granularity::Hour, Granularity::Day, Granularity::Month];

    /// The length of a window in milliseconds.
    pub fn millis(self) -> u64 {
        const HOUR: u64 = 3_600_000;
        match self {
            Granularity::Hour => HOUR,
            Granularity::Day => 24 * HOUR,
            Granularity::Month => 30 * 24 * HOUR,
        }
    }

    /// The number of the window that `stamp` falls into.
    pub fn window_of(self, stamp: Stamp) -> u32 {
        // 48 bits of milliseconds are fewer than 2^27 hours.
        (stamp.millis() / self.millis()) as u32
    }

    /// The milliseconds of a window: first, and first after it.
    pub fn span(self, window: u32) -> (u64, u64) {
        let first = u64::from(window) * self.millis();
        (first, first + self.millis())
    }
}

/// XOR of the BLAKE3 hashes of (key, stamp) of a set of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The fingerprint of one row. The stamp has a fixed length, so no two rows are hashed alike.
    pub fn of(key: &[u8], stamp: Stamp) -> Fingerprint {
        let mut hashed = Vec::with_capacity(key.len() + 16);
        hashed.extend_from_slice(key);
        hashed.extend_from_slice(&stamp.to_bytes());
        Fingerprint(*archipel_base::BlockHash::of(&hashed).as_bytes())
    }

    /// Adds `other`, or takes it away: the two are the same.
    pub fn toggle(&mut self, other: Fingerprint) {
        for (byte, other) in self.0.iter_mut().zip(other.0) {
            *byte ^= other;
        }
    }
}

/// What is known of a window: how many rows it has, and their fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Rows, tombstones among them.
    pub rows: u64,
    /// Of all of them.
    pub fingerprint: Fingerprint,
}

//! The space that the segments of a disk take.

use std::collections::HashMap;

/// The space that segments take. Appends are added up. Whenever space is given back, the sum of the
/// segment is corrected by what the disk reports. Until then, space that is allocated ahead does
/// not count.
#[derive(Default)]
pub(super) struct Usage {
    segments: HashMap<u32, u64>,
    total: u64,
}

impl Usage {
    pub fn set(&mut self, segment: u32, bytes: u64) {
        let before = self.segments.insert(segment, bytes).unwrap_or(0);
        self.total = (self.total - before) + bytes;
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn add(&mut self, segment: u32, bytes: u64) {
        *self.segments.entry(segment).or_default() += bytes;
        self.total += bytes;
    }
}

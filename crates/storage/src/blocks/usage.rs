//! What the segments of a disk take.

use std::collections::HashMap;

/// What segments take: what was appended, put right by what the disk says whenever space is given
/// back. Between two such moments what is allocated ahead does not count.
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

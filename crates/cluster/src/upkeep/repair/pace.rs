//! When a scrub is due, how fast it reads, and how far it is. Pure: time is an argument.

use archipel_base::codec::Versioned;
use archipel_storage::blocks::{DiskLocation, Scrubbed};
use serde::{Deserialize, Serialize};

/// The rate of a scrub that an operator asked for without a rate, in bytes a second.
pub(crate) const ASKED_RATE: u64 = 64 << 20;
/// The lowest rate of a scheduled scrub.
const LEAST_RATE: u64 = 256 << 10;
/// The part of its cycle in which a scheduled pass aims to end.
const AIM: (u64, u64) = (4, 5);
/// About how many bytes one step reads.
pub(crate) const STEP_BYTES: u64 = 4 << 20;

/// The progress of a scrub, as it is kept on disk.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// True if a pass has begun and not ended.
    #[serde(rename = "r", default)]
    pub running: bool,
    /// True if the last pass was stopped before its end.
    #[serde(rename = "s", default)]
    pub stopped: bool,
    /// The rate that was asked for, in bytes a second; `None` for a scheduled pass.
    #[serde(rename = "q", default)]
    pub asked_rate: Option<u64>,
    /// When the last pass began, in milliseconds since 1970.
    #[serde(rename = "b", default)]
    pub began_ms: u64,
    /// When the last whole pass ended; 0 for never.
    #[serde(rename = "e", default)]
    pub ended_ms: u64,
    /// The number of partitions that this pass has checked. Blocks are read when all are checked.
    #[serde(rename = "p", default)]
    pub partitions: u16,
    /// The last block that was verified: disk, segment, offset.
    #[serde(rename = "a", default)]
    after: Option<(u16, u32, u64)>,
    /// Blocks that this pass verified.
    #[serde(rename = "n", default)]
    pub blocks: u64,
    /// Bytes of blocks that this pass read.
    #[serde(rename = "y", default)]
    pub bytes: u64,
    /// Bytes of rows that this pass checked.
    #[serde(rename = "w", default)]
    pub row_bytes: u64,
    /// Damaged blocks and rows that this pass found.
    #[serde(rename = "d", default)]
    pub damaged: u64,
}

impl Versioned for Progress {
    const VERSION: u8 = 1;
}

impl Progress {
    /// Begins a pass from the first block on.
    pub fn begin(&mut self, now_ms: u64, asked_rate: Option<u64>) {
        *self = Progress {
            running: true,
            asked_rate,
            began_ms: now_ms,
            ended_ms: self.ended_ms,
            ..Progress::default()
        };
    }

    /// Stops the pass. The next one begins when it is due.
    pub fn stop(&mut self, now_ms: u64) {
        self.stopped |= self.running;
        (self.running, self.asked_rate, self.after) = (false, None, None);
        self.began_ms = now_ms;
    }

    /// Returns where the next step begins.
    pub fn after(&self) -> Option<DiskLocation> {
        self.after.map(|(disk, segment, offset)| DiskLocation {
            disk,
            segment,
            offset,
        })
    }

    /// Adds the result of a step.
    pub fn add(&mut self, step: &Scrubbed, now_ms: u64) {
        self.blocks += step.blocks;
        self.bytes += step.bytes;
        self.damaged += step.damaged.len() as u64;
        self.after = step.next.map(|at| (at.disk, at.segment, at.offset));
        if step.next.is_none() {
            (self.running, self.asked_rate, self.ended_ms) = (false, None, now_ms);
        }
    }

    /// Returns the bytes that were read, and about how many are stored. While a pass runs, both
    /// numbers include rows: those of all `partitions` are estimated from those checked so far.
    pub fn share(&self, stored_bytes: u64, partitions: u16) -> (u64, u64) {
        if !self.running {
            return (self.bytes, stored_bytes);
        }
        let checked = u128::from(self.partitions.max(1));
        let all_rows = u128::from(self.row_bytes) * u128::from(partitions) / checked;
        let all_rows = u64::try_from(all_rows).unwrap_or(u64::MAX);
        (
            self.bytes.saturating_add(self.row_bytes),
            stored_bytes.saturating_add(all_rows),
        )
    }

    /// Returns true if a scheduled pass should begin. A `cycle_ms` of 0 means never.
    pub fn is_due(&self, now_ms: u64, cycle_ms: u64) -> bool {
        // The difference is absolute, because the clock may have been set back.
        cycle_ms > 0 && !self.running && now_ms.abs_diff(self.began_ms) >= cycle_ms
    }

    /// Returns the rate in bytes a second for this many stored bytes.
    pub fn rate(&self, stored_bytes: u64, cycle_ms: u64) -> u64 {
        let aimed = || {
            let seconds = (cycle_ms / 1000 * AIM.0 / AIM.1).max(1);
            (stored_bytes / seconds).max(LEAST_RATE)
        };
        self.asked_rate.unwrap_or_else(aimed).max(1)
    }
}

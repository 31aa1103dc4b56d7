//! When to scrub, how fast, and how far it has come. Pure: time is an argument.

use archipel_base::codec::Versioned;
use archipel_storage::blocks::{Place, Scrubbed};
use serde::{Deserialize, Serialize};

/// How fast a scrub goes that somebody asked for without saying how fast, in bytes a second.
pub(crate) const ASKED_RATE: u64 = 64 << 20;
/// How fast one goes at least that nobody asked for.
const LEAST_RATE: u64 = 256 << 10;
/// A pass that nobody asked for aims to be done in 4/5 of its cycle.
const AIM: (u64, u64) = (4, 5);
/// What one step reads, about.
pub(crate) const STEP_BYTES: u64 = 4 << 20;

/// What is kept on disk of scrubbing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Whether a pass has begun and not ended.
    #[serde(rename = "r", default)]
    pub running: bool,
    /// How fast it was asked to go, in bytes a second; none for a pass that nobody asked for.
    #[serde(rename = "q", default)]
    pub asked_rate: Option<u64>,
    /// When the last pass began, in milliseconds since 1970.
    #[serde(rename = "b", default)]
    pub began_ms: u64,
    /// When the last whole pass ended; 0 for never.
    #[serde(rename = "e", default)]
    pub ended_ms: u64,
    /// The last block that was verified: disk, segment, offset.
    #[serde(rename = "a", default)]
    after: Option<(u16, u32, u64)>,
    /// Blocks that this pass verified.
    #[serde(rename = "n", default)]
    pub blocks: u64,
    /// Bytes that it read.
    #[serde(rename = "y", default)]
    pub bytes: u64,
    /// Damaged blocks and rows that it found.
    #[serde(rename = "d", default)]
    pub damaged: u64,
}

impl Versioned for Progress {
    const VERSION: u8 = 1;
}

impl Progress {
    /// A pass begins, from the first block on.
    pub fn begin(&mut self, now_ms: u64, asked_rate: Option<u64>) {
        *self = Progress {
            running: true,
            asked_rate,
            began_ms: now_ms,
            ended_ms: self.ended_ms,
            ..Progress::default()
        };
    }

    /// The pass is given up; the next one begins when its time has come.
    pub fn stop(&mut self, now_ms: u64) {
        (self.running, self.asked_rate, self.after) = (false, None, None);
        self.began_ms = now_ms;
    }

    /// Where the next step begins.
    pub fn after(&self) -> Option<Place> {
        self.after.map(|(disk, segment, offset)| Place {
            disk,
            segment,
            offset,
        })
    }

    /// Takes a step's result in.
    pub fn add(&mut self, step: &Scrubbed, now_ms: u64) {
        self.blocks += step.blocks;
        self.bytes += step.bytes;
        self.damaged += step.damaged.len() as u64;
        self.after = step.next.map(|at| (at.disk, at.segment, at.offset));
        if step.next.is_none() {
            (self.running, self.asked_rate, self.ended_ms) = (false, None, now_ms);
        }
    }

    /// Whether a pass that nobody asks for should begin. `cycle_ms` 0: never.
    pub fn is_due(&self, now_ms: u64, cycle_ms: u64) -> bool {
        // Also if the clock was set back.
        cycle_ms > 0 && !self.running && now_ms.abs_diff(self.began_ms) >= cycle_ms
    }

    /// How fast to go, in bytes a second, with so many bytes to go through.
    pub fn rate(&self, stored_bytes: u64, cycle_ms: u64) -> u64 {
        let aimed = || {
            let seconds = (cycle_ms / 1000 * AIM.0 / AIM.1).max(1);
            (stored_bytes / seconds).max(LEAST_RATE)
        };
        self.asked_rate.unwrap_or_else(aimed).max(1)
    }
}

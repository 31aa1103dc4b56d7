//! The settings that a seed draws for its run: requests of clients, faults, and limits of nodes.

use std::time::Duration;

use archipel_cluster::{Sizes, Times};
use archipel_model::{EXTENT_BLOCKS, ModelOptions};
use archipel_storage::Limits;

use super::client;
use super::disks::Speed;
use super::{k2v, versions};
use crate::rng::Rng;

/// The settings that a run draws at random.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// The number of keys in use.
    pub keys: usize,
    /// The longest time that clients think, in milliseconds.
    pub think_millis: u64,
    /// The percentage of answers that a blackout follows at once.
    pub blackout_percent: u64,
    /// True if operators change the layout.
    pub operated: bool,
    /// True if a machine may lose its disks.
    pub loses_disk: bool,
    /// True if bits flip on a machine's disk.
    pub flips: bool,
    /// True if a machine's disks may be rolled back to an older state.
    pub rolls_back: bool,
    /// The interval of anti-entropy.
    pub anti_entropy_seconds: u64,
    /// The longest time that a row from a peer waits before it is applied.
    pub apply_delay_seconds: u64,
    /// The number of rows that a transaction purges.
    pub purge_rows: usize,
    /// The pause after each such transaction.
    pub purge_pause_seconds: u64,
    /// The limits on the work that nodes do at once.
    pub sizes: Sizes,
    /// The number of blocks of a full extent: content of more blocks has a tail.
    pub extent_blocks: usize,
    /// The percentage of a client's requests that concern uploads which clients share.
    pub upload_percent: u64,
    /// The percentage of a client's requests that concern buckets which come and go.
    pub bucket_percent: u64,
    /// True if operators admit machines that the layout dropped. Otherwise those stay shut out.
    pub admits: bool,
    /// True if there are K2V items.
    pub k2v: bool,
    /// The settings of the bucket with versions, if the run has it.
    pub versions: Option<versions::Kind>,
    /// The speed of disks.
    pub speed: Speed,
    /// True if disks are full at times.
    pub fills: bool,
    /// The percentage of a client's requests that concern the bucket whose commits are buffered.
    pub loose_percent: u64,
    /// The times that nodes wait.
    pub times: Times,
    /// The lengths of the stores' queues and batches.
    pub limits: Limits,
}

impl Style {
    /// Draws a style. `of_disks` draws the properties of disks. The seed decides about K2V items
    /// and versions.
    pub fn new(rng: &mut Rng, of_disks: &mut Rng, seed: u64) -> Style {
        Style {
            keys: [client::KEYS.len(), 4, 2][rng.below(3) as usize],
            think_millis: [1500, 600, 100][rng.below(3) as usize],
            blackout_percent: if rng.chance(30) { 3 } else { 0 },
            operated: rng.chance(40),
            loses_disk: rng.chance(30),
            rolls_back: rng.chance(30),
            flips: rng.chance(20),
            anti_entropy_seconds: if rng.chance(50) { 4 } else { 60 },
            apply_delay_seconds: if rng.chance(50) { 40 } else { 0 },
            purge_rows: [1, 2, 500][rng.below(3) as usize],
            purge_pause_seconds: [0, 5, 20][rng.below(3) as usize],
            sizes: sizes(rng),
            extent_blocks: [1, 2, EXTENT_BLOCKS][rng.below(3) as usize],
            upload_percent: [0, 20, 50][rng.below(3) as usize],
            bucket_percent: [0, 20, 60][rng.below(3) as usize],
            admits: rng.chance(50),
            k2v: k2v::is_in(seed),
            versions: versions::Kind::of(seed),
            speed: match of_disks.below(10) {
                0..5 => Speed::Instant,
                5..7 => Speed::Usual,
                _ => Speed::Slow,
            },
            fills: of_disks.chance(25),
            loose_percent: [0, 0, 25, 60][of_disks.below(4) as usize],
            times: times(of_disks),
            limits: limits(of_disks),
        }
    }

    /// Returns true if nodes apply lifecycle rules.
    pub fn expires(&self) -> bool {
        self.versions.is_some_and(|kind| kind.expires)
    }

    /// Returns the length of a day of lifecycle rules.
    pub fn day(&self) -> Duration {
        match self.expires() {
            true => versions::DAY,
            false => ModelOptions::default().day,
        }
    }
}

/// Returns the usual times, or others: from a twentieth to three times as long.
fn times(rng: &mut Rng) -> Times {
    if rng.chance(50) {
        return Times::USUAL;
    }
    Times::drawn(|usual| match rng.below(4) {
        0 => usual / 20,
        1 => usual / 5,
        2 => usual * 3,
        _ => usual,
    })
}

/// Returns the usual lengths of a store's batches, or short ones.
fn limits(rng: &mut Rng) -> Limits {
    let usual = Limits::default();
    if rng.chance(50) {
        return usual;
    }
    Limits {
        batch_transactions: [1, 2, 20][rng.below(3) as usize],
        batch_bytes: [1, 5_000, 1 << 20][rng.below(3) as usize],
        ..usual
    }
}

/// Returns the usual sizes, or small ones, in which the boundaries between pages and transactions
/// fall everywhere.
fn sizes(rng: &mut Rng) -> Sizes {
    if rng.chance(30) {
        return Sizes::USUAL;
    }
    Sizes::drawn(|usual| match rng.below(4) {
        0 => 1,
        1 => rng.between(1, 4) as usize,
        2 => rng.between(1, usual as u64) as usize,
        _ => usual,
    })
}

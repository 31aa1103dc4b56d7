//! Floors: tombstones and unused promises go once every replica agrees that nobody needs them.
//!
//! The rounds are [`register::floor`](crate::register::floor); this drives them, keeps floors in the store, and drops
//! what lies below. A partition's floor waits while one of its replicas is away, and until every store of the live layouts
//! has said that it holds nothing of partitions that are not its own: a store that had part in one before, and gets
//! it again, must not bring rows whose tombstones are gone.
//!
//! | module | what it holds |
//! |---|---|
//! | `drive` | which partition's floor is due, and moving it |
//! | `record` | a replica's floors in its store |
//! | `litter` | what is known of tombstones and promises: in memory |
//! | `sweep` | dropping what lies below a floor |
//! | `serve` | what a replica answers to a round |
//! | `strays` | forgetting what is left of partitions that went elsewhere |
//!
//! # Invariants
//! - A floor lies on an hour, so that the windows of the store add up to what is compared.
//! - A replica closes no floor that lies ahead of its own clock.
//! - What is said to be swept has no tombstone at or below the floor: litter is noted in the transactions that make it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, OnceLock};

use archipel_base::{PartitionId, Stamp, Writer};
use archipel_storage::rows::Granularity;
use tokio::sync::Notify;

mod drive;
mod litter;
pub(crate) mod record;
mod serve;
mod strays;
mod sweep;

pub(crate) use litter::Litter;

use crate::layout::StoreName;
use crate::register::Rules;

/// How the floors of this node's partitions stand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FloorProgress {
    /// Floors that this node moved, since its start.
    pub moved: u64,
    /// Tombstones and promises that it dropped.
    pub dropped: u64,
    /// Partitions with tombstones or promises that are old enough to go and could not.
    pub waiting: u64,
    /// The oldest of them, in milliseconds since 1970; 0 for none.
    pub oldest_ms: u64,
    /// Why one of these partitions waits.
    pub why: Option<String>,
}

/// The work on floors.
#[derive(Default)]
pub(crate) struct Floors {
    /// One sweep at a time.
    sweeping: tokio::sync::Mutex<()>,
    /// Partitions in which something may be dropped now.
    to_sweep: Mutex<BTreeSet<PartitionId>>,
    wake: Notify,
    /// Which stores hold nothing of partitions that are not their own, in which epoch.
    clean: Mutex<(u64, BTreeSet<StoreName>)>,
    /// The epoch in which this store does.
    self_clean: Mutex<u64>,
    /// The partitions of this store, in the epoch that is named.
    own: Mutex<(u64, Vec<PartitionId>)>,
    /// Why partitions wait: since which litter, and the reason.
    waiting: Mutex<BTreeMap<PartitionId, (Stamp, String)>>,
    progress: Mutex<FloorProgress>,
    rules: OnceLock<Rules>,
}

impl Floors {
    fn rules(&self) -> Rules {
        self.rules.get().copied().unwrap_or_default()
    }

    /// How floors stand.
    pub(super) fn look(&self) -> FloorProgress {
        let waiting = super::lock(&self.waiting);
        let oldest = waiting.values().min_by_key(|(stamp, _)| *stamp);
        FloorProgress {
            waiting: waiting.len() as u64,
            oldest_ms: oldest.map_or(0, |(stamp, _)| stamp.millis()),
            why: oldest.map(|(_, why)| why.clone()),
            ..super::lock(&self.progress).clone()
        }
    }

    /// Those of these partitions whose floor waits.
    pub(super) fn waiting_of(&self, partitions: &[PartitionId]) -> Vec<PartitionId> {
        let waiting = super::lock(&self.waiting);
        let waits = |partition: &&PartitionId| waiting.contains_key(partition);
        partitions.iter().filter(waits).copied().collect()
    }

    fn count(&self, change: impl FnOnce(&mut FloorProgress)) {
        change(&mut super::lock(&self.progress));
    }
}

/// The highest stamp before an hour, by its number.
pub(super) fn before_hour(hour: u64) -> Stamp {
    let first = Stamp::new(hour * Granularity::Hour.millis(), 0, Writer(0));
    Stamp {
        time: first.time.saturating_sub(1),
        writer: Writer(u64::MAX),
    }
}

/// The hour before which a floor lies; none if it lies on no hour.
fn hour_of(floor: Stamp) -> Option<u32> {
    let hour = (floor.millis() + 1) / Granularity::Hour.millis();
    (before_hour(hour) == floor).then_some(hour as u32)
}

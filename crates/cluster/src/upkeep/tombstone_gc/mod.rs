//! Floors: tombstones and unused promises are dropped once every replica agrees that no replica
//! needs them.
//!
//! The rounds are [`register::floor`](crate::register::floor). This module drives them, keeps
//! floors in the store, and drops the rows below. A partition's floor waits while one of its
//! replicas is unreachable. It also waits until every store of the live layouts is purged.
//! Otherwise a store that had the partition before, and gets it again, could bring rows whose
//! tombstones are gone.
//!
//! | module | what it holds |
//! |---|---|
//! | `driver` | chooses the partitions whose floor is due, and moves it |
//! | `collect` | drops what lies below a floor |
//! | `serve` | a replica's answers to a round |
//! | `stale` | purges stale partitions |
//! | `void` | retires rows that hold no version any more |
//!
//! # Invariants
//! - A floor lies on an hour, so that the windows of the store add up to what is compared.
//! - A replica closes no floor that is ahead of its own clock.
//! - A partition that counts as collected has no tombstone at or below the floor, because every
//!   transaction that makes a tombstone updates the tombstone statistics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use archipel_base::{PartitionId, Stamp, Writer};
use archipel_storage::rows::Granularity;
use parking_lot::Mutex;
use tokio::sync::Notify;

mod collect;
mod driver;
mod serve;
mod stale;
#[cfg(test)]
mod tests;
mod void;

use crate::faults::Faults;
use crate::layout::StoreName;
use crate::register::Rules;

/// The progress of the floors of a node's partitions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FloorProgress {
    /// Floors that this node moved since its start.
    pub moved: u64,
    /// Tombstones and promises that it dropped.
    pub dropped: u64,
    /// Rows without a version that it made tombstones of.
    pub retired: u64,
    /// Partitions with tombstones or promises that are old enough to go but could not.
    pub waiting: u64,
    /// The oldest of these, in milliseconds since 1970; 0 for none.
    pub oldest_ms: u64,
    /// The reason why one of these partitions waits.
    pub why: Option<String>,
}

/// The state of tombstone GC on this node.
#[derive(Default)]
pub(crate) struct TombstoneGc {
    /// Held during a scan: one runs at a time.
    collecting: tokio::sync::Mutex<()>,
    /// Partitions in which something may be dropped now.
    to_collect: Mutex<BTreeSet<PartitionId>>,
    wake: Notify,
    /// The stores that are purged, and in which epoch.
    purged: Mutex<(u64, BTreeSet<StoreName>)>,
    /// The last epoch in which this store is purged.
    self_purged: Mutex<u64>,
    /// The partitions of this store, in this epoch.
    own: Mutex<(u64, Vec<PartitionId>)>,
    /// The partitions that wait: the stamp of the oldest tombstone, and the reason.
    waiting: Mutex<BTreeMap<PartitionId, (Stamp, String)>>,
    progress: Mutex<FloorProgress>,
    faults: OnceLock<Faults>,
}

impl TombstoneGc {
    fn faults(&self) -> Faults {
        self.faults.get().copied().unwrap_or_default()
    }

    fn rules(&self) -> Rules {
        self.faults().rules
    }

    /// Returns the progress of floors.
    pub(super) fn look(&self) -> FloorProgress {
        let waiting = self.waiting.lock();
        let oldest = waiting.values().min_by_key(|(stamp, _)| *stamp);
        FloorProgress {
            waiting: waiting.len() as u64,
            oldest_ms: oldest.map_or(0, |(stamp, _)| stamp.millis()),
            why: oldest.map(|(_, why)| why.clone()),
            ..self.progress.lock().clone()
        }
    }

    /// Returns the partitions among these whose floor waits.
    pub(super) fn waiting_of(&self, partitions: &[PartitionId]) -> Vec<PartitionId> {
        let waiting = self.waiting.lock();
        let waits = |partition: &&PartitionId| waiting.contains_key(partition);
        partitions.iter().filter(waits).copied().collect()
    }

    fn count(&self, change: impl FnOnce(&mut FloorProgress)) {
        change(&mut self.progress.lock());
    }
}

/// Returns the highest stamp before an hour, given by number.
pub(super) fn before_hour(hour: u64) -> Stamp {
    let first = Stamp::new(hour * Granularity::Hour.millis(), 0, Writer(0));
    Stamp {
        time: first.time.saturating_sub(1),
        writer: Writer(u64::MAX),
    }
}

/// Returns the hour before which a floor lies; `None` if it lies on no hour.
fn hour_of(floor: Stamp) -> Option<u32> {
    let hour = (floor.millis() + 1) / Granularity::Hour.millis();
    (before_hour(hour) == floor).then_some(hour as u32)
}

//! Tombstone statistics: how old the oldest tombstone and the oldest promise of each partition may
//! be.
//!
//! The transactions that make tombstones update them. So a partition without tombstones is not
//! scanned. After a start, the first tombstone GC of a partition finds the earlier ones.

use std::collections::BTreeMap;

use archipel_base::{PartitionId, Stamp};
use archipel_storage::Value;
use parking_lot::{Mutex, MutexGuard};

use crate::register::Cell;

/// The tombstone statistics of all partitions of this node.
#[derive(Default)]
pub(crate) struct TombstoneStats(Mutex<BTreeMap<PartitionId, Known>>);

/// The tombstone statistics of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Known {
    /// No tombstone is older; `None` if there is none.
    pub tombstone: Option<Stamp>,
    /// No bare promise is older; `None` if there is none.
    pub promise: Option<Stamp>,
    /// True once a tombstone GC has seen the whole partition. Before, only what was made since the
    /// start is known.
    pub whole: bool,
}

impl Known {
    /// Returns the older of both.
    pub fn oldest(&self) -> Option<Stamp> {
        self.tombstone.into_iter().chain(self.promise).min()
    }

    /// Returns true if there is surely no tombstone at or below a stamp.
    pub fn has_no_tombstone(&self, upto: Stamp) -> bool {
        self.whole && self.tombstone.is_none_or(|oldest| oldest > upto)
    }
}

impl TombstoneStats {
    fn all(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Known>> {
        self.0.lock()
    }

    /// Notes the new state of a row, or a row that a scan found.
    pub fn note(&self, partition: PartitionId, cell: &Cell<Value>) {
        if cell.value.is_some() || *cell == Cell::default() {
            return;
        }
        let mut all = self.all();
        let known = all.entry(partition).or_default();
        let (oldest, stamp) = match cell.stamp {
            Stamp::ZERO => (&mut known.promise, cell.promised),
            stamp => (&mut known.tombstone, stamp),
        };
        *oldest = Some(oldest.map_or(stamp, |oldest| oldest.min(stamp)));
    }

    /// Returns the statistics of a partition.
    pub(crate) fn of(&self, partition: PartitionId) -> Known {
        self.all().get(&partition).copied().unwrap_or_default()
    }

    /// Begins a scan: its findings are noted again, together with the changes meanwhile.
    pub(crate) fn begin(&self, partition: PartitionId) {
        self.all().insert(partition, Known::default());
    }

    /// Ends a scan that has seen the whole partition.
    pub(crate) fn end(&self, partition: PartitionId) {
        self.all().entry(partition).or_default().whole = true;
    }
}

//! What is known of tombstones and promises: how old the oldest of each partition is at most.
//!
//! It is noted in the transactions that make them, so that no scan is needed to know that there are none; the first
//! sweep after a start learns what was there before.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use archipel_base::{PartitionId, Stamp};
use archipel_storage::Value;

use crate::register::Cell;

/// The litter of all partitions of this node.
#[derive(Default)]
pub(crate) struct Litter(Mutex<BTreeMap<PartitionId, Known>>);

/// What is known of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Known {
    /// No tombstone is older; `None`: there is none.
    pub tombstone: Option<Stamp>,
    /// No bare promise is older; `None`: there is none.
    pub promise: Option<Stamp>,
    /// A sweep has seen all of the partition. Until then, only what was made since is known.
    pub whole: bool,
}

impl Known {
    /// The oldest of both.
    pub fn oldest(&self) -> Option<Stamp> {
        self.tombstone.into_iter().chain(self.promise).min()
    }

    /// Whether there is no tombstone at or below a stamp, for sure.
    pub fn has_no_tombstone(&self, upto: Stamp) -> bool {
        self.whole && self.tombstone.is_none_or(|oldest| oldest > upto)
    }
}

impl Litter {
    fn all(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Known>> {
        super::super::lock(&self.0)
    }

    /// A row was changed to this, or found.
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

    /// What is known of a partition.
    pub(super) fn of(&self, partition: PartitionId) -> Known {
        self.all().get(&partition).copied().unwrap_or_default()
    }

    /// A sweep begins: what it finds is noted anew, with what is made meanwhile.
    pub(super) fn begin(&self, partition: PartitionId) {
        self.all().insert(partition, Known::default());
    }

    /// The sweep has seen all.
    pub(super) fn end(&self, partition: PartitionId) {
        self.all().entry(partition).or_default().whole = true;
    }
}

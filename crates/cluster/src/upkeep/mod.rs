//! Upkeep: the background work of a node that keeps data whole and equal on all replicas.
//!
//! | module | what it holds |
//! |---|---|
//! | `anti_entropy` | replicas compare what they hold, and pull what is newer elsewhere |
//! | `tombstone_gc` | tombstones go once every replica agrees |
//! | `repair` | damaged blocks and rows are replaced by good copies; scrubs |
//! | `verify` | the cluster checks that all stored data are whole |
//! | `rollback` | detects metadata that were rolled back |

use std::ops::Deref;
use std::sync::{Arc, Weak};

use archipel_base::{BlockHash, PartitionId};
use archipel_storage as storage;
use archipel_storage::RowKey;

pub(crate) mod anti_entropy;
pub(crate) mod repair;
pub(crate) mod rollback;
mod tombstone_gc;
pub(crate) mod verify;

#[cfg(test)]
mod tests;

use crate::data::Data;
use crate::node::Events;
use crate::node::group::Group;
use anti_entropy::AntiEntropy;
use repair::Repair;
use verify::Verify;

/// The background work of a node that keeps data whole. Derefs to the [`Data`] that it works on.
pub struct Upkeep {
    data: Arc<Data>,
    anti_entropy: AntiEntropy,
    repair: Repair,
    verify: Verify,
    /// A handle to itself, for tasks that outlive a call.
    this: Weak<Upkeep>,
}

impl Upkeep {
    pub(crate) fn new(data: Arc<Data>) -> Arc<Upkeep> {
        let upkeep = Arc::new_cyclic(|this: &Weak<Upkeep>| Upkeep {
            data,
            anti_entropy: AntiEntropy::default(),
            repair: Repair::default(),
            verify: Verify::default(),
            this: this.clone(),
        });
        let events: Weak<dyn Events> = upkeep.this.clone();
        upkeep.listen(events);
        upkeep
    }
}

impl Deref for Upkeep {
    type Target = Arc<Data>;

    fn deref(&self) -> &Arc<Data> {
        &self.data
    }
}

impl Events for Upkeep {
    fn block_read_failed(&self, hash: BlockHash, partition: PartitionId, error: &storage::Error) {
        self.repair.note_read(hash, partition, error);
    }

    fn row_is_damaged(&self, key: &RowKey) {
        if let Some(this) = self.this.upgrade() {
            this.repair_row_soon(key);
        }
    }

    fn write_was_missed(&self, group: &Group, index: usize) {
        if let Some(this) = self.this.upgrade() {
            this.note_missed(group, index);
        }
    }
}

//! Retiring rows that hold no version any more.
//!
//! The deletion of an object's last version leaves a *void* row: a value that only carries the
//! deletion. Once a floor was agreed above it, every replica has accepted it, and so knows of the
//! deletion. Then an ordinary write makes a tombstone of it, which goes with a later floor.

use std::sync::Arc;

use archipel_base::{PartitionId, Stamp};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, VersionKind};

use crate::data::decision::Decision;
use crate::data::options::WriteOptions;
use crate::error::Error;
use crate::upkeep::Upkeep;

/// How many void rows one sweep notes. Their tombstones cause later sweeps.
pub(super) const MOST: usize = 4096;

impl Upkeep {
    /// Retires the void rows that a sweep found. One replica of the partition does it.
    pub(super) async fn retire(
        self: &Arc<Upkeep>,
        partition: PartitionId,
        void: Vec<(RowKey, Stamp)>,
    ) {
        if self.rank(partition) > 0 {
            return;
        }
        for (row, stamp) in void {
            match self.retire_one(&row, stamp).await {
                Ok(()) => self.anti_entropy.floors.count(|total| total.retired += 1),
                Err(error) => {
                    let key = row.key.escape_ascii();
                    tracing::debug!(%error, %key, "a row without a version stays for now");
                }
            }
        }
    }

    /// Makes a tombstone of a void row, unless somebody has written it since.
    async fn retire_one(self: &Arc<Upkeep>, row: &RowKey, stamp: Stamp) -> Result<(), Error> {
        let how = WriteOptions {
            background: true,
            frees: true,
            ..WriteOptions::durable(Durability::Fsync)
        };
        let retired = self.update_stamped(row, how, |current| match current.value {
            Some(value) if value.kind() == VersionKind::Void && current.stamp == stamp => {
                Decision::Write(None)
            }
            _ => Decision::Abort(()),
        });
        let changed = || Error::Unavailable("it was written meanwhile".into());
        retired.await?.map_err(|()| changed())
    }
}

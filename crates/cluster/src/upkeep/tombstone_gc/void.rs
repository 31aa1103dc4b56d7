//! Retiring rows that hold no version any more.
//!
//! The deletion of an object's last version leaves a *void* row: a value that only carries the
//! deletion. Once a floor was agreed above it, every replica has accepted it, and so knows of the
//! deletion. Then an ordinary write makes a tombstone of it, which goes with a later floor.

use std::sync::Arc;

use archipel_base::{PartitionId, Stamp};
use archipel_storage::RowKey;
use archipel_storage::engine::Durability;
use futures_util::{FutureExt, StreamExt, stream};

use crate::data::decision::Decision;
use crate::data::options::WriteOptions;
use crate::error::Error;
use crate::register::{Rules, versions};
use crate::upkeep::Upkeep;

/// The most void rows that one walk of a partition notes. Their tombstones cause later walks.
pub(super) const MOST: usize = 1024;

/// The number of them that are written at once.
const AT_ONCE: usize = 16;

impl Upkeep {
    /// Retires the void rows that a walk of the partition found. One replica of the partition does it.
    /// Floors wait meanwhile, so the first row that cannot be written ends it: later walks find the
    /// others.
    pub(super) async fn retire(
        self: &Arc<Upkeep>,
        partition: PartitionId,
        void: Vec<(RowKey, Stamp)>,
    ) {
        if self.rank(partition) > 0 {
            return;
        }
        let retiring = void.into_iter().map(|(row, stamp)| {
            let upkeep = self.clone();
            async move { upkeep.retire_one(&row, stamp).await }.boxed()
        });
        let mut retired = stream::iter(retiring).buffer_unordered(AT_ONCE);
        while let Some(one) = retired.next().await {
            match one {
                Ok(true) => self.anti_entropy.floors.count(|total| total.retired += 1),
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(%error, %partition, "rows without a version stay for now");
                    return;
                }
            }
        }
    }

    /// Makes a tombstone of a void row. Returns false if it was written since.
    async fn retire_one(self: &Arc<Upkeep>, row: &RowKey, stamp: Stamp) -> Result<bool, Error> {
        let how = WriteOptions {
            background: true,
            frees: true,
            ..WriteOptions::durable(Durability::Fsync)
        };
        let retired = self.update_stamped(row, how, |current| {
            let is_same = current.stamp == stamp;
            match versions::retires(Rules::CORRECT, current.value, is_same) {
                true => Decision::Write(None),
                false => Decision::Abort(()),
            }
        });
        Ok(retired.await?.is_ok())
    }
}

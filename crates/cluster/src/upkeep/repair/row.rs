//! Repairing a row whose payload is damaged here: the payload is written again as a quorum has it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use archipel_storage::RowKey;

use crate::error::Error;
use crate::upkeep::Upkeep;

/// The most rows that are repaired at once after reads found them damaged. Others are found again.
const AT_ONCE: usize = 16;

impl Upkeep {
    /// Repairs a row that was found damaged here, in a task of its own.
    pub(crate) fn repair_row_soon(self: &Arc<Upkeep>, key: &RowKey) {
        if self.peers.is_none() || !self.repair.begin_row(key) {
            return;
        }
        let (upkeep, key) = (self.clone(), key.clone());
        tokio::spawn(async move {
            upkeep.repair_row(&key).await;
            upkeep.repair.end_row(&key);
        });
    }

    /// Repairs a row that was found damaged here, if it is damaged.
    pub(crate) async fn repair_row(self: &Arc<Upkeep>, key: &RowKey) {
        let name = || format!("{}/{}", key.partition, key.key.escape_ascii());
        match self.restore_row(key).await {
            Ok(true) => {
                tracing::warn!(
                    row = name(),
                    "a damaged payload was replaced by a good copy"
                );
                self.repair.repaired.fetch_add(1, Ordering::Relaxed);
            }
            Ok(false) => {}
            Err(error) => {
                tracing::error!(row = name(), %error, "a damaged row cannot be repaired");
                self.repair.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Writes the row's payload again. Returns true if it was damaged.
    async fn restore_row(self: &Arc<Upkeep>, key: &RowKey) -> Result<bool, Error> {
        let version = self.read_whole(key, true).await?;
        Ok(self.replica.restore(key.clone(), version).await?)
    }
}

impl super::Repair {
    /// Returns true if the row is to be repaired now: it is not being repaired, and there is room.
    fn begin_row(&self, key: &RowKey) -> bool {
        let mut rows = self.rows();
        rows.len() < AT_ONCE && rows.insert(key.clone())
    }

    fn end_row(&self, key: &RowKey) {
        self.rows().remove(key);
    }
}

//! Mending a row whose body is damaged here: it is written anew as a quorum has it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use archipel_storage::RowKey;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::inner::Inner;

/// How many rows that were read are mended at once; what is found beyond that is found again.
const AT_ONCE: usize = 16;

impl Inner {
    /// Has a row mended that was found damaged here, in a task of its own.
    pub(crate) fn mend_row_soon(self: &Arc<Inner>, key: &RowKey) {
        if self.peers.is_none() || !self.mend.begin_row(key) {
            return;
        }
        let (inner, key) = (self.clone(), key.clone());
        tokio::spawn(async move {
            inner.mend_row(&key).await;
            inner.mend.end_row(&key);
        });
    }

    /// Mends a row that was found damaged here, if it is.
    pub(crate) async fn mend_row(self: &Arc<Inner>, key: &RowKey) {
        let name = || format!("{}/{}", key.partition, key.key.escape_ascii());
        match self.restore_row(key).await {
            Ok(true) => {
                tracing::warn!(row = name(), "a damaged body was replaced by a good copy");
                self.mend.mended.fetch_add(1, Ordering::Relaxed);
            }
            Ok(false) => {}
            Err(error) => {
                tracing::error!(row = name(), %error, "a damaged row cannot be mended");
                self.mend.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Tells whether it was damaged.
    async fn restore_row(self: &Arc<Inner>, key: &RowKey) -> Result<bool, Error> {
        let version = Cluster(self.clone()).read_whole(key, true).await?;
        Ok(self.replica.restore(key.clone(), version).await?)
    }
}

impl super::Mend {
    /// Whether the row is to be mended now: it is not being mended, and there is room.
    fn begin_row(&self, key: &RowKey) -> bool {
        let mut rows = self.rows();
        rows.len() < AT_ONCE && rows.insert(key.clone())
    }

    fn end_row(&self, key: &RowKey) {
        self.rows().remove(key);
    }
}

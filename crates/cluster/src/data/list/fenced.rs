//! Finds out if a partition has rows behind a closed write fence.

use std::sync::Arc;

use archipel_base::{PartitionId, boxed};
use archipel_storage::{ListEntry, ListQuery, RowKey, VersionKind};
use bytes::Bytes;

use super::{RETRIES, damaged, merged};
use crate::data::Data;
use crate::error::Error;

/// The number of rows that are looked at first to find out if there is any.
const FEW: usize = 16;

impl Data {
    /// Returns whether a partition has live rows whose keys begin with `prefix`, as replicas see it
    /// that have closed the write fence `fence`.
    ///
    /// A replica that has not closed it may still accept a write, so its page does not count:
    /// otherwise a write that is acknowledged later would be missed.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`archipel_storage::Error::Busy`] if too few replicas that have
    /// closed the fence answer.
    #[boxed]
    pub async fn has_rows_fenced(
        self: &Arc<Data>,
        partition: PartitionId,
        prefix: &Bytes,
        fence: &RowKey,
    ) -> Result<bool, Error> {
        let mut query = ListQuery::new(partition, prefix.clone());
        (query.limit, query.hidden) = (FEW, true);
        let mut retries = 0;
        while retries < RETRIES {
            let fence = Some(fence.key.clone());
            let pages = merged(self, std::slice::from_ref(&query), fence).await?;
            let Some(page) = pages.and_then(|mut pages| pages.pop()) else {
                self.epochs.settled().await?;
                retries += 1;
                continue;
            };
            let page = page.listing;
            if !page.damaged.is_empty() {
                return Err(damaged(&page));
            }
            if page.entries.iter().any(holds_something) {
                return Ok(true);
            }
            match page.next {
                Some(next) => query.start = next,
                None => return Ok(false),
            }
            query.limit = self.options.sizes.scanned_rows.max(FEW);
        }
        Err(Error::Unavailable("the layout changes too often".into()))
    }
}

/// Returns true for a row that holds something: a delete marker does, and a void value does not.
fn holds_something(entry: &ListEntry) -> bool {
    let ListEntry::Row { metadata, .. } = entry else {
        return true;
    };
    let version = metadata.version.as_ref();
    version.is_none_or(|version| version.kind != VersionKind::Void)
}

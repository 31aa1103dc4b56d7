//! Listings of which each row is as a quorum holds it.
//!
//! A merged page shows the newest version that one of its replicas has, maybe as the only one. That
//! version may never take effect: a write without an answer whose coordinator crashed, which a
//! later write overtakes. So nothing may be built on it that lasts. A tombstone of a minority is as
//! bad as a value: it hides a row that lives.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::{PartitionId, Stamp, boxed};
use archipel_storage::{ListEntry, ListQuery, Listing, RowKey, RowMetadata, Value};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{MergedPage, Scanned, damaged};
use crate::data::Data;
use crate::error::Error;
use crate::register::Version;

/// The most rows that are read at once. After an outage many rows differ.
const AT_ONCE: usize = 256;

impl Data {
    /// Returns a page as [`list`](Data::list) does, with tombstones, and the keys of its rows whose
    /// version only a minority showed, in order.
    pub(in crate::data) async fn newest_page(
        self: &Arc<Data>,
        mut query: ListQuery,
    ) -> Result<(Listing, Vec<Bytes>), Error> {
        query.tombstones = true;
        let MergedPage { listing, unsettled } = self.pages(&[query]).await?.swap_remove(0);
        Ok((listing, unsettled))
    }

    /// Returns a page as [`list`](Data::list) does, with tombstones, in which each row is as a
    /// quorum holds it. Rows whose version only a minority showed are read, which settles them: one
    /// round more if there are any.
    #[boxed]
    pub async fn list_settled(self: &Arc<Data>, query: ListQuery) -> Result<Listing, Error> {
        let partition = query.partition;
        let (mut listing, unsettled) = self.newest_page(query).await?;
        let reads = unsettled.into_iter().map(async |key| {
            let row = RowKey { partition, key };
            let version = self.head_version(&row, &[]).await?;
            Ok::<_, Error>((row.key, metadata_of(version)))
        });
        let reads = stream::iter(reads).buffer_unordered(AT_ONCE);
        let mut settled: BTreeMap<Bytes, RowMetadata> = reads.try_collect().await?;
        for entry in &mut listing.entries {
            if let ListEntry::Row { key, metadata } = entry
                && let Some(read) = settled.remove(key)
            {
                *metadata = read;
            }
        }
        Ok(listing)
    }

    /// Returns all live rows of a partition whose keys begin with `prefix`, in order, each as a
    /// quorum holds it.
    ///
    /// # Errors
    /// As [`scan`](Data::scan).
    #[boxed]
    pub async fn scan_whole(
        self: &Arc<Data>,
        partition: PartitionId,
        prefix: &Bytes,
    ) -> Result<Vec<Scanned>, Error> {
        let mut query = ListQuery::new(partition, prefix.clone());
        query.limit = self.options.sizes.scanned_rows;
        let mut rows = Vec::new();
        loop {
            let page = self.list_settled(query.clone()).await?;
            if !page.damaged.is_empty() {
                return Err(damaged(&page));
            }
            let entries = page.entries.into_iter();
            rows.extend(entries.filter_map(|entry| super::scanned(partition, entry, &[])));
            match page.next {
                Some(next) => query.start = next,
                None => return Ok(rows),
            }
        }
    }
}

fn metadata_of(version: Version<Value>) -> RowMetadata {
    let (stamp, write) = (version.stamp, version.write);
    let mut read = RowMetadata {
        promised: Stamp::ZERO,
        stamp,
        write,
        ..RowMetadata::default()
    };
    if let Some(value) = version.value {
        read.metadata = Some(value.metadata);
        read.usage = value.usage;
        read.version = value.version;
    }
    read
}

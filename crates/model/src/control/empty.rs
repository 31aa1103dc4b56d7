//! Whether a bucket is empty.

use archipel_base::{PartitionId, boxed};
use archipel_cluster::{ListEntry, ListQuery};
use archipel_storage::{RowMetadata, VersionKind};
use bytes::Bytes;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::rowkeys;

/// The number of rows that are looked at together.
const PAGE: usize = 16;

/// Returns the beginnings of the rows that a bucket's content is in: objects, kept versions of
/// them, and K2V items.
fn prefixes(bucket: &Bucket) -> [Bytes; 3] {
    let id = &bucket.id;
    [
        rowkeys::objects(id),
        rowkeys::versions(id),
        rowkeys::items(id),
    ]
}

impl Model {
    /// Returns true if a bucket is empty and stays so, once its write fences are closed at a quorum of
    /// each of its partitions.
    pub(super) async fn is_empty_behind_fences(&self, bucket: &Bucket) -> Result<bool, Error> {
        for partition in rowkeys::bucket_partitions(self.cluster(), &bucket.id) {
            let fence = rowkeys::write_fence(partition, &bucket.id);
            for prefix in prefixes(bucket) {
                let cluster = self.cluster();
                if cluster.has_rows_fenced(partition, &prefix, &fence).await? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns true if a bucket is empty now.
    ///
    /// # Errors
    /// Errors of listing rows.
    #[boxed]
    pub async fn is_empty(&self, bucket: &Bucket) -> Result<bool, Error> {
        for partition in rowkeys::bucket_partitions(self.cluster(), &bucket.id) {
            for prefix in prefixes(bucket) {
                if self.has_rows(partition, prefix).await? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    async fn has_rows(&self, partition: PartitionId, prefix: Bytes) -> Result<bool, Error> {
        let mut query = ListQuery {
            limit: PAGE,
            hidden: true,
            ..ListQuery::new(partition, prefix)
        };
        loop {
            let page = self.cluster().list(query.clone()).await?;
            if page.entries.iter().any(counts) {
                return Ok(true);
            }
            match page.next {
                Some(next) => query.start = next,
                None => return Ok(false),
            }
        }
    }
}

/// Returns true for a row that holds something: a delete marker does, too.
fn counts(entry: &ListEntry) -> bool {
    let is_void = |metadata: &RowMetadata| {
        let version = metadata.version.as_ref();
        version.is_some_and(|version| version.kind == VersionKind::Void)
    };
    match entry {
        ListEntry::Row { metadata, .. } => !is_void(metadata),
        ListEntry::Prefix(_) => true,
    }
}

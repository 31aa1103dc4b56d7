//! Finds out if a bucket is empty.

use std::future;

use archipel_base::{PartitionId, boxed};
use archipel_cluster::{Cluster, ListEntry, ListQuery};
use archipel_storage::{RowMetadata, VersionKind};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::rowkeys;

/// The number of rows that are looked at together.
const PAGE: usize = 16;
/// The most listings that are under way at once. All those of a new bucket take one round trip.
const AT_ONCE: usize = 64;

/// Returns where a bucket's content is: for each partition the beginnings of the rows of objects,
/// of kept versions of them, and of K2V items.
fn places(
    cluster: &Cluster,
    bucket: &Bucket,
) -> impl Iterator<Item = (PartitionId, Bytes)> + use<> {
    let id = &bucket.id;
    let prefixes = [
        rowkeys::objects(id),
        rowkeys::versions(id),
        rowkeys::items(id),
    ];
    let partitions = rowkeys::bucket_partitions(cluster, id).into_iter();
    partitions.flat_map(move |partition| prefixes.clone().map(|prefix| (partition, prefix)))
}

impl Model {
    /// Returns true if a bucket is empty and stays so, once its write fences are closed at a quorum
    /// of each of its partitions.
    pub(super) async fn is_empty_behind_fences(&self, bucket: &Bucket) -> Result<bool, Error> {
        let looks = places(self.cluster(), bucket).map(async |(partition, prefix)| {
            let fence = rowkeys::write_fence(partition, &bucket.id);
            let cluster = self.cluster();
            let has_rows = cluster.has_rows_fenced(partition, &prefix, &fence);
            Ok(!has_rows.await?)
        });
        stream::iter(looks)
            .buffer_unordered(AT_ONCE)
            .try_all(future::ready)
            .await
    }

    /// Returns true if a bucket is empty now.
    ///
    /// # Errors
    /// Errors of listing rows.
    #[boxed]
    pub async fn is_empty(&self, bucket: &Bucket) -> Result<bool, Error> {
        let looks = places(self.cluster(), bucket)
            .map(async |(partition, prefix)| Ok(!self.has_rows(partition, prefix).await?));
        stream::iter(looks)
            .buffer_unordered(AT_ONCE)
            .try_all(future::ready)
            .await
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

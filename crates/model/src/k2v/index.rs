//! The partition keys of a bucket, with the counts of their items.

use std::collections::BTreeMap;

use archipel_base::{PartitionId, boxed};
use archipel_cluster::{ListEntry, ListQuery, ListStart};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::try_join_all;

use super::siblings::{counters, split_conflicts};
use super::{MAX_INDEX_KEYS, READ_TOGETHER, check_bounds};
use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::rowkeys;

/// Ends a partition key in a row key.
const NUL: Bytes = Bytes::from_static(&[0]);

/// A request for partition keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IndexQuery {
    /// The prefix of the partition keys.
    pub prefix: Option<String>,
    /// The first partition key: the lowest one, or the highest one if `reverse` is true.
    pub start: Option<String>,
    /// The partition key before which the listing ends.
    pub end: Option<String>,
    /// The largest number of partition keys; `None` for [`MAX_INDEX_KEYS`].
    pub limit: Option<usize>,
    /// True if the partition keys are wanted in descending order.
    pub reverse: bool,
}

/// The items of a partition key, as the nearest replica counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Items that are not deleted.
    pub entries: u64,
    /// Items with several concurrent values.
    pub conflicts: u64,
    /// Values of all items.
    pub values: u64,
    /// Bytes of all values.
    pub bytes: u64,
}

/// A page of partition keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Index {
    /// The partition keys and what they hold.
    pub partition_keys: Vec<(String, Counts)>,
    /// The next partition key, if the page is full.
    pub next: Option<String>,
}

impl IndexQuery {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(MAX_INDEX_KEYS).min(MAX_INDEX_KEYS)
    }

    fn lowest(&self) -> (&str, bool) {
        let bound = if self.reverse { &self.end } else { &self.start };
        let bound = bound.as_deref().unwrap_or_default();
        let prefix = self.prefix.as_deref().unwrap_or_default();
        match (bound >= prefix, bound.split_once('\0')) {
            (false, _) => (prefix, false),
            // No partition key has a NUL: those after this bound are those after what stands before
            // it.
            (true, Some((before, _))) => (before, true),
            (true, None) => (bound, self.reverse && self.end.is_some()),
        }
    }

    fn ends_before(&self, pk: &str) -> bool {
        match self.reverse {
            true => self.start.as_deref().is_some_and(|start| pk > start),
            false => self.end.as_deref().is_some_and(|end| pk >= end),
        }
    }
}

impl Model {
    /// Returns a page of the partition keys of a bucket that have items. A partition key is there
    /// once an insert is acknowledged; its counts follow at the replica that counts.
    ///
    /// # Errors
    /// [`Error::InvalidName`].
    #[boxed]
    pub async fn read_index(&self, bucket: &Bucket, query: &IndexQuery) -> Result<Index, Error> {
        check_bounds([&query.prefix, &query.start, &query.end])?;
        if query
            .prefix
            .as_deref()
            .is_some_and(|prefix| prefix.contains('\0'))
        {
            return Ok(Index::default());
        }
        let mut found = self.partition_keys(bucket, query).await?;
        let next = (found.len() > query.limit()).then(|| match query.reverse {
            true => found.pop_first(),
            false => found.pop_last(),
        });
        let counts = self.count(bucket, &found).await?;
        let mut partition_keys: Vec<_> = counts.into_iter().collect();
        if query.reverse {
            partition_keys.reverse();
        }
        Ok(Index {
            partition_keys,
            next: next.flatten().map(|(pk, _)| pk),
        })
    }

    /// Returns the first partition keys of a listing with their partitions, one more than its limit
    /// at most.
    async fn partition_keys(
        &self,
        bucket: &Bucket,
        query: &IndexQuery,
    ) -> Result<BTreeMap<String, PartitionId>, Error> {
        let base = rowkeys::items(&bucket.id);
        let within = |pk: &[u8]| {
            let mut key = BytesMut::with_capacity(base.len() + pk.len());
            key.put_slice(&base);
            key.put_slice(pk);
            key.freeze()
        };
        let start = match query.lowest() {
            (lowest, true) => ListStart::AfterPrefix(within(&[lowest.as_bytes(), &NUL].concat())),
            (lowest, false) => ListStart::At(within(lowest.as_bytes())),
        };
        let prefix = within(query.prefix.as_deref().unwrap_or_default().as_bytes());
        let partitions = rowkeys::bucket_partitions(self.cluster(), &bucket.id);
        let ask = |partition| ListQuery {
            start: start.clone(),
            delimiter: Some(NUL),
            limit: query.limit().min(READ_TOGETHER) + 1,
            ..ListQuery::new(partition, prefix.clone())
        };
        let mut queries: Vec<_> = partitions.into_iter().map(ask).collect();
        let mut found = BTreeMap::new();
        while !queries.is_empty() {
            let pages = self.cluster().list_all(&queries).await?;
            let mut open = Vec::new();
            for (mut asked, page) in queries.into_iter().zip(pages) {
                if !page.damaged.is_empty() {
                    let why = format!("{} items cannot be read", page.damaged.len());
                    return Err(Error::Damaged(why));
                }
                let from = (asked.partition, base.len());
                let ended = take_keys(query, page.entries, from, &mut found)?;
                if let Some(next) = page.next.filter(|_| !ended) {
                    asked.start = next;
                    open.push(asked);
                }
            }
            queries = open;
        }
        Ok(found)
    }

    async fn count(
        &self,
        bucket: &Bucket,
        found: &BTreeMap<String, PartitionId>,
    ) -> Result<BTreeMap<String, Counts>, Error> {
        let mut by_partition: BTreeMap<PartitionId, Vec<&String>> = BTreeMap::new();
        for (pk, partition) in found {
            by_partition.entry(*partition).or_default().push(pk);
        }
        let chunks = by_partition.iter().flat_map(|(partition, pks)| {
            let chunks = pks.chunks(READ_TOGETHER);
            chunks.map(|pks| (*partition, pks))
        });
        let counted = chunks.map(|(partition, pks)| async move {
            let groups = pks.iter().flat_map(|pk| counters(&bucket.id, pk));
            let counted = self.cluster().counters(partition, groups.collect()).await?;
            let counts = counted.chunks_exact(2).map(counts_of);
            let of = pks.iter().map(|pk| (*pk).clone()).zip(counts);
            Ok::<_, Error>(of.collect::<Vec<_>>())
        });
        let counted = try_join_all(counted).await?;
        Ok(counted.into_iter().flatten().collect())
    }
}

/// Returns the counts that the two counters of a partition key stand for.
fn counts_of(two: &[(u64, u64)]) -> Counts {
    let (alone, in_conflict) = match two {
        [alone, in_conflict] => (*alone, *in_conflict),
        _ => Default::default(),
    };
    let (conflicts, values) = split_conflicts(in_conflict.0);
    Counts {
        entries: alone.0 + conflicts,
        conflicts,
        values: alone.0 + values,
        bytes: alone.1 + in_conflict.1,
    }
}

/// Takes the partition keys of a page of rows `from` a partition, where so many bytes precede them.
/// Returns true if none behind them is of use.
fn take_keys(
    query: &IndexQuery,
    entries: Vec<ListEntry>,
    from: (PartitionId, usize),
    found: &mut BTreeMap<String, PartitionId>,
) -> Result<bool, Error> {
    let (partition, before) = from;
    for entry in entries {
        let ListEntry::Prefix(row) = entry else {
            continue;
        };
        let pk = row.get(before..row.len() - 1).unwrap_or_default();
        let pk = String::from_utf8(pk.to_vec())
            .map_err(|_| Error::Damaged("a partition key is not UTF-8".into()))?;
        // Keys behind a full page are of no use.
        let is_behind = |(last, _): (&String, _)| *last < pk;
        let is_full = !query.reverse && found.len() > query.limit();
        if query.ends_before(&pk) || is_full && found.last_key_value().is_some_and(is_behind) {
            return Ok(true);
        }
        found.insert(pk, partition);
        if found.len() > query.limit() + 1 {
            _ = match query.reverse {
                true => found.pop_first(),
                false => found.pop_last(),
            };
        }
    }
    Ok(false)
}

//! Listings of the versions of a bucket's objects: by key, and newest first within a key. They read
//! all partitions of the bucket at once and merge them.

use std::collections::VecDeque;

use archipel_base::PartitionId;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::try_join_all;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::interim::{self, Listed, Page, Start};
use crate::object::ObjectHead;
use crate::rowkeys;
use crate::version::VersionId;
use crate::versions::head_in;

/// A request for a page of the versions of a bucket's objects.
#[derive(Clone, Debug, Default)]
pub struct VersionQuery {
    /// The prefix of the keys to list.
    pub prefix: String,
    /// The delimiter. Keys that contain it after the prefix are rolled up to a common prefix.
    pub delimiter: Option<String>,
    /// The listing leaves out keys and common prefixes up to and including this one (see
    /// `after_version`).
    pub after_key: Option<String>,
    /// With `after_key`: the listing shows the versions of that key that follow this one.
    pub after_version: Option<VersionId>,
    /// The largest number of entries.
    pub limit: usize,
}

/// An entry of a listing of versions.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all entries are the large ones"
)]
pub enum VersionEntry {
    /// A version, which may be a delete marker.
    Version {
        /// The object's key.
        key: String,
        /// The version's metadata.
        head: ObjectHead,
        /// True for the current version.
        is_latest: bool,
    },
    /// A common prefix of keys. It ends with the delimiter.
    Prefix(String),
}

impl VersionEntry {
    /// Returns the key or the prefix.
    pub fn name(&self) -> &str {
        match self {
            VersionEntry::Version { key, .. } => key,
            VersionEntry::Prefix(prefix) => prefix,
        }
    }
}

/// A page of a listing of versions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VersionListing {
    /// The entries.
    pub entries: Vec<VersionEntry>,
    /// True if more entries follow the last one.
    pub truncated: bool,
}

/// A partition that is being listed: its fetched entries, and the start of its next page. All
/// versions of a key are in one partition.
struct Source {
    partition: PartitionId,
    fetched: VecDeque<Listed>,
    next: Option<Start>,
}

impl Model {
    /// Returns a page of the versions of a bucket's objects.
    pub async fn list_versions(
        &self,
        bucket: &Bucket,
        query: &VersionQuery,
    ) -> Result<VersionListing, Error> {
        let mut listing = VersionListing::default();
        if query.limit == 0 {
            return Ok(listing);
        }
        let base = rowkeys::objects(&bucket.id);
        let partitions = rowkeys::bucket_partitions(self.cluster(), &bucket.id);
        let batch = query.limit / partitions.len().max(1) + 8;
        let start = start(&base, query);
        let sources = partitions.into_iter().map(|partition| Source {
            partition,
            fetched: VecDeque::new(),
            next: Some(start.clone()),
        });
        let mut sources: Vec<Source> = sources.collect();
        let page = Page {
            prefix: row_key(&base, &query.prefix),
            start: Start::Begin,
            delimiter: query.delimiter.clone().map(Bytes::from),
            limit: batch,
        };
        while let Some(listed) = self.next_version(&mut sources, &page).await? {
            if listing.entries.len() == query.limit {
                listing.truncated = true;
                break;
            }
            listing.entries.extend(entry(listed, base.len())?);
        }
        Ok(listing)
    }

    /// Takes the lowest entry of all sources. A common prefix that several sources have counts
    /// once.
    async fn next_version(
        &self,
        sources: &mut [Source],
        page: &Page,
    ) -> Result<Option<Listed>, Error> {
        self.refill_versions(sources, page).await?;
        let names = sources
            .iter()
            .enumerate()
            .filter_map(|(at, source)| Some((source.fetched.front()?.name(), at)));
        let Some(lowest) = names.min().map(|(_, at)| at) else {
            return Ok(None);
        };
        let entry = sources.get_mut(lowest).and_then(|s| s.fetched.pop_front());
        if let Some(Listed::Prefix(prefix)) = &entry {
            for source in sources {
                let same = |listed: &Listed| matches!(listed, Listed::Prefix(p) if p == prefix);
                if source.fetched.front().is_some_and(same) {
                    source.fetched.pop_front();
                }
            }
        }
        Ok(entry)
    }

    /// Fetches the next page of each source that has no fetched entries left.
    async fn refill_versions(&self, sources: &mut [Source], page: &Page) -> Result<(), Error> {
        loop {
            let empty = sources
                .iter_mut()
                .filter(|source| source.fetched.is_empty() && source.next.is_some());
            let fetched = empty.map(|source| async move {
                let Some(start) = source.next.take() else {
                    return Ok(false);
                };
                let page = Page {
                    start,
                    ..page.clone()
                };
                let found = interim::list_versions(self.cluster(), source.partition, page).await?;
                source.fetched.extend(found.entries);
                source.next = found.next;
                Ok::<_, Error>(true)
            });
            if try_join_all(fetched).await?.is_empty() {
                return Ok(());
            }
        }
    }
}

fn row_key(base: &Bytes, name: &str) -> Bytes {
    let mut key = BytesMut::with_capacity(base.len() + name.len());
    key.put_slice(base);
    key.put_slice(name.as_bytes());
    key.freeze()
}

/// Returns the start of the listing. A marker within a common prefix stands for all of it.
fn start(base: &Bytes, query: &VersionQuery) -> Start {
    let Some(after) = query.after_key.as_deref().filter(|a| !a.is_empty()) else {
        return Start::Begin;
    };
    let delimiter = query.delimiter.as_deref().filter(|d| !d.is_empty());
    let group = delimiter.and_then(|delimiter| {
        let rest = after.strip_prefix(&query.prefix)?;
        let end = rest.find(delimiter)? + delimiter.len();
        after.get(..query.prefix.len() + end)
    });
    match (group, query.after_version) {
        (Some(group), _) => Start::AfterPrefix(row_key(base, group)),
        (None, Some(id)) => Start::AfterVersion(row_key(base, after), id.at()),
        (None, None) => Start::AfterKey(row_key(base, after)),
    }
}

fn entry(listed: Listed, base: usize) -> Result<Option<VersionEntry>, Error> {
    let name = listed.name().get(base..).unwrap_or_default();
    let name = String::from_utf8(name.to_vec())
        .map_err(|_| Error::Damaged("a key is not UTF-8".into()))?;
    Ok(match listed {
        Listed::Prefix(_) => Some(VersionEntry::Prefix(name)),
        Listed::Version {
            name: at,
            kind,
            metadata,
            is_latest,
            ..
        } => {
            let head = head_in(&metadata, VersionId::of(at), kind)?;
            head.map(|head| VersionEntry::Version {
                key: name,
                head,
                is_latest,
            })
        }
    })
}

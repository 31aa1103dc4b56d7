//! Listings of the versions of a bucket's objects: by key, and newest first within a key. They read
//! all partitions of the bucket at once and merge them.

use archipel_base::{Id, PartitionId, boxed};
use archipel_cluster::{KeptKeys, ListQuery as RowQuery, ListStart};
use bytes::{BufMut, Bytes, BytesMut};

use super::key_versions::{KeyVersions, Listed, Source, version_key, version_keys};
use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
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
    /// True if it passed over rows that too few replicas can read.
    pub passed_over: bool,
}

impl Model {
    /// Returns a page of the versions of a bucket's objects.
    #[boxed]
    pub async fn list_versions(
        &self,
        bucket: &Bucket,
        query: &VersionQuery,
    ) -> Result<VersionListing, Error> {
        let mut listing = VersionListing::default();
        // No key has NUL, which comes behind a key in the rows.
        if query.limit == 0 || query.prefix.contains('\0') {
            return Ok(listing);
        }
        let cut = behind_all(query);
        let query = cut.as_ref().unwrap_or(query);
        let lister = Lister::new(self, bucket, query);
        let mut sources = lister.sources().await?;
        let mut settled = None;
        while let Some(listed) = lister.pop(&mut sources).await? {
            if let Listed::Version {
                key,
                lacks_current: true,
                ..
            } = &listed
                && settled.as_ref() != Some(key)
            {
                settled = Some(key.clone());
                if lister.settle(&mut sources, bucket, key).await? {
                    continue;
                }
            }
            if listing.entries.len() == query.limit {
                listing.truncated = true;
                break;
            }
            listing.entries.extend(entry(listed, lister.base.len())?);
        }
        listing.passed_over = sources.iter().any(|source| source.passed_over);
        Ok(listing)
    }

    /// Returns the ids of the newest versions of a key, at most `limit`.
    pub(crate) async fn newest_versions(
        &self,
        bucket: &Bucket,
        key: &str,
        limit: usize,
    ) -> Result<Vec<VersionId>, Error> {
        let query = VersionQuery {
            prefix: key.to_owned(),
            limit,
            ..VersionQuery::default()
        };
        let lister = Lister::new(self, bucket, &query);
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let start = ListStart::At(row.key.clone());
        let mut sources = [Source::new(row.partition, start)];
        let mut ids = Vec::new();
        while ids.len() < limit
            && let Some(Listed::Version { key, name, .. }) = lister.pop(&mut sources).await?
            && key == row.key
        {
            ids.push(VersionId::of(name));
        }
        Ok(ids)
    }
}

struct Lister<'a> {
    model: &'a Model,
    query: &'a VersionQuery,
    bucket: Id,
    /// The beginning of all row keys of the bucket's objects, before the user's key.
    base: Bytes,
    keys: KeptKeys,
}

impl<'a> Lister<'a> {
    fn new(model: &'a Model, bucket: &Bucket, query: &'a VersionQuery) -> Lister<'a> {
        let base = rowkeys::objects(&bucket.id);
        let keys = KeptKeys {
            objects: base.clone(),
            kept: rowkeys::versions(&bucket.id),
        };
        Lister {
            model,
            query,
            bucket: bucket.id,
            base,
            keys,
        }
    }

    fn row_query(&self, partition: PartitionId, prefix: Bytes) -> RowQuery {
        RowQuery {
            hidden: true,
            versions: Some(self.keys.clone()),
            ..RowQuery::new(partition, prefix)
        }
    }

    /// Returns all partitions, without fetched entries.
    async fn sources(&self) -> Result<Vec<Source>, Error> {
        let partitions = rowkeys::bucket_partitions(self.model.cluster(), &self.bucket);
        let prefix = row_key(&self.base, &self.query.prefix);
        let begin = |start: ListStart| {
            let source = |partition| Source::new(partition, start.clone());
            partitions.iter().copied().map(source).collect()
        };
        let Some(after) = self.query.after_key.as_deref().filter(|a| !a.is_empty()) else {
            return Ok(begin(ListStart::At(prefix)));
        };
        if let Some(group) = self.group_of(after) {
            return Ok(begin(ListStart::AfterPrefix(row_key(&self.base, group))));
        }
        let key = row_key(&self.base, after);
        let mut sources: Vec<Source> = begin(ListStart::AfterPrefix(version_keys(&key)));
        let (Some(id), true) = (self.query.after_version, key.starts_with(&prefix)) else {
            return Ok(sources);
        };
        let partition = rowkeys::object(self.model.cluster(), &self.bucket, after).partition;
        let source = sources.iter_mut().find(|s| s.partition == partition);
        if let Some(source) = source {
            match id {
                VersionId::At(at) => {
                    source.next = Some(ListStart::After(version_key(&key, Some(at))));
                    source.begun = Some((key, at));
                }
                VersionId::Null => self.begin_after_null(source, key).await?,
            }
        }
        Ok(sources)
    }

    /// Returns the common prefix of the marker. A marker within a common prefix stands for all of
    /// it.
    fn group_of(&self, after: &'a str) -> Option<&'a str> {
        let delimiter = self.query.delimiter.as_deref().filter(|d| !d.is_empty())?;
        let rest = after.strip_prefix(&self.query.prefix)?;
        let end = rest.find(delimiter)? + delimiter.len();
        after.get(..self.query.prefix.len() + end)
    }

    /// Lets a source begin after the null version of a key. Its place among the versions is not in
    /// its name, so this takes a round.
    async fn begin_after_null(&self, source: &mut Source, key: Bytes) -> Result<(), Error> {
        let look = self.look(source.partition, &key);
        let found = self.model.cluster().list(look).await?;
        let mut versions = KeyVersions::of(key.clone(), found.entries);
        source.next = Some(match &versions.null {
            Some(null) => ListStart::At(version_key(&key, Some(null.order))),
            // It was deleted since: what was shown before it is likely deleted, too.
            None => ListStart::At(key),
        });
        (versions.null, versions.is_begun) = (None, true);
        source.versions = Some(versions);
        Ok(())
    }

    /// Returns the query for the current version's name, and for the null version of a key: they
    /// are the first rows.
    fn look(&self, partition: PartitionId, key: &Bytes) -> RowQuery {
        RowQuery {
            start: ListStart::At(key.clone()),
            limit: 2,
            ..self.row_query(partition, key.clone())
        }
    }

    /// Makes sure that a key has a current version. Returns true if its versions are listed once
    /// more.
    async fn settle(
        &self,
        sources: &mut [Source],
        bucket: &Bucket,
        key: &Bytes,
    ) -> Result<bool, Error> {
        let name = user_key(key, self.base.len())?;
        let row = rowkeys::object(self.model.cluster(), &self.bucket, &name);
        if !self.model.settle_current(bucket, &row).await? {
            return Ok(false);
        }
        for source in sources.iter_mut().filter(|s| s.partition == row.partition) {
            source.begin_again(row.key.clone());
        }
        Ok(true)
    }

    /// Takes the lowest entry of all sources. A common prefix that several sources have counts
    /// once.
    async fn pop(&self, sources: &mut [Source]) -> Result<Option<Listed>, Error> {
        self.refill(sources).await?;
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
    async fn refill(&self, sources: &mut [Source]) -> Result<(), Error> {
        let prefix = row_key(&self.base, &self.query.prefix);
        let share = self.query.limit / sources.len().max(1) + 1;
        loop {
            let (mut empty, mut queries) = (Vec::new(), Vec::new());
            for source in sources.iter_mut().filter(|s| s.fetched.is_empty()) {
                let Some(start) = source.next.take() else {
                    continue;
                };
                queries.push(RowQuery {
                    start,
                    delimiter: self.query.delimiter.clone().map(Bytes::from),
                    // A key has a row that names its current version.
                    limit: 2 * (share + share / 4 + 8),
                    ..self.row_query(source.partition, prefix.clone())
                });
                empty.push(source);
            }
            if empty.is_empty() {
                return Ok(());
            }
            let begun = empty.iter().filter_map(|source| {
                let (key, _) = source.begun.as_ref()?;
                Some(self.look(source.partition, key))
            });
            queries.extend(begun);
            let mut pages = self.model.cluster().list_all(&queries).await?;
            let begun = pages.split_off(empty.len()).pop();
            for (source, page) in empty.into_iter().zip(pages) {
                if let Some((key, after)) = source.begun.take() {
                    let found = begun.as_ref().map(|page| page.entries.clone());
                    source.begin(key, after, found.unwrap_or_default());
                }
                source.feed(&self.keys, page);
            }
        }
    }
}

/// Returns a query for the same page if the marker has NUL. No key has, so the marker is behind all
/// versions of the key that it begins with, and before all others.
fn behind_all(query: &VersionQuery) -> Option<VersionQuery> {
    let (key, _) = query.after_key.as_deref()?.split_once('\0')?;
    Some(VersionQuery {
        after_key: Some(key.to_owned()),
        after_version: None,
        ..query.clone()
    })
}

fn row_key(base: &Bytes, name: &str) -> Bytes {
    let mut key = BytesMut::with_capacity(base.len() + name.len());
    key.put_slice(base);
    key.put_slice(name.as_bytes());
    key.freeze()
}

/// Returns the user's key or prefix in a row's key. `base` is the length of what comes before it.
fn user_key(row: &Bytes, base: usize) -> Result<String, Error> {
    let name = row.get(base..).unwrap_or_default();
    String::from_utf8(name.to_vec()).map_err(|_| Error::Damaged("a key is not UTF-8".into()))
}

fn entry(listed: Listed, base: usize) -> Result<Option<VersionEntry>, Error> {
    let name = user_key(listed.name(), base)?;
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

//! Listings of a bucket's objects. They read all of its partitions at once and merge them. Storage
//! evaluates prefix and delimiter.

mod key_versions;
pub mod versions;

use std::collections::VecDeque;

use archipel_base::codec;
use archipel_base::{PartitionId, boxed};
use archipel_cluster::{ListEntry as Listed, ListQuery as RowQuery, ListStart};
use bytes::{BufMut, Bytes, BytesMut};

use crate::Model;
use crate::bucket::Bucket;
use crate::error::{Error, damaged_row};
use crate::object::ObjectHead;
use crate::rowkeys;

/// A request for a page of a bucket's objects.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// The prefix of the keys to list.
    pub prefix: String,
    /// The delimiter. Keys that contain it after the prefix are rolled up to a common prefix.
    pub delimiter: Option<String>,
    /// The listing leaves out keys and common prefixes up to and including this one.
    pub after: Option<String>,
    /// The largest number of entries.
    pub limit: usize,
}

/// An entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all entries are the large ones"
)]
pub enum ListEntry {
    /// An object.
    Object {
        /// The object's key.
        key: String,
        /// The object's metadata.
        metadata: ObjectHead,
    },
    /// A common prefix of keys. It ends with the delimiter.
    Prefix(String),
}

impl ListEntry {
    /// Returns the key or the prefix. Entries are sorted by it, bytewise.
    pub fn name(&self) -> &str {
        match self {
            ListEntry::Object { key, .. } => key,
            ListEntry::Prefix(prefix) => prefix,
        }
    }
}

/// A page of a listing, sorted bytewise by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<ListEntry>,
    /// True if more entries follow the last one.
    pub truncated: bool,
}

/// A partition that is being listed: its fetched entries, and the start of its next page.
struct Source {
    partition: PartitionId,
    fetched: VecDeque<Listed>,
    /// The start of the next page; `None` if there is none.
    next: Option<ListStart>,
}

impl Source {
    /// Returns the name of the next entry. Returns `None`, which sorts first, if the next page must
    /// be fetched.
    fn first(&self) -> Option<&Bytes> {
        self.fetched.front().map(name_of)
    }
}

/// Removes sources without more entries and sorts the others. Sources whose next page must be
/// fetched come first.
fn sort(sources: &mut Vec<Source>) {
    sources.retain(|source| !source.fetched.is_empty() || source.next.is_some());
    sources.sort_by(|a, b| a.first().cmp(&b.first()));
}

/// Does the same after an entry was taken from the first source only.
fn reinsert_first(sources: &mut Vec<Source>) {
    let Some((first, others)) = sources.split_first() else {
        return;
    };
    if first.fetched.is_empty() && first.next.is_none() {
        sources.remove(0);
        return;
    }
    let before = others.partition_point(|other| other.first() < first.first());
    sources[..=before].rotate_left(1);
}

impl Model {
    /// Returns a page of a bucket's objects.
    #[boxed]
    pub async fn list_objects(&self, bucket: &Bucket, query: &ListQuery) -> Result<Listing, Error> {
        if query.limit == 0 {
            return Ok(Listing::default());
        }
        let lister = Lister::new(self, bucket, query);
        let mut sources = lister.sources();
        let mut listing = Listing::default();
        while let Some(entry) = lister.pop(&mut sources).await? {
            if listing.entries.len() == query.limit {
                listing.truncated = true;
                break;
            }
            listing.entries.push(lister.entry(entry)?);
        }
        Ok(listing)
    }
}

struct Lister<'a> {
    model: &'a Model,
    query: &'a ListQuery,
    partitions: Vec<PartitionId>,
    /// The beginning of all row keys of the bucket's objects, before the user's key.
    base: Bytes,
}

impl<'a> Lister<'a> {
    fn new(model: &'a Model, bucket: &Bucket, query: &'a ListQuery) -> Lister<'a> {
        Lister {
            model,
            query,
            partitions: rowkeys::bucket_partitions(model.cluster(), &bucket.id),
            base: rowkeys::objects(&bucket.id),
        }
    }

    /// Returns all partitions without fetched entries.
    fn sources(&self) -> Vec<Source> {
        let start = self.start();
        let sources = self.partitions.iter().map(|partition| Source {
            partition: *partition,
            fetched: VecDeque::new(),
            next: Some(start.clone()),
        });
        sources.collect()
    }

    /// Returns the start of the listing: after `query.after`, or after its common prefix if it has
    /// one.
    fn start(&self) -> ListStart {
        let Some(after) = self.query.after.as_deref().filter(|a| !a.is_empty()) else {
            return ListStart::At(self.row_key(self.query.prefix.as_bytes()));
        };
        let delimiter = self.query.delimiter.as_deref().filter(|d| !d.is_empty());
        let group = delimiter.and_then(|delimiter| {
            let rest = after.strip_prefix(&self.query.prefix)?;
            let end = rest.find(delimiter)? + delimiter.len();
            Some(&after[..self.query.prefix.len() + end])
        });
        match group {
            Some(group) => ListStart::AfterPrefix(self.row_key(group.as_bytes())),
            None => ListStart::After(self.row_key(after.as_bytes())),
        }
    }

    fn row_key(&self, name: &[u8]) -> Bytes {
        let mut key = BytesMut::with_capacity(self.base.len() + name.len());
        key.put_slice(&self.base);
        key.put_slice(name);
        key.freeze()
    }

    /// Returns the number of entries to fetch from a partition. Keys are spread evenly, so a
    /// partition's share of a page and a little more is mostly enough. Otherwise the lister fetches
    /// again.
    fn batch(&self) -> usize {
        let share = self.query.limit / self.partitions.len() + 1;
        share + share / 4 + 8
    }

    /// Takes the lowest entry of all sources. A common prefix that several sources have counts
    /// once. The sources stay sorted by their next entry.
    async fn pop(&self, sources: &mut Vec<Source>) -> Result<Option<Listed>, Error> {
        if sources
            .first()
            .is_some_and(|source| source.fetched.is_empty())
        {
            self.refill(sources).await?;
            sort(sources);
        }
        let entry = sources.first_mut().and_then(|s| s.fetched.pop_front());
        let Some(entry) = entry else {
            return Ok(None);
        };
        match &entry {
            Listed::Row { .. } => reinsert_first(sources),
            Listed::Prefix(prefix) => {
                let same = sources.iter_mut().filter(|s| s.first() == Some(prefix));
                same.for_each(|source| _ = source.fetched.pop_front());
                sort(sources);
            }
        }
        Ok(Some(entry))
    }

    /// Fetches the next page of each source that has no fetched entries left.
    async fn refill(&self, sources: &mut [Source]) -> Result<(), Error> {
        loop {
            let prefix = self.row_key(self.query.prefix.as_bytes());
            let (mut empty, mut queries) = (Vec::new(), Vec::new());
            for source in sources.iter_mut().filter(|s| s.fetched.is_empty()) {
                let Some(start) = source.next.take() else {
                    continue;
                };
                queries.push(RowQuery {
                    start,
                    delimiter: self.query.delimiter.clone().map(Bytes::from),
                    limit: self.batch(),
                    ..RowQuery::new(source.partition, prefix.clone())
                });
                empty.push(source);
            }
            if empty.is_empty() {
                return Ok(());
            }
            let pages = self.model.cluster().list_all(&queries).await?;
            for (source, page) in empty.into_iter().zip(pages) {
                source.fetched.extend(page.entries);
                source.next = page.next;
            }
        }
    }

    fn entry(&self, listed: Listed) -> Result<ListEntry, Error> {
        let name = name_of(&listed).get(self.base.len()..).unwrap_or_default();
        let name = String::from_utf8(name.to_vec())
            .map_err(|_| Error::Damaged("a key is not UTF-8".into()))?;
        Ok(match listed {
            Listed::Prefix(_) => ListEntry::Prefix(name),
            Listed::Row { metadata, .. } => ListEntry::Object {
                key: name,
                metadata: codec::decode::<ObjectHead>(&metadata.metadata.unwrap_or_default())
                    .map_err(damaged_row)?,
            },
        })
    }
}

/// Returns the name by which an entry is sorted.
fn name_of(listed: &Listed) -> &Bytes {
    match listed {
        Listed::Row { key, .. } => key,
        Listed::Prefix(prefix) => prefix,
    }
}

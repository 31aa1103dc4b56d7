//! Listing a bucket: all its partitions at once, merged. Prefix and delimiter are evaluated in storage.

use std::collections::VecDeque;

use archipel_base::PartitionId;
use archipel_base::codec;
use archipel_cluster::{ListEntry as Listed, ListQuery as RowQuery, ListStart};
use bytes::{BufMut, Bytes, BytesMut};

use crate::Model;
use crate::bucket::Bucket;
use crate::content::damaged_row;
use crate::error::Error;
use crate::list::{ListEntry, ListQuery, Listing};
use crate::object::ObjectHead;
use crate::rowkeys;

/// A partition being listed: what was fetched of it, and where it goes on.
struct Source {
    partition: PartitionId,
    fetched: VecDeque<Listed>,
    /// Where the next page begins; `None` if there is none.
    next: Option<ListStart>,
}

impl Source {
    /// What comes next; none before everything if it is to be fetched.
    fn first(&self) -> Option<&Bytes> {
        self.fetched.front().map(name_of)
    }
}

/// Drops sources with nothing left, and puts the others in order; those of which more is to be fetched come first.
fn sort(sources: &mut Vec<Source>) {
    sources.retain(|source| !source.fetched.is_empty() || source.next.is_some());
    sources.sort_by(|a, b| a.first().cmp(&b.first()));
}

/// The same after only the first one gave an entry.
fn settle(sources: &mut Vec<Source>) {
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
    /// A page of a bucket's objects.
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
    /// What the row keys of the bucket's objects begin with, before the user's key.
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

    /// All partitions, of which nothing was fetched yet.
    fn sources(&self) -> Vec<Source> {
        let start = self.start();
        let sources = self.partitions.iter().map(|partition| Source {
            partition: *partition,
            fetched: VecDeque::new(),
            next: Some(start.clone()),
        });
        sources.collect()
    }

    /// Where the listing begins: behind `after`, and behind its common prefix if it lies in one.
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
            Some(group) => ListStart::BehindPrefix(self.row_key(group.as_bytes())),
            None => ListStart::Behind(self.row_key(after.as_bytes())),
        }
    }

    fn row_key(&self, name: &[u8]) -> Bytes {
        let mut key = BytesMut::with_capacity(self.base.len() + name.len());
        key.put_slice(&self.base);
        key.put_slice(name);
        key.freeze()
    }

    /// Keys are spread evenly, so a partition's share of a page and a bit more mostly suffices;
    /// where it does not, there is another fetch.
    fn batch(&self) -> usize {
        let share = self.query.limit / self.partitions.len() + 1;
        share + share / 4 + 8
    }

    /// Takes the lowest entry of all sources; a common prefix that several have counts once. The sources are kept in the order of what comes
    /// next of them.
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
            Listed::Row { .. } => settle(sources),
            Listed::Prefix(prefix) => {
                let same = sources.iter_mut().filter(|s| s.first() == Some(prefix));
                same.for_each(|source| _ = source.fetched.pop_front());
                sort(sources);
            }
        }
        Ok(Some(entry))
    }

    /// Fetches more wherever nothing is left and there is more.
    async fn refill(&self, sources: &mut [Source]) -> Result<(), Error> {
        loop {
            let prefix = self.row_key(self.query.prefix.as_bytes());
            let (mut dry, mut queries) = (Vec::new(), Vec::new());
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
                dry.push(source);
            }
            if dry.is_empty() {
                return Ok(());
            }
            let pages = self.model.cluster().list_all(&queries).await?;
            for (source, page) in dry.into_iter().zip(pages) {
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
            Listed::Row { head, .. } => ListEntry::Object {
                key: name,
                head: codec::decode::<ObjectHead>(&head.head.unwrap_or_default())
                    .map_err(damaged_row)?,
            },
        })
    }
}

/// What entries are sorted by.
fn name_of(listed: &Listed) -> &Bytes {
    match listed {
        Listed::Row { key, .. } => key,
        Listed::Prefix(prefix) => prefix,
    }
}

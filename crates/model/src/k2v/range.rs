//! Ranges of the items of a partition key.

use std::collections::VecDeque;

use archipel_base::boxed;
use archipel_cluster::{ListEntry, ListQuery, ListStart, Listing};
use bytes::{BufMut, BytesMut};
use futures_util::future::try_join_all;
use futures_util::{StreamExt, stream};

use super::items::Version;
use super::siblings::Siblings;
use super::{BATCHED_READS, Item, ItemName, READ_TOGETHER, check_bounds, check_pk};
use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::rowkeys;

/// The most ranges that a node is asked for with one message.
const RANGES_TOGETHER: usize = 64;
/// The number of items of a range that are deleted at once.
const DELETIONS_AT_ONCE: usize = 256;

/// A range of the items of a partition key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Range {
    /// The partition key.
    pub pk: String,
    /// The prefix of the sort keys.
    pub prefix: Option<String>,
    /// The first sort key: the lowest one, or the highest one if `reverse` is true.
    pub start: Option<String>,
    /// The sort key before which the range ends.
    pub end: Option<String>,
    /// The largest number of items; `None` for as many as there is room for.
    pub limit: Option<usize>,
    /// True if the items are wanted in descending order.
    pub reverse: bool,
    /// True if only items with several values are wanted.
    pub conflicts_only: bool,
    /// True if deleted items are wanted, too, as far as their deletions are remembered.
    pub tombstones: bool,
}

/// A page of a range.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// Sort keys and items.
    pub items: Vec<(String, Item)>,
    /// The sort key of the next item, if the page is full.
    pub next: Option<String>,
}

impl Range {
    /// Checks the partition key and the bounds.
    ///
    /// # Errors
    /// [`Error::InvalidName`].
    pub fn check(&self) -> Result<(), Error> {
        check_pk(&self.pk)?;
        check_bounds([&self.prefix, &self.start, &self.end])
    }

    fn limit(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }

    /// Returns the lowest sort key of the range, and whether the range begins behind it.
    pub(super) fn lowest(&self) -> (&str, bool) {
        let bound = if self.reverse { &self.end } else { &self.start };
        let bound = bound.as_deref().unwrap_or_default();
        let prefix = self.prefix.as_deref().unwrap_or_default();
        match bound >= prefix {
            true => (bound, self.reverse && self.end.is_some()),
            false => (prefix, false),
        }
    }

    /// Returns true if the range ends before this sort key or at it.
    pub(super) fn ends_before(&self, sk: &str) -> bool {
        match self.reverse {
            true => self.start.as_deref().is_some_and(|start| sk > start),
            false => self.end.as_deref().is_some_and(|end| sk >= end),
        }
    }
}

/// A walk through a range in ascending order.
pub(super) struct Walk<'r> {
    range: &'r Range,
    pub query: ListQuery,
    /// The length of the beginning that all row keys have in common.
    common: usize,
    pub ended: bool,
}

impl<'r> Walk<'r> {
    pub fn new(model: &Model, bucket: &Bucket, range: &'r Range) -> Walk<'r> {
        let (partition, base) = rowkeys::items_of(model.cluster(), &bucket.id, &range.pk);
        let within = |sk: &str| {
            let mut key = BytesMut::with_capacity(base.len() + sk.len());
            key.put_slice(&base);
            key.put_slice(sk.as_bytes());
            key.freeze()
        };
        let start = match range.lowest() {
            (lowest, true) => ListStart::After(within(lowest)),
            (lowest, false) => ListStart::At(within(lowest)),
        };
        Walk {
            range,
            query: ListQuery {
                start,
                tombstones: range.tombstones,
                limit: range.limit().min(READ_TOGETHER) + 1,
                ..ListQuery::new(
                    partition,
                    within(range.prefix.as_deref().unwrap_or_default()),
                )
            },
            common: base.len(),
            ended: false,
        }
    }

    /// Takes a page of the partition. Returns the versions in it.
    pub fn take(&mut self, page: Listing) -> Result<Vec<(String, Version)>, Error> {
        if !page.damaged.is_empty() {
            let why = format!("{} items of a range cannot be read", page.damaged.len());
            return Err(Error::Damaged(why));
        }
        match page.next {
            Some(next) => self.query.start = next,
            None => self.ended = true,
        }
        let mut versions = Vec::with_capacity(page.entries.len());
        for entry in page.entries {
            let ListEntry::Row { key, metadata } = entry else {
                continue;
            };
            let sk = key.get(self.common..).unwrap_or_default().to_vec();
            let sk = String::from_utf8(sk)
                .map_err(|_| Error::Damaged("a sort key is not UTF-8".into()))?;
            if self.range.ends_before(&sk) {
                self.ended = true;
                break;
            }
            let siblings =
                Siblings::of(metadata.metadata.as_ref(), metadata.stamp, metadata.write)?;
            if self.range.conflicts_only && siblings.0.len() < 2 {
                continue;
            }
            let version = Version {
                stamp: metadata.stamp,
                write: metadata.write,
                siblings,
            };
            versions.push((sk, version));
        }
        Ok(versions)
    }
}

/// A page that is being filled.
struct Filling<'r> {
    walk: Walk<'r>,
    items: VecDeque<(String, Item)>,
    /// The memory of the items, in bytes.
    bytes: usize,
    /// The most memory that the items may take, in bytes.
    room: usize,
    next: Option<String>,
    /// True if it begins when those in front of it have ended.
    waits: bool,
}

impl<'r> Filling<'r> {
    fn new(model: &Model, bucket: &Bucket, range: &'r Range, room: usize) -> Filling<'r> {
        Filling {
            walk: Walk::new(model, bucket, range),
            items: VecDeque::new(),
            bytes: 0,
            room,
            next: None,
            waits: false,
        }
    }

    fn is_open(&self) -> bool {
        let is_full = self.next.is_some() && !self.walk.range.reverse;
        !self.walk.ended && !is_full && !self.waits
    }

    fn push(&mut self, sk: String, item: Item) {
        let limit = self.walk.range.limit();
        let bytes = bytes_of(&sk, &item);
        if self.walk.range.reverse {
            // The last items are wanted, so the first ones give way.
            self.bytes += bytes;
            self.items.push_back((sk, item));
            while self.items.len() > limit || self.bytes > self.room {
                let Some((sk, item)) = self.items.pop_front() else {
                    break;
                };
                self.bytes -= bytes_of(&sk, &item);
                self.next = Some(sk);
            }
        } else if self.next.is_some() {
            // The page is full already.
        } else if self.items.len() == limit || self.bytes + bytes > self.room {
            self.next = Some(sk);
        } else {
            self.bytes += bytes;
            self.items.push_back((sk, item));
        }
    }

    fn page(self) -> Page {
        let mut items: Vec<_> = self.items.into();
        if self.walk.range.reverse {
            items.reverse();
        }
        Page {
            items,
            next: self.next,
        }
    }
}

/// Returns about what an item of a page takes in memory.
fn bytes_of(sk: &str, item: &Item) -> usize {
    size_of::<(String, Item)>() + sk.len() + item.token.len() + item.bytes()
}

/// Lets the pages that wait begin, each with its share of the room that the others leave. Returns
/// false if none waits.
fn share_what_is_left(all: &mut [Filling<'_>], most_bytes: usize) -> bool {
    let taken: usize = all.iter().map(|filling| filling.bytes).sum();
    let waiting = all.iter().filter(|filling| filling.waits).count();
    let share = most_bytes.saturating_sub(taken).checked_div(waiting);
    for filling in all.iter_mut().filter(|filling| filling.waits) {
        filling.waits = false;
        filling.room = share.unwrap_or_default();
    }
    waiting > 0
}

impl Model {
    /// Returns a page of each range. All together take one round trip, if their pages are short.
    /// Items in descending order take a walk through all of their range.
    ///
    /// The items of all pages take `most_bytes` of memory at most. Where there is more, the first
    /// ranges come first: later ones share what those leave, and may get a page without items that
    /// names the next one. The first page has an item, if its range has one.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::Damaged`] if an item cannot be read.
    #[boxed]
    pub async fn read_ranges(
        &self,
        bucket: &Bucket,
        ranges: &[Range],
        most_bytes: usize,
    ) -> Result<Vec<Page>, Error> {
        ranges.iter().try_for_each(Range::check)?;
        let begin = |range| Filling::new(self, bucket, range, most_bytes);
        let mut all: Vec<Filling<'_>> = ranges.iter().map(begin).collect();
        loop {
            let open = all.iter_mut().filter(|filling| filling.is_open());
            let mut open: Vec<_> = open.take(BATCHED_READS).collect();
            if open.is_empty() {
                if share_what_is_left(&mut all, most_bytes) {
                    continue;
                }
                return Ok(all.into_iter().map(Filling::page).collect());
            }
            let queries: Vec<_> = open
                .iter()
                .map(|filling| filling.walk.query.clone())
                .collect();
            // All of it at once: batches that each held a part and waited for more could wait for
            // each other for ever. The semaphore is never closed.
            let _room = self
                .inner
                .batched
                .acquire_many(queries.len() as u32)
                .await
                .ok();
            let lists = queries.chunks(RANGES_TOGETHER);
            let pages = try_join_all(lists.map(|some| self.cluster().list_all(some))).await?;
            let pages = pages.into_iter().flatten();
            for (filling, page) in open.iter_mut().zip(pages) {
                for (sk, version) in filling.walk.take(page)? {
                    let name = ItemName {
                        pk: filling.walk.range.pk.clone(),
                        sk,
                    };
                    if let Some(item) = version.item(&bucket.id, &name) {
                        filling.push(name.sk, item);
                    }
                }
            }
            let mut bytes: usize = all.iter().map(|filling| filling.bytes).sum();
            for last in all.iter_mut().rev().filter(|filling| filling.bytes > 0) {
                if bytes <= most_bytes {
                    break;
                }
                bytes -= last.bytes;
                *last = Filling {
                    waits: true,
                    ..begin(last.walk.range)
                };
            }
        }
    }

    /// Deletes all items of a range, as they are when they are read. Returns their number. Prefix,
    /// start and end count.
    ///
    /// # Errors
    /// [`Error::InvalidName`], and those of [`insert_item`](Model::insert_item). Some items may be
    /// deleted then.
    #[boxed]
    pub async fn delete_range(&self, bucket: &Bucket, range: &Range) -> Result<u64, Error> {
        range.check()?;
        let range = Range {
            pk: range.pk.clone(),
            prefix: range.prefix.clone(),
            start: range.start.clone(),
            end: range.end.clone(),
            ..Range::default()
        };
        let mut walk = Walk::new(self, bucket, &range);
        let (bundle, mut deleted) = (&self.cluster().bundle(), 0);
        while !walk.ended {
            // Settled: a deletion that only a minority accepted must not hide an item.
            let page = self.cluster().list_settled(walk.query.clone()).await?;
            let lives = |(_, version): &(String, Version)| {
                let seen = version.seen();
                seen.is_some_and(|seen| seen.tombstone.is_none())
            };
            let living = walk.take(page)?.into_iter().filter(lives);
            let deletions = living.map(|(sk, version)| {
                let pk = range.pk.clone();
                async move {
                    let name = ItemName { pk, sk };
                    let deletion = [(version.seen(), None)];
                    self.write_item(bucket, &name, &deletion, Some(bundle))
                        .await
                }
            });
            let deletions: Vec<_> = deletions.collect();
            let done = stream::iter(deletions).buffer_unordered(DELETIONS_AT_ONCE);
            let done: Vec<Result<(), Error>> = bundle.drive(done.collect()).await;
            for one in done {
                one?;
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    /// Deletes one item as it is when it is read. Returns the number of deleted items.
    ///
    /// # Errors
    /// As [`delete_range`](Model::delete_range).
    #[boxed]
    pub async fn delete_item(&self, bucket: &Bucket, name: &ItemName) -> Result<u64, Error> {
        self.delete_as_it_is(bucket, name).await.map(u64::from)
    }
}

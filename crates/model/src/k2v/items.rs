//! Operations on single items.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use archipel_base::{Id, Stamp, boxed};
use archipel_cluster::{Bundle, Current, Decision, WriteOptions};
use archipel_storage::RowKey;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use super::siblings::{Sibling, Siblings, check_size};
use super::token::Token;
use super::{BATCHED_READS, Item, ItemName, MAX_VALUE_BYTES, topic_of_item};
use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::rowkeys;

/// The number of items of a batch that are written at once.
const WRITES_AT_ONCE: usize = 1024;
/// The largest lead of a stamp over the clocks of other nodes: replicas refuse those beyond it.
const CLOCKS_APART_MS: u64 = 60_000;
/// The pause of a poll after a read that failed.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// An insert or a deletion of an item.
#[derive(Clone, Debug)]
pub struct Insert {
    /// The item.
    pub name: ItemName,
    /// The causality token of what the client has seen; `None` if it has seen nothing.
    pub token: Option<Bytes>,
    /// The new value; `None` deletes.
    pub value: Option<Bytes>,
}

/// A checked insert: what the client has seen, and the new value.
type Write = (Option<Token>, Option<Bytes>);

/// Checks that the values which are inserted into one item at once can stay together: none of them
/// has seen another one.
fn check_together(writes: &[Write]) -> Result<(), Error> {
    let values: BTreeSet<&Bytes> = writes
        .iter()
        .filter_map(|(_, value)| value.as_ref())
        .collect();
    check_size(values.len(), values.iter().map(|value| value.len()).sum())
}

/// A version of an item's row.
pub(super) struct Version {
    pub stamp: Stamp,
    pub write: Id,
    pub siblings: Siblings,
}

impl Version {
    /// Returns what a client that sees this version has seen; `None` if there is no item.
    pub fn seen(&self) -> Option<Token> {
        (self.stamp != Stamp::ZERO).then(|| Token {
            stamp: self.stamp,
            tombstone: self.siblings.is_tombstone().then_some(self.write),
        })
    }

    /// Returns true if the item has changed since a client has seen it.
    pub fn has_changed_since(&self, seen: Token) -> bool {
        if self.stamp == Stamp::ZERO {
            // Its tombstone was dropped. A client that has seen a tombstone knows that already.
            return seen.tombstone.is_none();
        }
        self.siblings.has_news_for(&seen)
    }

    /// Returns the item as a client sees it; `None` if there is none.
    pub fn item(&self, bucket: &Id, name: &ItemName) -> Option<Item> {
        let token = self.seen()?.encode(bucket, name);
        let values = self.siblings.0.iter();
        Some(Item {
            token,
            values: values.map(|sibling| sibling.value.clone()).collect(),
        })
    }
}

/// The patience of a poll: after a first read, replicas may be away for a while.
pub(super) struct Patience {
    end: Instant,
    has_read: bool,
}

impl Patience {
    pub fn until(end: Instant) -> Patience {
        Patience {
            end,
            has_read: false,
        }
    }

    /// Returns what was read. Returns `None` after a pause if it is to be read again.
    ///
    /// # Errors
    /// The error of the first read, of a read after which no time is left, and any error that does
    /// not pass.
    pub async fn take<T>(&mut self, read: Result<T, Error>) -> Result<Option<T>, Error> {
        match read {
            Ok(read) => {
                self.has_read = true;
                Ok(Some(read))
            }
            Err(Error::Unavailable(_) | Error::Busy(_))
                if self.has_read && Instant::now() + READ_AGAIN < self.end =>
            {
                tokio::time::sleep(READ_AGAIN).await;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns an item of which nothing is left since a client has seen it.
pub(super) fn gone(seen: Token, bucket: &Id, name: &ItemName) -> Item {
    Item {
        token: forgotten(seen).encode(bucket, name),
        values: vec![None],
    }
}

/// Returns what a client has seen that knows that nothing is left of an item.
pub(super) fn forgotten(seen: Token) -> Token {
    Token {
        tombstone: Some(seen.tombstone.unwrap_or_default()),
        ..seen
    }
}

/// Returns the error for a token that covers the dot that a new value would get.
///
/// A listing may have shown a version that no quorum holds, of a node whose clock is a little
/// ahead. The value must not get a dot below it: a later insert with the same token would replace
/// it unseen.
fn too_new(seen: Token, now_ms: u64) -> Error {
    if seen.stamp.millis() > now_ms + CLOCKS_APART_MS {
        return Error::InvalidCausalityToken;
    }
    Error::Unavailable("the causality token is of a node whose clock is ahead; try again".into())
}

/// Decides what becomes of an item when a value is written to it.
fn decide(
    current: Current<'_>,
    seen: Option<Token>,
    new: &Option<Bytes>,
    (bucket, pk): (&Id, &str),
    now_ms: u64,
) -> Decision<Error> {
    if let Some(seen) = seen.filter(|seen| seen.stamp >= current.own) {
        return Decision::Abort(too_new(seen, now_ms));
    }
    let metadata = current.value.map(|value| &value.metadata);
    let after = || {
        let now = Siblings::of(metadata, current.stamp, current.write)?;
        let after = now.after(seen.as_ref(), Sibling::new(current.own, new.clone()));
        // A deletion is always possible.
        if new.is_some() {
            after.check_insert()?;
        }
        Ok(after.to_value(bucket, pk))
    };
    match after() {
        Ok(value) => Decision::Write(value),
        Err(error) => Decision::Abort(error),
    }
}

impl Model {
    /// Returns an item; `None` if it was never inserted, or its deletion is forgotten.
    #[boxed]
    pub async fn read_item(&self, bucket: &Bucket, name: &ItemName) -> Result<Option<Item>, Error> {
        let row = self.item_row(bucket, name);
        Ok(self.item_version(&row).await?.item(&bucket.id, name))
    }

    /// Returns items as [`read_item`](Model::read_item) does, in the order of their names. All
    /// together take one round trip.
    ///
    /// # Errors
    /// [`Error::AnswerTooLarge`] if the values of all items have more than `most_bytes`; nothing
    /// more is read then.
    #[boxed]
    pub async fn read_items(
        &self,
        bucket: &Bucket,
        names: &[ItemName],
        most_bytes: usize,
    ) -> Result<Vec<Option<Item>>, Error> {
        let bytes = &AtomicUsize::new(0);
        let reads = names.iter().map(|name| async move {
            // The semaphore is never closed.
            let _room = self.inner.batched.acquire().await.ok();
            let item = self.read_item(bucket, name).await?;
            let more = item.as_ref().map_or(0, Item::bytes);
            match bytes.fetch_add(more, Ordering::Relaxed) + more > most_bytes {
                true => Err(Error::AnswerTooLarge),
                false => Ok(item),
            }
        });
        let reads: Vec<_> = reads.collect();
        let read = stream::iter(reads).buffered(BATCHED_READS);
        read.try_collect().await
    }

    fn item_row(&self, bucket: &Bucket, name: &ItemName) -> RowKey {
        rowkeys::item(self.cluster(), &bucket.id, &name.pk, &name.sk)
    }

    async fn item_version(&self, row: &RowKey) -> Result<Version, Error> {
        let version = self.cluster().read_stamped(row).await?;
        let metadata = version.value.as_ref().map(|value| &value.metadata);
        Ok(Version {
            stamp: version.stamp,
            write: version.write,
            siblings: Siblings::of(metadata, version.stamp, version.write)?,
        })
    }

    /// Inserts a value into an item, or deletes it. The values that the token covers are replaced;
    /// others stay beside the new one. It takes two round trips.
    ///
    /// # Errors
    /// [`Error::InvalidCausalityToken`], [`Error::TooLarge`], [`Error::TooManyValues`];
    /// [`Error::NoSuchBucket`] if the bucket was deleted meanwhile.
    #[boxed]
    pub async fn insert_item(&self, bucket: &Bucket, insert: &Insert) -> Result<(), Error> {
        let seen = self.check_insert(bucket, insert)?;
        self.write_item(bucket, &insert.name, seen, &insert.value, None)
            .await
    }

    fn check_insert(&self, bucket: &Bucket, insert: &Insert) -> Result<Option<Token>, Error> {
        let size = insert.value.as_ref().map_or(0, Bytes::len);
        if size > MAX_VALUE_BYTES {
            return Err(Error::TooLarge);
        }
        let token = insert.token.as_ref();
        let token = token.map(|token| Token::decode(token, &bucket.id, &insert.name));
        token.transpose()
    }

    pub(super) async fn write_item(
        &self,
        bucket: &Bucket,
        name: &ItemName,
        seen: Option<Token>,
        value: &Option<Bytes>,
        bundle: Option<&Arc<Bundle>>,
    ) -> Result<(), Error> {
        let row = self.item_row(bucket, name);
        let fence = self.open_fence_of(&bucket.id, &row);
        let commit = || async {
            let how = WriteOptions {
                guards: vec![fence.clone()],
                bundle: bundle.cloned(),
                ..WriteOptions::durable(self.durability(bucket))
            };
            let of = (&bucket.id, name.pk.as_str());
            let now_ms = self.now_ms();
            let decide = |current: Current<'_>| decide(current, seen, value, of, now_ms);
            self.cluster().update_stamped(&row, how, decide).await
        };
        self.commit_fenced(bucket, commit).await?
    }

    /// Inserts many values. Nothing is written if one of them is not valid. They are not written
    /// at once: if writing one fails, others may be written or not. Several inserts into one item
    /// happen in their order.
    ///
    /// # Errors
    /// As [`insert_item`](Model::insert_item): the first error.
    #[boxed]
    pub async fn insert_items(&self, bucket: &Bucket, inserts: Vec<Insert>) -> Result<(), Error> {
        let mut by_item: BTreeMap<ItemName, Vec<Write>> = BTreeMap::new();
        for insert in inserts {
            let seen = self.check_insert(bucket, &insert)?;
            let of_item = by_item.entry(insert.name).or_default();
            of_item.push((seen, insert.value));
        }
        for writes in by_item.values() {
            check_together(writes)?;
        }
        let bundle = &self.cluster().bundle();
        let writes = by_item.iter().map(|(name, writes)| async move {
            for (seen, value) in writes {
                self.write_item(bucket, name, *seen, value, Some(bundle))
                    .await?;
            }
            Ok(())
        });
        let writes: Vec<_> = writes.collect();
        let written = stream::iter(writes).buffer_unordered(WRITES_AT_ONCE);
        let written: Vec<Result<(), Error>> = bundle.drive(written.collect()).await;
        written.into_iter().collect()
    }

    /// Deletes an item as it is now, if anything is left of it. Returns true if something was.
    pub(super) async fn delete_as_it_is(
        &self,
        bucket: &Bucket,
        name: &ItemName,
    ) -> Result<bool, Error> {
        let version = self.item_version(&self.item_row(bucket, name)).await?;
        match version.seen() {
            Some(seen) if seen.tombstone.is_none() => {
                self.write_item(bucket, name, Some(seen), &None, None)
                    .await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Waits until an item has changed since its token was given out, and returns it. Returns
    /// `None` if it does not change in time.
    ///
    /// # Errors
    /// [`Error::InvalidCausalityToken`].
    #[boxed]
    pub async fn poll_item(
        &self,
        bucket: &Bucket,
        name: &ItemName,
        token: &[u8],
        time: Duration,
    ) -> Result<Option<Item>, Error> {
        let end = Instant::now() + time;
        let seen = Token::decode(token, &bucket.id, name)?;
        let row = self.item_row(bucket, name);
        let mut watch = self.cluster().watch(row.partition, topic_of_item(&row));
        let mut patience = Patience::until(end);
        loop {
            // Boxed, so that thousands of polls that wait hold no room for reading.
            Box::pin(watch.arm()).await?;
            let read = Box::pin(self.item_version(&row)).await;
            let Some(version) = patience.take(read).await? else {
                continue;
            };
            if version.has_changed_since(seen) {
                let item = version.item(&bucket.id, name);
                return Ok(Some(item.unwrap_or_else(|| gone(seen, &bucket.id, name))));
            }
            if tokio::time::timeout_at(end, watch.changed()).await.is_err() {
                return Ok(None);
            }
        }
    }
}

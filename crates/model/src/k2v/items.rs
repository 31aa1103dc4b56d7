//! Operations on single items.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use archipel_base::{Id, Stamp, boxed};
use archipel_cluster::{Bundle, Current, Decision, WriteOptions};
use archipel_storage::RowKey;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::siblings::{Siblings, Write, check_size};
use super::token::Token;
use super::{BATCHED_READS, Item, ItemName, MAX_VALUE_BYTES};
use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::rowkeys;

/// The number of items of a batch that are written at once.
const WRITES_AT_ONCE: usize = 1024;
/// The largest lead of a stamp over the clocks of other nodes: replicas refuse those beyond it.
const CLOCKS_APART_MS: u64 = 60_000;

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

/// The error of a batch of inserts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchError {
    /// The place of the insert that failed, from 0: the first one into its item.
    pub place: usize,
    /// Its error.
    pub error: Error,
}

impl BatchError {
    fn at(place: usize) -> impl FnOnce(Error) -> BatchError {
        move |error| BatchError { place, error }
    }

    /// Returns true if the insert would be refused again.
    fn is_refusal(&self) -> bool {
        matches!(
            self.error,
            Error::InvalidCausalityToken | Error::TooManyValues
        )
    }
}

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

/// Decides what becomes of an item when values are written to it at once.
fn decide(
    current: Current<'_>,
    writes: &[Write],
    (bucket, pk): (&Id, &str),
    now_ms: u64,
) -> Decision<Error> {
    let mut tokens = writes.iter().filter_map(|(seen, _)| *seen);
    if let Some(seen) = tokens.find(|seen| seen.stamp >= current.own) {
        return Decision::Abort(too_new(seen, now_ms));
    }
    let metadata = current.value.map(|value| &value.metadata);
    let after = || {
        let now = Siblings::of(metadata, current.stamp, current.write)?;
        let after = now.after(writes, current.own);
        // A deletion is always possible.
        if writes.iter().any(|(_, value)| value.is_some()) {
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

    pub(super) fn item_row(&self, bucket: &Bucket, name: &ItemName) -> RowKey {
        rowkeys::item(self.cluster(), &bucket.id, &name.pk, &name.sk)
    }

    pub(super) async fn item_version(&self, row: &RowKey) -> Result<Version, Error> {
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
        let write = [(seen, insert.value.clone())];
        self.write_item(bucket, &insert.name, &write, None).await
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

    /// Writes to an item: all of it at once, or nothing.
    pub(super) async fn write_item(
        &self,
        bucket: &Bucket,
        name: &ItemName,
        writes: &[Write],
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
            let decide = |current: Current<'_>| decide(current, writes, of, now_ms);
            self.cluster().update_stamped(&row, how, decide).await
        };
        self.commit_fenced(bucket, commit).await?
    }

    /// Inserts many values. Nothing is written if one of them is not valid. Those of one item are
    /// written at once, as if they followed each other: all of them, or none. If writing one item
    /// fails, others may be written or not.
    ///
    /// # Errors
    /// As [`insert_item`](Model::insert_item). [`Error::InvalidCausalityToken`] and
    /// [`Error::TooManyValues`] come after others: they say that all items that can be written are.
    #[boxed]
    pub async fn insert_items(
        &self,
        bucket: &Bucket,
        inserts: Vec<Insert>,
    ) -> Result<(), BatchError> {
        let mut by_item: BTreeMap<ItemName, (usize, Vec<Write>)> = BTreeMap::new();
        for (place, insert) in inserts.into_iter().enumerate() {
            let seen = self.check_insert(bucket, &insert);
            let seen = seen.map_err(BatchError::at(place))?;
            let of_item = by_item.entry(insert.name);
            let (_, writes) = of_item.or_insert_with(|| (place, Vec::new()));
            writes.push((seen, insert.value));
        }
        for (place, writes) in by_item.values() {
            check_together(writes).map_err(BatchError::at(*place))?;
        }
        let bundle = &self.cluster().bundle();
        let writes = by_item.iter().map(|(name, (place, writes))| async move {
            let written = self.write_item(bucket, name, writes, Some(bundle)).await;
            written.map_err(BatchError::at(*place))
        });
        let writes: Vec<_> = writes.collect();
        let written = stream::iter(writes).buffer_unordered(WRITES_AT_ONCE);
        let written: Vec<Result<(), BatchError>> = bundle.drive(written.collect()).await;
        let failed = written.into_iter().filter_map(Result::err);
        let told = failed.min_by_key(|failed| (failed.is_refusal(), failed.place));
        told.map_or(Ok(()), Err)
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
                let deletion = [(Some(seen), None)];
                self.write_item(bucket, name, &deletion, None).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

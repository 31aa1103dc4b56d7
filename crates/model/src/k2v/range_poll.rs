//! Polling ranges of the items of a partition key.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use archipel_base::boxed;

use super::marker::Marker;
use super::polls::{Patience, forgotten, gone, wait};
use super::range::{Range, Walk};
use super::{Item, ItemName, MAX_POLLED_BYTES, MAX_POLLED_ITEMS, topic_of_range};
use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::rowkeys;

/// The result of polling a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Polled {
    /// The marker of what the client has seen now.
    pub marker: Bytes,
    /// Sort keys and items that have changed.
    pub items: Vec<(String, Item)>,
}

impl Model {
    /// Waits until items of a range have changed since the marker was given out. Returns `None` if
    /// nothing changes in time. Without a marker, returns all items at once. Prefix, start and end
    /// count.
    ///
    /// # Errors
    /// [`Error::InvalidCausalityToken`]; [`Error::InvalidName`] for a range with more than
    /// [`MAX_POLLED_ITEMS`]; [`Error::NoSuchBucket`] once the bucket is deleted.
    #[boxed]
    pub async fn poll_range(
        &self,
        bucket: &Bucket,
        range: &Range,
        marker: Option<&[u8]>,
        time: Duration,
    ) -> Result<Option<Polled>, Error> {
        range.check()?;
        let end = Instant::now() + time;
        let seen = marker.map(|marker| Marker::decode(marker, &bucket.id, &range.pk));
        let seen = seen.transpose()?;
        let range = Range {
            pk: range.pk.clone(),
            prefix: range.prefix.clone(),
            start: range.start.clone(),
            end: range.end.clone(),
            tombstones: true,
            ..Range::default()
        };
        let (partition, base) = rowkeys::items_of(self.cluster(), &bucket.id, &range.pk);
        let mut watch = self.cluster().watch(partition, topic_of_range(&base));
        let mut patience = Patience::until(end);
        let mut deleted = self.deleted(bucket);
        loop {
            // Boxed, so that thousands of polls that wait hold no room for reading.
            Box::pin(watch.arm()).await?;
            let polled = Box::pin(self.changes_of(bucket, &range, seen.as_ref())).await;
            let Some(polled) = patience.take(polled).await? else {
                continue;
            };
            if seen.is_none() || !polled.items.is_empty() {
                return Ok(Some(polled));
            }
            if !wait(&mut watch, &mut deleted, end).await? {
                return Ok(None);
            }
        }
    }

    /// Returns the items of a range that have changed since they were seen.
    async fn changes_of(
        &self,
        bucket: &Bucket,
        range: &Range,
        seen: Option<&Marker>,
    ) -> Result<Polled, Error> {
        let mut walk = Walk::new(self, bucket, range);
        let (mut now, mut items) = (Marker::default(), Vec::new());
        let (mut found, mut bytes) = (0, 0);
        let mut left = seen.cloned().unwrap_or_default();
        while !walk.ended {
            // Settled: the marker says for good what the client has seen.
            let page = self.cluster().list_settled(walk.query.clone()).await?;
            for (sk, version) in walk.take(page)? {
                found += 1;
                if found > MAX_POLLED_ITEMS {
                    let why =
                        format!("a range that is polled has at most {MAX_POLLED_ITEMS} items");
                    return Err(Error::InvalidName(why));
                }
                let before = left.0.remove(&sk);
                let Some(token) = version.seen() else {
                    continue;
                };
                let is_news = match before {
                    Some(before) => version.has_changed_since(before),
                    // A marker has tombstones, too. So this one came and went since.
                    None => token.tombstone.is_none() || seen.is_some(),
                };
                let is_full = bytes > MAX_POLLED_BYTES;
                if is_news && is_full {
                    // The next poll returns it.
                    now.0.extend(before.map(|before| (sk, before)));
                    continue;
                }
                let name = ItemName {
                    pk: range.pk.clone(),
                    sk,
                };
                if is_news && let Some(item) = version.item(&bucket.id, &name) {
                    bytes += item.bytes();
                    items.push((name.sk.clone(), item));
                }
                now.0.insert(name.sk, token);
            }
        }
        // These are deleted, and their tombstones are dropped.
        for (sk, before) in left.0 {
            let prefix = range.prefix.as_deref().unwrap_or_default();
            let within = sk.starts_with(prefix) && sk.as_str() >= range.lowest().0;
            if !within || range.ends_before(&sk) {
                continue;
            }
            let name = ItemName {
                pk: range.pk.clone(),
                sk,
            };
            if before.tombstone.is_none() {
                items.push((name.sk.clone(), gone(before, &bucket.id, &name)));
                now.0.insert(name.sk, forgotten(before));
            }
        }
        Ok(Polled {
            marker: now.encode(&bucket.id, &range.pk),
            items,
        })
    }
}

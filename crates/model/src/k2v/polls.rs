//! Polls of single items, and the parts that all polls share.

use std::time::Duration;

use archipel_base::{Id, boxed};
use archipel_cluster::Watch;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::token::Token;
use super::{Item, ItemName, topic_of_item};
use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;

/// The pause of a poll after a read that failed.
const READ_AGAIN: Duration = Duration::from_secs(1);

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

/// Waits until the watched rows may have changed. Returns false if the time is over first.
///
/// # Errors
/// [`Error::NoSuchBucket`] once the bucket is deleted.
pub(super) async fn wait(
    watch: &mut Watch,
    deleted: &mut BoxFuture<'_, ()>,
    end: Instant,
) -> Result<bool, Error> {
    tokio::select! {
        // In this order, so that a simulation replays exactly.
        biased;
        () = deleted => Err(Error::NoSuchBucket),
        changed = tokio::time::timeout_at(end, watch.changed()) => Ok(changed.is_ok()),
    }
}

impl Model {
    /// Waits until an item has changed since its token was given out, and returns it. Returns
    /// `None` if it does not change in time.
    ///
    /// # Errors
    /// [`Error::InvalidCausalityToken`]; [`Error::NoSuchBucket`] once the bucket is deleted.
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
        let mut deleted = self.deleted(bucket);
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
            if !wait(&mut watch, &mut deleted, end).await? {
                return Ok(None);
            }
        }
    }
}

//! Write fences: keep commits out of a bucket that is being deleted.
//!
//! Each partition that holds keys of a bucket has a row, the *write fence*. It guards every write
//! of an object: a replica accepts the write only while the fence is open there, and checks that in
//! the write's transaction. So once closed fences are chosen, no node acknowledges another write,
//! and a bucket that is found empty after that stays empty.
//!
//! An operation that sets fences first takes the bucket's **fencing token**: a number in the
//! bucket's row that only grows. A conditional write takes it. A fence ignores lower tokens than
//! the last one that set it, and only the operation with the current token may delete the bucket.
//! So late messages of an operation that was overtaken change nothing.

use std::time::Duration;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, PartitionId};
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

use crate::Model;
use crate::bucket::{Bucket, FencingToken};
use crate::error::{Error, damaged_row};
use crate::rowkeys;

/// The time after which a token is taken over. Its owner has crashed, or its node is away.
const TOKEN_MS: u64 = 30_000;
/// How often a commit retries when it finds a fence closed.
const RETRIES: u32 = 20;
/// The pause before each retry.
const PAUSE: Duration = Duration::from_millis(100);

/// The row of a write fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct WriteFence {
    /// The token of the operation that set the fence.
    #[serde(rename = "t")]
    token: u64,
    #[serde(rename = "o")]
    open: bool,
}

impl Versioned for WriteFence {
    const VERSION: u8 = 1;
}

/// Returns true if a live row with this metadata permits the writes that it guards. A closed write
/// fence does not.
pub fn holds(key: &RowKey, metadata: &[u8]) -> bool {
    match rowkeys::kind(&key.key) {
        rowkeys::Kind::WriteFence => {
            codec::decode::<WriteFence>(metadata).is_ok_and(|fence| fence.open)
        }
        _ => true,
    }
}

impl Model {
    /// Returns the write fence that guards a row of a bucket.
    pub(crate) fn fence_of(&self, bucket: &Id, row: &RowKey) -> RowKey {
        rowkeys::write_fence(row.partition, bucket)
    }

    /// Waits before a commit that found a fence closed is tried again. Opens the fence if it should
    /// not be closed.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`] if the bucket is gone; [`Error::Conflict`] if its deletion takes
    /// longer than all `retries`.
    pub(crate) async fn on_closed_fence(&self, bucket: &Bucket, retries: u32) -> Result<(), Error> {
        let current = self.refresh_bucket(&bucket.name).await?;
        let current = current.filter(|current| current.id == bucket.id);
        let current = current.ok_or(Error::NoSuchBucket)?;
        let taken = current.token.taken_ms;
        let taken_for = taken.map(|taken| self.now_ms().abs_diff(taken));
        if taken_for.is_none_or(|ms| ms > TOKEN_MS) {
            self.open_fences(&current).await?;
        } else if retries < RETRIES {
            tokio::time::sleep(PAUSE).await;
        } else {
            return Err(Error::Conflict);
        }
        Ok(())
    }

    /// Takes the bucket's token, opens all fences, and releases the token.
    pub(crate) async fn open_fences(&self, bucket: &Bucket) -> Result<(), Error> {
        let token = self.take_token(bucket).await?;
        self.set_fences(&bucket.id, token, true).await?;
        self.release_token(bucket, token).await
    }

    /// Takes the bucket's fencing token and returns its number.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::Conflict`] if another operation has the token.
    pub(crate) async fn take_token(&self, bucket: &Bucket) -> Result<u64, Error> {
        let now = self.now_ms();
        let changed = self
            .change_row(bucket, move |row| {
                let taken = row.token.taken_ms;
                if taken.is_some_and(|taken| now.abs_diff(taken) <= TOKEN_MS) {
                    return Err(Error::Conflict);
                }
                row.token = FencingToken {
                    number: row.token.number + 1,
                    taken_ms: Some(now),
                };
                Ok(())
            })
            .await?;
        Ok(changed.token.number)
    }

    /// Releases a fencing token, unless another operation has taken a later one.
    pub(crate) async fn release_token(&self, bucket: &Bucket, token: u64) -> Result<(), Error> {
        let released = self.change_row(bucket, move |row| {
            if row.token.number == token {
                row.token.taken_ms = None;
            }
            Ok(())
        });
        released.await.map(|_| ())
    }

    /// Opens or closes all fences of a bucket.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a fence has seen a later token.
    pub(crate) async fn set_fences(
        &self,
        bucket: &Id,
        token: u64,
        open: bool,
    ) -> Result<(), Error> {
        let partitions = rowkeys::bucket_partitions(self.cluster(), bucket);
        let fence = WriteFence { token, open };
        let all = partitions
            .into_iter()
            .map(|partition| self.set_fence(partition, bucket, fence));
        try_join_all(all).await.map(|_| ())
    }

    async fn set_fence(
        &self,
        partition: PartitionId,
        bucket: &Id,
        fence: WriteFence,
    ) -> Result<(), Error> {
        let value = Value {
            metadata: codec::encode(&fence).into(),
            ..Value::default()
        };
        let row = rowkeys::write_fence(partition, bucket);
        let how = WriteOptions::durable(Durability::Fsync);
        self.cluster()
            .update(&row, how, move |current| {
                match current.map(|value| codec::decode::<WriteFence>(&value.metadata)) {
                    Some(Ok(old)) if old.token > fence.token => Decision::Abort(Error::Conflict),
                    Some(Err(error)) => Decision::Abort(damaged_row(error)),
                    _ => Decision::Write(Some(value.clone())),
                }
            })
            .await?
    }

    /// Runs a commit that a write fence guards, and retries it while the fence is closed.
    pub(crate) async fn commit_fenced<T, F>(
        &self,
        bucket: &Bucket,
        commit: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, archipel_cluster::Error>>,
    {
        for retries in 0.. {
            match commit().await {
                Err(archipel_cluster::Error::Guarded) => {
                    self.on_closed_fence(bucket, retries).await?;
                }
                other => return Ok(other?),
            }
        }
        Err(Error::Conflict)
    }
}

//! Write fences: keep commits out of a bucket that is being deleted, and commits that follow old
//! settings out of one whose settings have changed.
//!
//! Each partition that holds keys of a bucket has a row, the *write fence*. It guards every write
//! of an object: a replica accepts the write only while the fence is open there, and checks that in
//! the write's transaction. So once closed fences are chosen, no node acknowledges another write,
//! and a bucket that is found empty after that stays empty.
//!
//! A fence also holds the **generation** of the settings that decide what a write stores:
//! versioning and object lock. A write of an object names the generation that it follows, and a
//! fence of another generation refuses it. The node then reads the bucket again and follows its new
//! settings. So a change of these settings counts for every write that begins after the change was
//! answered, also on nodes that have not heard of it.
//!
//! A fence also holds the partition's share of the bucket's [quota](crate::quota).
//!
//! An operation that sets fences first takes the bucket's **fencing token**: a number in the
//! bucket's row that only grows. A conditional write takes it. A fence ignores lower tokens than
//! the last one that set it, and only the operation with the current token may delete the bucket.
//! So late messages of an operation that was overtaken change nothing.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, PartitionId};
use archipel_cluster::{Decision, Guard, UsageLimit, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

use crate::bucket::{Bucket, FencingToken};
use crate::error::{Error, damaged_row};
use crate::quota::{Adding, Share};
use crate::rowkeys;
use crate::{Model, detached};

/// The time after which a token is taken over. Its owner has crashed, or its node is away.
pub(crate) const TOKEN_MS: u64 = 30_000;
/// The number of times that a commit is tried again when it finds a fence closed.
pub(crate) const RETRIES: u32 = 20;
/// The pause before each retry.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// The state that an operation gives to fences.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FenceState {
    Open,
    Closed,
}

/// The row of a write fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct WriteFence {
    /// The token of the operation that set the fence.
    #[serde(rename = "t")]
    token: u64,
    #[serde(rename = "o")]
    open: bool,
    /// The generation of the bucket's settings.
    #[serde(rename = "g", default)]
    generation: u64,
    /// The most that the partition may hold of the bucket; `None` if the bucket has no quota.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    share: Option<Share>,
}

impl Versioned for WriteFence {
    const VERSION: u8 = 1;
}

/// Returns true if a live row with this metadata permits a write that it guards. A closed write
/// fence does not, and neither does one of another generation than the write expects. A write that
/// expects none goes through each open fence.
pub fn holds(key: &RowKey, metadata: &[u8], expects: &[u8]) -> bool {
    let permits = |fence: WriteFence| {
        fence.open && (expects.is_empty() || fence.generation.to_be_bytes() == *expects)
    };
    match rowkeys::kind(&key.key) {
        rowkeys::Kind::WriteFence => codec::decode::<WriteFence>(metadata).is_ok_and(permits),
        _ => true,
    }
}

/// Returns the limit that a live write fence with this metadata sets.
pub fn limit(key: &RowKey, metadata: &[u8]) -> Option<UsageLimit> {
    let group = rowkeys::fenced(key)?;
    let fence: WriteFence = codec::decode(metadata).ok()?;
    let Share { objects, bytes } = fence.share?;
    Some(UsageLimit {
        group,
        objects,
        bytes,
    })
}

impl Model {
    /// Returns the write fence that guards a row of a bucket, for a write of an object that follows
    /// the bucket's settings.
    pub(crate) fn fence_of(&self, bucket: &Bucket, row: &RowKey) -> Guard {
        Guard {
            row: rowkeys::write_fence(row.partition, &bucket.id),
            expects: bucket.generation.to_be_bytes().to_vec().into(),
            is_unlimited: false,
        }
    }

    /// Returns the same fence for a write of something else, which the settings and the quota do
    /// not concern.
    pub(crate) fn open_fence_of(&self, bucket: &Id, row: &RowKey) -> Guard {
        Guard::of(rowkeys::write_fence(row.partition, bucket)).unlimited()
    }

    /// Returns the bucket as it is, before a commit that a fence refused is tried again. Waits if
    /// another operation sets the fences. Opens them if they should not be closed, and makes room
    /// for what the commit is `adding` to the bucket.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`] if the bucket is gone; [`Error::QuotaExceeded`]; [`Error::Busy`] if
    /// the other operation takes longer than all `retries`.
    pub(crate) async fn on_closed_fence(
        &self,
        bucket: &Bucket,
        retries: u32,
        adding: Option<Adding<'_>>,
    ) -> Result<Arc<Bucket>, Error> {
        let current = self.refresh_bucket(&bucket.name).await?;
        let current = current.filter(|current| current.id == bucket.id);
        let current = Arc::new(current.ok_or(Error::NoSuchBucket)?);
        if current.generation != bucket.generation && retries < RETRIES {
            return Ok(current);
        }
        let taken = current.token.taken_ms;
        let taken_for = taken.map(|taken| self.now_ms().abs_diff(taken));
        if taken_for.is_none_or(|ms| ms > TOKEN_MS) {
            if let (Some(limit), Some(adding)) = (current.limit(), adding) {
                return self.make_room(current, limit, adding, retries).await;
            }
            // At least one try follows each opening, and replicas that refuse an open fence again
            // and again are not asked for ever.
            match self.open_fences(&current).await {
                Ok(()) if retries <= RETRIES => return Ok(current),
                Ok(()) | Err(Error::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        if retries < RETRIES {
            tokio::time::sleep(PAUSE).await;
            return Ok(current);
        }
        // Not a conflict: the commit itself met no other one.
        let why = "the bucket's write fences are being set";
        Err(Error::Busy(why.into()))
    }

    /// Takes the bucket's token, opens all fences, and releases the token. A caller that goes away
    /// does not stop it.
    pub(crate) async fn open_fences(&self, bucket: &Bucket) -> Result<(), Error> {
        let (model, bucket) = (self.clone(), bucket.clone());
        let opened = async move { model.open_fences_now(&bucket).await };
        detached("opens the fences of a bucket", opened).await
    }

    async fn open_fences_now(&self, bucket: &Bucket) -> Result<(), Error> {
        // A creation may have ended before it saw the quota of the bucket's user.
        if bucket.token.is_new() && self.limit_new_bucket(bucket).await?.is_some() {
            return Ok(());
        }
        let held = self.take_token(bucket, |_| Ok(())).await?;
        let opened = self.set_fences(&held, FenceState::Open).await;
        self.release_token_or_wait(&held).await;
        opened
    }

    /// Changes the settings that decide what a write stores. The change counts for every write that
    /// begins after this returns, on all nodes. Returns the bucket after the change.
    ///
    /// If this fails, the change may have been made. Then some writes follow it. A caller that goes
    /// away does not stop it: else the fences would refuse all writes until the token times out.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::Conflict`] if other operations have the token for too
    /// long; the error of `change`.
    pub(crate) async fn change_settings(
        &self,
        bucket: &Bucket,
        change: impl Fn(&mut Bucket) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Result<Arc<Bucket>, Error> {
        let (model, bucket) = (self.clone(), bucket.clone());
        let changed = async move { model.change_settings_now(&bucket, change).await };
        detached("changes the settings of a bucket", changed).await
    }

    async fn change_settings_now(
        &self,
        bucket: &Bucket,
        change: impl Fn(&mut Bucket) -> Result<(), Error> + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        let next = |row: &mut Bucket| {
            change(row)?;
            row.generation += 1;
            Ok(())
        };
        let mut tries = 0;
        let held = loop {
            match self.take_token(bucket, next).await {
                Err(Error::Conflict) if tries < RETRIES => {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                taken => break taken?,
            }
        };
        let set = self.set_fences(&held, FenceState::Open).await;
        self.release_token_or_wait(&held).await;
        set.map(|()| held)
    }

    /// Takes the bucket's fencing token, and makes another change of its row with it. Returns the
    /// bucket after that.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::Conflict`] if another operation has the token; the error
    /// of `change`.
    pub(crate) async fn take_token(
        &self,
        bucket: &Bucket,
        change: impl Fn(&mut Bucket) -> Result<(), Error> + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        let now = self.now_ms();
        self.change_row(bucket, move |row| {
            let taken = row.token.taken_ms;
            if taken.is_some_and(|taken| now.abs_diff(taken) <= TOKEN_MS) {
                return Err(Error::Conflict);
            }
            row.token = FencingToken {
                number: row.token.number + 1,
                taken_ms: Some(now),
            };
            change(row)
        })
        .await
    }

    /// Releases a fencing token, unless another operation has taken a later one. `held` is the
    /// bucket as it was when the token was taken.
    pub(crate) async fn release_token(&self, held: &Bucket) -> Result<(), Error> {
        self.release_token_with(held, |_| ()).await
    }

    /// Releases a fencing token after its work, also if that failed: the next writer then sets the
    /// fences at once. If the token cannot be released, others take it over when it has timed out.
    pub(crate) async fn release_token_or_wait(&self, held: &Bucket) {
        if let Err(error) = self.release_token(held).await {
            tracing::debug!(%error, bucket = held.name, "a fencing token is left to time out");
        }
    }

    /// Releases a fencing token with another change of the row, unless another operation has taken
    /// a later one.
    pub(crate) async fn release_token_with(
        &self,
        held: &Bucket,
        change: impl Fn(&mut Bucket) + Send + Sync,
    ) -> Result<(), Error> {
        let token = held.token.number;
        let released = self.change_row(held, move |row| {
            if row.token.number == token {
                row.token.taken_ms = None;
                change(row);
            }
            Ok(())
        });
        released.await.map(|_| ())
    }

    /// Opens or closes all fences of a bucket. Those of a bucket with a limit open with a share of
    /// it. `held` is the bucket as it was when the token was taken.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a fence has seen a later token.
    pub(crate) async fn set_fences(&self, held: &Bucket, to: FenceState) -> Result<(), Error> {
        match held.limit().filter(|_| to == FenceState::Open) {
            Some(limit) => self.share_out(held, limit, None).await,
            None => self.set_each_fence(held, to, |_| None).await,
        }
    }

    /// Does the same with a share for each partition, by its place among the bucket's partitions.
    pub(crate) async fn set_each_fence(
        &self,
        held: &Bucket,
        to: FenceState,
        share: impl Fn(usize) -> Option<Share>,
    ) -> Result<(), Error> {
        let partitions = rowkeys::bucket_partitions(self.cluster(), &held.id);
        let all = partitions.into_iter().enumerate().map(|(at, partition)| {
            let fence = WriteFence {
                token: held.token.number,
                open: to == FenceState::Open,
                generation: held.generation,
                share: share(at),
            };
            self.set_fence(partition, &held.id, fence)
        });
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

    /// Runs a read of an object, and retries it while a write fence is closed: a read must not
    /// answer with a write that was never acknowledged and that the bucket's deletion does not see.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`] if the bucket is gone; [`Error::Unavailable`] if its deletion takes
    /// longer than all retries.
    pub(crate) async fn read_fenced<T, F>(
        &self,
        bucket: &Bucket,
        row: &RowKey,
        read: impl Fn(Vec<Guard>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, archipel_cluster::Error>>,
    {
        let mut newer: Option<Arc<Bucket>> = None;
        for retries in 0..RETRIES {
            match read(vec![self.open_fence_of(&bucket.id, row)]).await {
                Err(archipel_cluster::Error::Guarded) => {
                    let known = newer.as_deref().unwrap_or(bucket);
                    newer = Some(self.on_closed_fence(known, retries, None).await?);
                }
                other => return Ok(other?),
            }
        }
        let why = "the bucket is being deleted, or its settings are being changed";
        Err(Error::Unavailable(why.into()))
    }

    /// Runs a commit of something that the bucket's settings do not concern, and retries it while
    /// the write fence is closed.
    pub(crate) async fn commit_fenced<T, F>(
        &self,
        bucket: &Bucket,
        commit: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, archipel_cluster::Error>>,
    {
        self.commit_by_settings(bucket, None, |_| commit()).await
    }

    /// Runs a commit that follows the bucket's settings, and retries it while the write fence
    /// refuses it. The commit gets the bucket if it has newer settings than `bucket`. `adding` says
    /// what it adds to the bucket.
    pub(crate) async fn commit_by_settings<T, F>(
        &self,
        bucket: &Bucket,
        adding: Option<Adding<'_>>,
        commit: impl Fn(Option<Arc<Bucket>>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, archipel_cluster::Error>>,
    {
        let mut newer: Option<Arc<Bucket>> = None;
        let mut retries = 0;
        loop {
            match commit(newer.clone()).await {
                Err(archipel_cluster::Error::Guarded) => {
                    let known = newer.as_deref().unwrap_or(bucket);
                    newer = Some(self.on_closed_fence(known, retries, adding).await?);
                    retries += 1;
                }
                other => return Ok(other?),
            }
        }
    }
}

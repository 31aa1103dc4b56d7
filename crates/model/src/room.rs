//! Room in buckets with a [quota](crate::quota).
//!
//! Each write fence of a bucket holds the **share** of its partition. A replica refuses a write
//! that would lift its own counter above the share, in the transaction of the write. So a write
//! within the shares costs no round trip more than one into a bucket without a quota.
//!
//! A write that a share refuses makes the node count the bucket. If the write fits the quota, the
//! node **shares out** the quota again: it takes the bucket's fencing token, takes all room back,
//! counts behind the fences, and sets the new shares under a new generation. The shares never come
//! to more than the quota.
//!
//! A bucket may hold as much as the lower one of its own quota and its part of its user's quota:
//! see `user`.
//!
//! Each replica keeps the share exactly. While replicas hold different rows, a partition may hold
//! more than each of them: with three replicas, A may hold the rows 1 and 2, B the rows 2 and 3,
//! and C the rows 1 and 3. See `docs/quotas.md` for the bound.

mod user;

use std::sync::Arc;
use std::time::Duration;

use archipel_base::boxed;
use futures_util::future::try_join_all;

use crate::bucket::Bucket;
use crate::error::Error;
use crate::fence::{FenceState, PAUSE, RETRIES};
use crate::identity::User;
use crate::quota::{Adding, Quota, Share, Usage};
use crate::rowkeys;
use crate::version::{VersionId, Versioning};
use crate::{Model, detached, version_rows};

pub(crate) use user::Divisions;

/// A quota of a bucket or of a user, and what was used of it when it was last counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fill {
    /// The name of the bucket or the user.
    pub name: String,
    /// The most that may be held.
    pub quota: Quota,
    /// The objects and bytes that are held.
    pub used: Usage,
}

/// The quotas that were counted last.
#[derive(Clone, Debug, Default)]
pub struct Filled {
    /// Those of buckets.
    pub buckets: Vec<Fill>,
    /// Those of users.
    pub users: Vec<Fill>,
}

/// The most quotas of each kind that are counted for metrics: each is a series in the store of
/// metrics.
const MAX_COUNTED: usize = 500;

/// The interval at which quotas are counted for metrics.
const COUNT_INTERVAL: Duration = Duration::from_secs(60);

/// The counts of a partition's replicas. They differ while some lack rows.
struct Counted {
    least: Usage,
    most: Usage,
}

impl Counted {
    fn of(counts: &[(u64, u64)]) -> Counted {
        let usage = |objects: Option<u64>, bytes: Option<u64>| Usage {
            objects: objects.unwrap_or_default(),
            bytes: bytes.unwrap_or_default(),
        };
        let (objects, bytes) = (counts.iter().map(|c| c.0), counts.iter().map(|c| c.1));
        Counted {
            least: usage(objects.clone().min(), bytes.clone().min()),
            most: usage(objects.max(), bytes.max()),
        }
    }
}

fn sum(all: impl Iterator<Item = Usage>) -> Usage {
    all.fold(Usage::default(), |sum, one| Usage {
        objects: sum.objects.saturating_add(one.objects),
        bytes: sum.bytes.saturating_add(one.bytes),
    })
}

impl Model {
    /// Sets the most that a bucket may hold, or lifts the limit. It counts for every write that
    /// begins after this returns, on all nodes. A bucket that holds more keeps it, and accepts what
    /// does not add to it.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::Conflict`] if another such change takes too long.
    #[boxed]
    pub async fn set_quota(&self, name: &str, quota: Quota) -> Result<Arc<Bucket>, Error> {
        let bucket = self.find_bucket(name).await?.ok_or(Error::NoSuchBucket)?;
        self.change_settings(&bucket, move |bucket| {
            bucket.quota = quota.if_any();
            Ok(())
        })
        .await
    }

    /// Returns quotas and what was used of them within the last minutes: of the first 500 buckets
    /// and users by name that have a quota.
    pub fn filled_quotas(&self) -> Filled {
        self.inner.quotas.lock().clone()
    }

    /// Counts what is used of quotas, again and again, and divides those of users where that is
    /// due. Run it in a task of its own.
    #[boxed]
    pub async fn count_quotas_forever(&self) {
        loop {
            self.divide_due_quotas().await;
            match self.count_quotas().await {
                Ok(counted) => *self.inner.quotas.lock() = counted,
                Err(error) => {
                    // An old figure would look like a present one.
                    *self.inner.quotas.lock() = Filled::default();
                    tracing::debug!(%error, "quotas cannot be counted");
                }
            }
            tokio::time::sleep(COUNT_INTERVAL).await;
        }
    }

    async fn count_quotas(&self) -> Result<Filled, Error> {
        let mut counted = Filled::default();
        let buckets = self.buckets()?.into_iter();
        let limited = buckets.filter_map(|bucket| Some((bucket.quota?, bucket)));
        for (quota, bucket) in limited.take(MAX_COUNTED) {
            let name = bucket.name.clone();
            match self.bucket_usage(&bucket).await {
                Ok(used) => counted.buckets.push(Fill { name, quota, used }),
                Err(error) => forget(&mut self.inner.quotas.lock().buckets, &name, &error),
            }
        }
        let users = self.entities::<User>()?.into_iter();
        let limited = users.filter_map(|user| Some((user.quota?, user)));
        for (quota, user) in limited.take(MAX_COUNTED) {
            let name = user.name.clone();
            match self.user_usage(&user).await {
                Ok((_, used)) => counted.users.push(Fill { name, quota, used }),
                Err(error) => forget(&mut self.inner.quotas.lock().users, &name, &error),
            }
        }
        Ok(counted)
    }

    /// Returns what each partition of a bucket holds.
    async fn count_bucket(&self, bucket: &Bucket) -> Result<Vec<Counted>, Error> {
        let partitions = rowkeys::bucket_partitions(self.cluster(), &bucket.id);
        let count = |partition| async move {
            let counts = self.cluster().counter_at_all(partition, bucket.id).await?;
            Ok(Counted::of(&counts))
        };
        try_join_all(partitions.into_iter().map(count)).await
    }

    /// Opens all fences of a bucket with shares of its quota. `held` is the bucket as it was when
    /// the token was taken.
    pub(crate) async fn share_out(
        &self,
        held: &Bucket,
        quota: Quota,
        wanted: Option<(usize, Usage)>,
    ) -> Result<(), Error> {
        // A write that is accepted between the count and the new shares would be in no share. So
        // nothing is accepted in between.
        self.set_each_fence(held, FenceState::Open, |_| Some(Share::NONE))
            .await?;
        let counted = self.count_bucket(held).await?;
        let used: Vec<Usage> = counted.iter().map(|counted| counted.most).collect();
        let shares = quota.shares(&used, wanted);
        let share = |at: usize| shares.get(at).copied();
        self.set_each_fence(held, FenceState::Open, share).await
    }

    /// Shares what a bucket may hold out again after a share refused a commit. Returns the bucket
    /// after that.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`] if what the commit adds does not fit the quota of the bucket or its
    /// user; [`Error::Busy`] if others use the room up again and again.
    pub(crate) async fn make_room(
        &self,
        bucket: Arc<Bucket>,
        limit: Quota,
        adding: Adding<'_>,
        retries: u32,
    ) -> Result<Arc<Bucket>, Error> {
        if retries >= RETRIES {
            let why = "the bucket's quota is being shared out";
            return Err(Error::Busy(why.into()));
        }
        let (counted, wanted) =
            futures_util::try_join!(self.count_bucket(&bucket), self.growth(&bucket, &adding))?;
        let (least, most) = (
            counted.iter().map(|c| c.least),
            counted.iter().map(|c| c.most),
        );
        let (least, most) = (sum(least), sum(most));
        let quota = bucket.quota.unwrap_or_default();
        if !quota.fits(least, wanted) {
            return Err(exceeded("the bucket's quota", &quota, most));
        }
        if !quota.fits(most, wanted) {
            // A replica has not got the newest deletions yet, or others lack the newest writes.
            if retries + 1 >= RETRIES {
                return Err(exceeded("the bucket's quota", &quota, most));
            }
            tokio::time::sleep(PAUSE).await;
            return Ok(bucket);
        }
        if !limit.fits(most, wanted) {
            let is_last = retries + 1 >= RETRIES;
            return self.make_user_room(bucket, wanted, is_last).await;
        }
        let partitions = rowkeys::bucket_partitions(self.cluster(), &bucket.id);
        let at = partitions.iter().position(|at| *at == adding.row.partition);
        let wanted = at.map(|at| (at, wanted));
        let (model, old) = (self.clone(), bucket.clone());
        // It goes on without its caller: else a client that goes away would leave all room taken
        // back until the token times out.
        let shared = async move { model.share_out_again(&old, limit, wanted).await };
        match detached("shares a quota out", shared).await {
            Err(Error::Conflict) => {
                tokio::time::sleep(PAUSE).await;
                Ok(bucket)
            }
            shared => shared,
        }
    }

    async fn share_out_again(
        &self,
        bucket: &Bucket,
        quota: Quota,
        wanted: Option<(usize, Usage)>,
    ) -> Result<Arc<Bucket>, Error> {
        let known = bucket.generation;
        let next = |row: &mut Bucket| {
            // Another node has shared out meanwhile, or the quota has changed.
            if row.generation != known {
                return Err(Error::Conflict);
            }
            row.generation += 1;
            Ok(())
        };
        let held = self.take_token(bucket, next).await?;
        let shared = self.share_out(&held, quota, wanted).await;
        self.release_token_or_wait(&held).await;
        shared.map(|()| held)
    }

    /// Returns by how much a commit makes the bucket grow at most.
    async fn growth(&self, bucket: &Bucket, adding: &Adding<'_>) -> Result<Usage, Error> {
        let new = Usage {
            objects: 1,
            bytes: adding.bytes,
        };
        let making = bucket.versioning.of_writes();
        let null = VersionId::Null.at();
        let replaced = match bucket.versioning {
            Versioning::Enabled => None,
            // A write replaces the null version, also if another one is current.
            _ => version_rows::read_version(self.cluster(), adding.row, null, making, &[]).await?,
        };
        Ok(match replaced.and_then(|value| value.usage) {
            Some(old) => Usage {
                objects: new.objects.saturating_sub(old.objects.into()),
                bytes: new.bytes.saturating_sub(old.bytes),
            },
            None => new,
        })
    }
}

/// Forgets what was used of a quota that cannot be counted now: an old figure would look like a
/// present one.
fn forget(fills: &mut Vec<Fill>, name: &str, error: &Error) {
    tracing::debug!(%error, name, "what is used of a quota cannot be counted");
    fills.retain(|fill| fill.name != name);
}

fn exceeded(what: &str, quota: &Quota, used: Usage) -> Error {
    let of = |used: u64, limit: Option<u64>, what: &str| match limit {
        Some(limit) => format!("{used} of {limit} {what}"),
        None => format!("{used} {what}"),
    };
    Error::QuotaExceeded(format!(
        "{what} is used up: {} and {}",
        of(used.objects, quota.objects, "objects"),
        of(used.bytes, quota.bytes, "bytes"),
    ))
}

#[cfg(test)]
mod tests;

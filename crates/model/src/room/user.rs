//! Quotas of users.
//!
//! A user's quota is lent to the buckets that the user created. Each bucket's row says how much the
//! bucket has of it, its **portion**, and its write fences hold shares of that as of a quota of its
//! own. So a write costs no round trip more. If a bucket has too little, its node **lends** the
//! quota again: it takes the fencing token in the user's row, counts all buckets of the user, takes
//! from buckets that use little of their part, and gives to the bucket that asks.
//!
//! # No byte is lent twice
//! A bucket that gives comes first: its fences hold the lower shares, and it is counted once more,
//! before another one gets more. Until its fences hold them, its row says that its portion is
//! pending. So if a node dies before that, the next division sets the fences first. A change of a
//! portion names the generation of the bucket that was counted, and raises it. So a division that
//! was overtaken changes no bucket that a later one has changed.
//!
//! A bucket's row begins with a portion of nothing if its node knows of the quota. A creation
//! writes that row and then reads the user's. A change of the quota writes the user's row and then
//! reads those of all buckets. So one of the two sees the other, and each bucket gets a portion.
//! The first write ends a creation that was interrupted.

mod ask;
mod token;

use std::sync::Arc;

use archipel_base::{Id, boxed};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::{Counted, exceeded, sum};
use crate::bucket::Bucket;
use crate::error::Error;
use crate::fence::{FenceState, PAUSE, RETRIES};
use crate::identity::{Attached, Changed, User, unique_id};
use crate::quota::{Lent, Quota, Usage, lend};
use crate::{Model, detached};

pub(crate) use ask::Divisions;

/// The number of buckets that are counted or changed at once.
const AT_ONCE: usize = 16;

/// A bucket that wants room, by its id, and how much.
type Wanted = Option<(Id, Usage)>;

/// Buckets, each with the portion that it is to have; `None` for no limit.
type Divided = Vec<(Arc<Bucket>, Option<Quota>)>;

impl Bucket {
    /// Returns the unique id of the user who created the bucket: only creations make users owners.
    fn user(&self) -> Option<&str> {
        let mut owners = self.grants.iter().filter(|(_, grant)| grant.is_owner());
        let is_user = |id: &str, incarnation| id == unique_id(User::PREFIX, incarnation);
        let user = owners.find(|(id, grant)| is_user(id, grant.incarnation));
        user.map(|(id, _)| id.as_str())
    }

    /// Returns the most that the bucket may hold; `None` without a limit.
    pub(crate) fn limit(&self) -> Option<Quota> {
        let own = self.quota.unwrap_or_default();
        own.min(self.portion.unwrap_or_default()).if_any()
    }
}

impl Model {
    /// Sets the most that all buckets together may hold which a user created, or lifts the limit.
    /// It counts for every write that begins after this returns, on all nodes. Buckets that hold
    /// more keep it, and accept what does not add to them.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`]; [`Error::Conflict`] if another such change takes too long.
    #[boxed]
    pub async fn set_user_quota(
        &self,
        name: &str,
        quota: Quota,
    ) -> Result<Changed<Arc<User>>, Error> {
        let (model, name) = (self.clone(), name.to_owned());
        // It goes on without its caller: else the quota would be shown, and buckets would not have
        // portions of it.
        let set = async move { model.set_user_quota_now(&name, quota).await };
        detached("sets the quota of a user", set).await
    }

    async fn set_user_quota_now(
        &self,
        name: &str,
        quota: Quota,
    ) -> Result<Changed<Arc<User>>, Error> {
        let mut tries = 0;
        let held = loop {
            match self.write_user_quota(name, quota).await {
                Err(Error::Conflict) if tries < RETRIES => {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                taken => break taken?,
            }
        };
        let lent = self.lend(&held.value, None, None).await;
        self.release_user_token(&held.value, lent.is_ok()).await;
        lent.map(|()| held)
    }

    /// Takes the user's token and writes another quota into the row. The row says that a division
    /// is due.
    async fn write_user_quota(
        &self,
        name: &str,
        quota: Quota,
    ) -> Result<Changed<Arc<User>>, Error> {
        let change = move |user: &mut User| {
            user.quota = quota.if_any();
            user.is_undivided = true;
        };
        self.take_user_token(name, change).await
    }

    /// Divides the quotas whose buckets have no portions of them yet: a node has died, or buckets
    /// were busy for too long.
    pub(super) async fn divide_due_quotas(&self) {
        let users = self.entities::<User>().unwrap_or_default().into_iter();
        for user in users.filter(|user| user.is_undivided && !self.is_taken(user)) {
            if let Err(error) = self.divide_due_quota(&user.name).await {
                tracing::debug!(%error, user = user.name, "a quota is not divided yet");
            }
        }
    }

    async fn divide_due_quota(&self, name: &str) -> Result<(), Error> {
        let held = self.take_user_token(name, |_| ()).await?.value;
        let lent = match held.is_undivided {
            true => self.lend(&held, None, None).await,
            // Another node has divided it meanwhile.
            false => Ok(()),
        };
        self.release_user_token(&held, lent.is_ok()).await;
        lent
    }

    /// Returns how many buckets a user created, and what they hold.
    ///
    /// # Errors
    /// As [`Model::buckets`]; [`Error::Unavailable`].
    #[boxed]
    pub async fn user_usage(&self, user: &User) -> Result<(usize, Usage), Error> {
        let buckets = self.buckets_of(user)?;
        let counts = buckets.iter().map(|bucket| self.bucket_usage(bucket));
        let counts: Vec<_> = counts.collect();
        let counts: Vec<Usage> = stream::iter(counts)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        Ok((buckets.len(), sum(counts.into_iter())))
    }

    fn buckets_of(&self, user: &User) -> Result<Vec<Arc<Bucket>>, Error> {
        let id = user.id();
        let mut buckets = self.buckets()?;
        buckets.retain(|bucket| bucket.user() == Some(id.as_str()));
        Ok(buckets)
    }

    /// Returns the user who created a bucket; `None` if there is none any more.
    fn user_of(&self, bucket: &Bucket) -> Result<Option<Arc<User>>, Error> {
        let Some(id) = bucket.user() else {
            return Ok(None);
        };
        let users = self.entities::<User>()?;
        Ok(users.into_iter().find(|user| user.id() == id))
    }

    /// Returns the user who created a bucket, as it is now; `None` if there is none any more.
    async fn fresh_user_of(&self, bucket: &Bucket) -> Result<Option<Arc<User>>, Error> {
        let Some(id) = bucket.user() else {
            return Ok(None);
        };
        if self.user_of(bucket)?.is_none() {
            // This node may not have heard of the user yet.
            self.refresh_all().await?;
        }
        let Some(user) = self.user_of(bucket)? else {
            return Ok(None);
        };
        let user = self.refresh_entity::<User>(&user.name).await?;
        Ok(user.filter(|user| user.id() == id))
    }

    /// Returns the portion that a new bucket begins with: its first write asks for more. `None` if
    /// its user has no quota.
    pub(crate) fn first_portion(&self, bucket: &Bucket) -> Result<Option<Quota>, Error> {
        let quota = self.user_of(bucket)?.and_then(|user| user.quota);
        Ok(quota.map(Quota::nothing))
    }

    /// Gives a new bucket another first portion and opens its fences with it, if its user has got
    /// another quota since its row was made. Returns `None` if not.
    pub(crate) async fn limit_new_bucket(
        &self,
        bucket: &Bucket,
    ) -> Result<Option<Arc<Bucket>>, Error> {
        let user = self.fresh_user_of(bucket).await?;
        let Some(quota) = user.and_then(|user| user.quota) else {
            return Ok(None);
        };
        let (before, nothing) = (bucket.portion, Some(quota.nothing()));
        if before == nothing {
            return Ok(None);
        }
        let limit = move |row: &mut Bucket| {
            // Else the change of the quota has seen the bucket.
            if row.portion == before {
                row.portion = nothing;
                row.portion_pending = true;
            }
            Ok(())
        };
        self.change_settings(bucket, limit).await.map(Some)
    }

    /// Divides a user's quota among the buckets, with room for what one of them wants. `held` is
    /// the user as it was when the token was taken, and `counted` what it came to if that was
    /// counted already.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`]; [`Error::Conflict`] if others change the buckets again and again.
    async fn lend(
        &self,
        held: &User,
        wanted: Wanted,
        mut counted: Option<Divided>,
    ) -> Result<(), Error> {
        for _ in 0..RETRIES {
            match self.lend_once(held, wanted, counted.take()).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // A bucket was changed, or deleted.
                Err(Error::Conflict | Error::NoSuchBucket) => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
        Err(Error::Conflict)
    }

    /// Lowers portions, or raises them if none is to be lowered. Returns true if no more is to be
    /// done.
    ///
    /// Each bucket is counted before another one gets more. It may grow after that, up to its
    /// portion, and that much counts as held.
    async fn lend_once(
        &self,
        held: &User,
        wanted: Wanted,
        counted: Option<Divided>,
    ) -> Result<bool, Error> {
        let after = match counted {
            Some(counted) => counted,
            None => self.divide(held, wanted, false).await?,
        };
        let lower = |(bucket, after): &(Arc<Bucket>, Option<Quota>)| {
            let lowest = after.map(|after| after.min(bucket.portion.unwrap_or(after)));
            let is_to_be_set = bucket.portion_pending || lowest != bucket.portion;
            (lowest.is_some() && is_to_be_set).then(|| (bucket.clone(), lowest))
        };
        let lowered: Vec<_> = after.iter().filter_map(lower).collect();
        if !lowered.is_empty() {
            self.set_portions(&lowered).await?;
            return Ok(false);
        }
        // A division that took too long was overtaken.
        let user = self.refresh_entity::<User>(&held.name).await?;
        if user.is_none_or(|user| user.token.number != held.token.number) {
            return Err(Error::Conflict);
        }
        self.set_portions(&after).await?;
        Ok(true)
    }

    /// Returns the buckets of a user, each with its portion if one of them gets what it wants.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`]; [`Error::Conflict`] if some replicas lack the newest deletions,
    /// unless it `is_last` that is tried.
    async fn divide(&self, user: &User, wanted: Wanted, is_last: bool) -> Result<Divided, Error> {
        // Buckets that other nodes have created and changed until now count.
        self.refresh_all().await?;
        let buckets = self.buckets_of(user)?;
        let Some(quota) = user.quota else {
            return Ok(buckets.into_iter().map(|bucket| (bucket, None)).collect());
        };
        let counts = buckets.iter().map(|bucket| self.count_whole(bucket));
        let counts: Vec<_> = counts.collect();
        let counts: Vec<Counted> = stream::iter(counts).buffered(AT_ONCE).try_collect().await?;
        let lent = |count: fn(&Counted) -> Usage| -> Vec<Lent> {
            let each = buckets.iter().zip(&counts);
            let each = each.map(|(bucket, counted)| Lent {
                portion: bucket.portion,
                used: count(counted),
            });
            each.collect()
        };
        let place = |id| buckets.iter().position(|bucket| bucket.id == id);
        let wanted = wanted.and_then(|(id, usage)| Some((place(id)?, usage)));
        let most = lent(|counted| counted.most);
        match lend(quota, &most, wanted) {
            Some(after) => {
                let after = after.into_iter().map(Some);
                Ok(buckets.into_iter().zip(after).collect())
            }
            None if !is_last && lend(quota, &lent(|counted| counted.least), wanted).is_some() => {
                Err(Error::Conflict)
            }
            None => {
                let used = sum(most.iter().map(|one| one.used));
                Err(exceeded("the user's quota", &quota, used))
            }
        }
    }

    /// Gives buckets other portions, and their fences shares of them.
    async fn set_portions(&self, all: &[(Arc<Bucket>, Option<Quota>)]) -> Result<(), Error> {
        let changed = all
            .iter()
            .filter(|(bucket, portion)| bucket.portion_pending || bucket.portion != *portion);
        let changes = changed.map(|(bucket, portion)| self.set_portion(bucket, *portion));
        let changes: Vec<_> = changes.collect();
        // None is dropped half done: its bucket would be without room until the token times out.
        let all = stream::iter(changes).buffer_unordered(AT_ONCE);
        let done: Vec<Result<(), Error>> = all.collect().await;
        done.into_iter().collect()
    }

    /// Gives a bucket another portion, unless it was changed since it was read.
    async fn set_portion(&self, bucket: &Bucket, portion: Option<Quota>) -> Result<(), Error> {
        let known = bucket.generation;
        let next = move |row: &mut Bucket| {
            if row.generation != known {
                return Err(Error::Conflict);
            }
            row.portion = portion;
            row.portion_pending = true;
            row.generation += 1;
            Ok(())
        };
        let held = self.take_token(bucket, next).await?;
        let set = self.set_fences(&held, FenceState::Open).await;
        let is_set = set.is_ok();
        let released = self.release_token_with(&held, move |row| {
            row.portion_pending = !is_set;
        });
        if let Err(error) = released.await {
            tracing::debug!(%error, bucket = held.name, "a fencing token is left to time out");
        }
        set
    }

    /// Counts a bucket over all partitions.
    async fn count_whole(&self, bucket: &Bucket) -> Result<Counted, Error> {
        let counted = self.count_bucket(bucket).await?;
        Ok(Counted {
            least: sum(counted.iter().map(|one| one.least)),
            most: sum(counted.iter().map(|one| one.most)),
        })
    }
}

#[cfg(test)]
mod tests;

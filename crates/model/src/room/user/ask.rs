//! Writes that ask for room in their user's quota.
//!
//! A division counts all buckets of the user. So a node makes one at a time for each user. A write
//! that waited for one takes its result if that refused as much.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::bucket::Bucket;
use crate::error::Error;
use crate::fence::PAUSE;
use crate::quota::Usage;
use crate::{Model, detached};

/// The time for which a write waits for the divisions of others.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The turns of users whose quotas this node divides for writes, by unique id.
#[derive(Default)]
pub(crate) struct Divisions(parking_lot::Mutex<BTreeMap<String, Arc<Turn>>>);

/// The right to divide a user's quota on this node, and the last write that did not fit it.
type Turn = Mutex<Option<Refusal>>;

struct Refusal {
    /// The time before the buckets were counted.
    counted: Instant,
    wanted: Usage,
    error: Error,
}

impl Divisions {
    fn turn(&self, user: &str) -> Arc<Turn> {
        let mut turns = self.0.lock();
        // No write has the others, or waits for them.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(user.to_owned()).or_default().clone()
    }
}

impl Refusal {
    /// Returns true if a write that has wanted this much since then does not fit, either.
    fn covers(&self, asked: Instant, wanted: Usage) -> bool {
        self.counted > asked
            && wanted.objects >= self.wanted.objects
            && wanted.bytes >= self.wanted.bytes
    }
}

impl Model {
    /// Lends the quota of a bucket's user again after a share refused a commit, so that this much
    /// can be added. Returns the bucket after that. `is_last` says that the commit does not ask
    /// again.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`] if it does not fit the user's quota; [`Error::Busy`] if many others
    /// ask.
    pub(crate) async fn make_user_room(
        &self,
        bucket: Arc<Bucket>,
        wanted: Usage,
        is_last: bool,
    ) -> Result<Arc<Bucket>, Error> {
        let asked = Instant::now();
        let turn = self.inner.divisions.turn(bucket.user().unwrap_or_default());
        let Ok(mut last) = timeout(MAX_WAIT, turn.lock_owned()).await else {
            let why = "the user's quota is being divided";
            return Err(Error::Busy(why.into()));
        };
        if let Some(last) = &*last
            && last.covers(asked, wanted)
        {
            return Err(last.error.clone());
        }
        let (model, name) = (self.clone(), bucket.name.clone());
        // It goes on without its caller, as a division among partitions does.
        let lent = async move {
            let counted = Instant::now();
            let lent = model.make_user_room_if(&bucket, wanted, is_last).await;
            if let Err(error @ Error::QuotaExceeded(_)) = &lent {
                let error = error.clone();
                *last = Some(Refusal {
                    counted,
                    wanted,
                    error,
                });
            }
            lent
        };
        match detached("lends of a user's quota", lent).await {
            Ok(()) => {}
            // Another node divides.
            Err(Error::Conflict) => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(error),
        }
        let bucket = self.refresh_bucket(&name).await?;
        Ok(Arc::new(bucket.ok_or(Error::NoSuchBucket)?))
    }

    /// Makes room unless the bucket has changed while the write waited for other divisions.
    async fn make_user_room_if(
        &self,
        bucket: &Bucket,
        wanted: Usage,
        is_last: bool,
    ) -> Result<(), Error> {
        let now = self.refresh_bucket(&bucket.name).await?;
        let is_same = |now: Bucket| now.id == bucket.id && now.generation == bucket.generation;
        match now.is_some_and(is_same) {
            true => self.make_user_room_now(bucket, wanted, is_last).await,
            false => Ok(()),
        }
    }

    pub(super) async fn make_user_room_now(
        &self,
        bucket: &Bucket,
        wanted: Usage,
        is_last: bool,
    ) -> Result<(), Error> {
        let Some(user) = self.fresh_user_of(bucket).await? else {
            // The user is deleted, and does not come back.
            return self.set_portion(bucket, None).await;
        };
        if self.is_taken(&user) {
            return Err(Error::Conflict);
        }
        let wanted = Some((bucket.id, wanted));
        // A refused write changes nothing.
        let counted = self.divide(&user, wanted, is_last).await?;
        let held = self.take_user_token(&user.name, |_| ()).await?.value;
        // No other operation had the token since before the count, so it is as good as one behind
        // the token.
        let is_next = user.token.taken_ms.is_none()
            && held.incarnation == user.incarnation
            && held.token.number == user.token.number + 1;
        let lent = self.lend(&held, wanted, is_next.then_some(counted)).await;
        // Also if it failed, so that the next writer asks at once.
        self.release_user_token(&held, lent.is_ok()).await;
        lent
    }
}

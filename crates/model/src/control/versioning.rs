//! The settings that decide what a write stores: versioning and object lock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use archipel_base::boxed;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::lock::BucketLock;
use crate::rowkeys;
use crate::version::Versioning;

/// The pause before the nodes that did not answer are told again.
const PAUSE: Duration = Duration::from_secs(1);
/// A lease is over for sure after this many times its length, although clocks do not run alike.
const LEASES: f64 = 1.1;

impl Model {
    /// Enables or suspends versioning. That counts for every write that begins after this returns,
    /// on all nodes. While a node does not answer, it takes as long as that node's lease.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::LockKeepsVersions`] for suspension of a bucket with object
    /// lock; [`Error::Conflict`] if another such change takes too long; [`Error::Unavailable`] if
    /// it is not known how long to wait for a node. Then the change is made, and may not count
    /// everywhere.
    #[boxed]
    pub async fn set_versioning(
        &self,
        bucket: &Bucket,
        versioning: Versioning,
    ) -> Result<Arc<Bucket>, Error> {
        let change = move |bucket: &mut Bucket| {
            if bucket.lock.is_some() && versioning != Versioning::Enabled {
                return Err(Error::LockKeepsVersions);
            }
            if versioning.has_versions() || !bucket.versioning.has_versions() {
                bucket.versioning = versioning;
                return Ok(());
            }
            Err(Error::Internal("versioning never ends".into()))
        };
        let changed = self.change_settings(bucket, change).await?;
        if versioning == Versioning::Enabled {
            self.wait_until_known(&changed).await?;
        }
        Ok(changed)
    }

    /// Sets the object lock configuration, with the same effect on writes and the same wait. It can
    /// be changed, and not removed.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::LockNeedsVersions`] unless versioning is enabled;
    /// [`Error::Conflict`] if another such change takes too long.
    #[boxed]
    pub async fn set_bucket_lock(
        &self,
        bucket: &Bucket,
        lock: BucketLock,
    ) -> Result<Arc<Bucket>, Error> {
        let change = move |bucket: &mut Bucket| {
            if bucket.versioning != Versioning::Enabled {
                return Err(Error::LockNeedsVersions);
            }
            bucket.lock = Some(lock);
            Ok(())
        };
        let changed = self.change_settings(bucket, change).await?;
        self.wait_until_known(&changed).await?;
        Ok(changed)
    }

    /// Waits until no node begins a write by older settings of a bucket any more: it has read the
    /// bucket's row again, or its view of the row no longer counts.
    ///
    /// Fences alone do not do that. A majority of them refuses such a write, but a replica whose
    /// fence lags accepts it, and a reader may complete it later. It would replace the null
    /// version.
    async fn wait_until_known(&self, bucket: &Bucket) -> Result<(), Error> {
        let row = rowkeys::bucket(&bucket.name);
        let since = Instant::now();
        loop {
            let silent = self.cluster().notify(row.key.clone()).await;
            if silent.is_empty() {
                return Ok(());
            }
            let lease = self.longest_lease(&silent).await?.mul_f64(LEASES);
            let left = lease.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            let silent = silent.len();
            tracing::debug!(bucket = bucket.name, silent, "new settings wait for nodes");
            tokio::time::sleep(PAUSE.min(left)).await;
        }
    }
}

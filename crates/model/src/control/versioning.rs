//! The settings that decide what a write stores: versioning and object lock.

use std::sync::Arc;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::lock::BucketLock;
use crate::version::Versioning;

impl Model {
    /// Enables or suspends versioning. That counts for every write that begins after this returns,
    /// on all nodes.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::LockKeepsVersions`] for suspension of a bucket with object
    /// lock; [`Error::Conflict`] if another such change takes too long.
    pub async fn set_versioning(
        &self,
        name: &str,
        versioning: Versioning,
    ) -> Result<Arc<Bucket>, Error> {
        let bucket = self.find_bucket(name).await?.ok_or(Error::NoSuchBucket)?;
        self.change_settings(&bucket, move |bucket| {
            if bucket.lock.is_some() && versioning != Versioning::Enabled {
                return Err(Error::LockKeepsVersions);
            }
            if versioning.has_versions() || !bucket.versioning.has_versions() {
                bucket.versioning = versioning;
                return Ok(());
            }
            Err(Error::Internal("versioning never ends".into()))
        })
        .await
    }

    /// Sets the object lock configuration, with the same effect on writes. It can be changed, and
    /// not removed.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::LockNeedsVersions`] unless versioning is enabled;
    /// [`Error::Conflict`] if another such change takes too long.
    pub async fn set_bucket_lock(
        &self,
        name: &str,
        lock: BucketLock,
    ) -> Result<Arc<Bucket>, Error> {
        let bucket = self.find_bucket(name).await?.ok_or(Error::NoSuchBucket)?;
        self.change_settings(&bucket, move |bucket| {
            if bucket.versioning != Versioning::Enabled {
                return Err(Error::LockNeedsVersions);
            }
            bucket.lock = Some(lock);
            Ok(())
        })
        .await
    }
}

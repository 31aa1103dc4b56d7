//! The settings of a bucket that no write of an object follows.

use std::sync::Arc;

use archipel_base::{boxed, codec};

use crate::Model;
use crate::bucket::{Bucket, CorsRule};
use crate::error::Error;
use crate::lifecycle::{Lifecycle, MAX_STORED_BYTES};
use crate::object::Tags;
use crate::website::Website;

impl Model {
    /// Sets a bucket's CORS rules. An empty list disables CORS.
    #[boxed]
    pub async fn set_cors(
        &self,
        bucket: &Bucket,
        rules: Vec<CorsRule>,
    ) -> Result<Arc<Bucket>, Error> {
        self.set_cors_if(bucket, rules, |_| true).await
    }

    /// Sets a bucket's CORS rules as [`set_cors`](Model::set_cors) does, if those so far pass the
    /// test.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::PreconditionFailed`] if they do not pass.
    pub async fn set_cors_if(
        &self,
        bucket: &Bucket,
        rules: Vec<CorsRule>,
        test: impl Fn(&[CorsRule]) -> bool + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        self.change_row(bucket, move |bucket| {
            if !test(&bucket.cors) {
                return Err(Error::PreconditionFailed);
            }
            bucket.cors.clone_from(&rules);
            Ok(())
        })
        .await
    }

    /// Sets a bucket's tags.
    #[boxed]
    pub async fn set_bucket_tags(&self, bucket: &Bucket, tags: Tags) -> Result<(), Error> {
        self.set_bucket_tags_if(bucket, tags, |_| true).await
    }

    /// Sets a bucket's tags, if those so far pass the test.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::PreconditionFailed`] if they do not pass.
    pub async fn set_bucket_tags_if(
        &self,
        bucket: &Bucket,
        tags: Tags,
        test: impl Fn(&Tags) -> bool + Send + Sync,
    ) -> Result<(), Error> {
        self.change_bucket_tags(bucket, move |now| match test(now) {
            true => {
                now.clone_from(&tags);
                Ok(())
            }
            false => Err(Error::PreconditionFailed),
        })
        .await
    }

    /// Changes a bucket's tags, unless `change` fails.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; those of `change`.
    pub async fn change_bucket_tags(
        &self,
        bucket: &Bucket,
        change: impl Fn(&mut Tags) -> Result<(), Error> + Send + Sync,
    ) -> Result<(), Error> {
        let changed = self.change_row(bucket, move |row| change(&mut row.tags));
        changed.await.map(|_| ())
    }

    /// Sets a bucket's website. `None` ends it. `change` gets the website so far.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub async fn set_website(
        &self,
        bucket: &Bucket,
        change: impl Fn(Option<&Website>) -> Option<Website> + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        self.change_bucket(bucket, move |bucket| {
            bucket.website = change(bucket.website.as_ref());
        })
        .await
    }

    /// Sets a bucket's lifecycle configuration; `None` removes it. Rules without a name get one.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::TooLarge`].
    #[boxed]
    pub async fn set_lifecycle(
        &self,
        bucket: &Bucket,
        lifecycle: Option<Lifecycle>,
    ) -> Result<Arc<Bucket>, Error> {
        self.set_lifecycle_if(bucket, lifecycle, |_| true).await
    }

    /// Sets a bucket's lifecycle configuration as [`set_lifecycle`](Model::set_lifecycle) does, if
    /// the one so far passes the test.
    ///
    /// # Errors
    /// Those of [`set_lifecycle`](Model::set_lifecycle); [`Error::PreconditionFailed`] if it does
    /// not pass.
    pub async fn set_lifecycle_if(
        &self,
        bucket: &Bucket,
        mut lifecycle: Option<Lifecycle>,
        test: impl Fn(Option<&Lifecycle>) -> bool + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        if let Some(lifecycle) = &mut lifecycle {
            for rule in lifecycle.rules.iter_mut().filter(|r| r.id.is_empty()) {
                rule.id = self.random_id().to_string();
            }
            if codec::encode(lifecycle).len() > MAX_STORED_BYTES {
                return Err(Error::TooLarge);
            }
        }
        self.change_row(bucket, move |bucket| {
            if !test(bucket.lifecycle.as_ref()) {
                return Err(Error::PreconditionFailed);
            }
            bucket.lifecycle.clone_from(&lifecycle);
            Ok(())
        })
        .await
    }

    /// Sets a bucket's durability. If `buffered` is true, writes are acknowledged before they are
    /// on stable storage. `None` restores the node's setting.
    #[boxed]
    pub async fn set_buffered(&self, name: &str, buffered: Option<bool>) -> Result<(), Error> {
        let bucket = self.find_bucket(name).await?.ok_or(Error::NoSuchBucket)?;
        self.change_bucket(&bucket, move |bucket| bucket.buffered = buffered)
            .await
            .map(|_| ())
    }

    /// Notes that the transfer acceleration of a bucket is suspended.
    #[boxed]
    pub async fn suspend_acceleration(&self, bucket: &Bucket) -> Result<(), Error> {
        self.change_bucket(bucket, |bucket| bucket.suspends_acceleration = true)
            .await
            .map(|_| ())
    }
}

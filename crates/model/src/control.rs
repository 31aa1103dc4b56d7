//! Control data: buckets and their aliases, access keys, users, groups, roles, policies, identity
//! providers, and the tokens of the admin API. Every node caches all of it, so that requests check
//! permissions without a network round trip.

mod aliases;
mod cache;
mod create;
mod dead_grants;
mod deleted;
mod empty;
mod identities;
mod keys;
mod leases;
mod settings;
#[cfg(test)]
mod tests;
mod tokens;
mod versioning;

use std::sync::Arc;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, boxed};
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use crate::bucket::{AccessKey, Bucket, Grant, GrantChange, Named, Permissions};
use crate::error::{Error, damaged_row};
use crate::fence::FenceState;
use crate::quota::Usage;
use crate::rowkeys;
use crate::{Model, detached};

pub(crate) use cache::{Cached, Control};
pub use keys::check_access_key;
pub(crate) use keys::random_text;

/// The most partitions of a bucket that are asked for their counters at once: all of a new bucket.
const COUNTERS_AT_ONCE: usize = rowkeys::NEW_BUCKET_SHARDS as usize;

pub(crate) fn row(metadata: Vec<u8>) -> Value {
    Value {
        metadata: metadata.into(),
        ..Value::default()
    }
}

impl Model {
    /// Returns the cached bucket of that name or alias.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn bucket(&self, name: &str) -> Result<Option<Arc<Bucket>>, Error> {
        self.look(|c| c.named(name).cloned())
    }

    /// Returns all buckets, sorted by name.
    ///
    /// # Errors
    /// [`Error::Unconfirmed`] before they were read for the first time, and when they could not be
    /// confirmed within the lease; [`Error::Unavailable`] on a node that is in no layout.
    pub fn buckets(&self) -> Result<Vec<Arc<Bucket>>, Error> {
        self.look(|c| c.buckets.values().cloned().collect())
    }

    /// Returns the cached access key of that id, with its secret.
    ///
    /// # Errors
    /// As [`Model::buckets`]; [`Error::NoMasterKey`] if this node cannot open the secret.
    pub fn access_key(&self, id: &str) -> Result<Option<Arc<AccessKey>>, Error> {
        let key = self.known_access_key(id)?;
        match key {
            Some(key) if key.is_closed() => {
                let why = format!("the secret of access key {id} cannot be opened by this node");
                Err(Error::NoMasterKey(why))
            }
            key => Ok(key),
        }
    }

    /// Returns the cached access key of that id, maybe without its secret.
    pub(crate) fn known_access_key(&self, id: &str) -> Result<Option<Arc<AccessKey>>, Error> {
        self.look(|c| c.keys.get(id).cloned())
    }

    /// Returns all access keys, sorted by id.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn access_keys(&self) -> Result<Vec<Arc<AccessKey>>, Error> {
        self.look(|c| c.keys.values().cloned().collect())
    }

    /// Returns the access keys that may use a bucket, sorted by id, with their permissions. Leaves
    /// out grants of deleted keys.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn grants_of(&self, bucket: &Bucket) -> Result<Vec<(Arc<AccessKey>, Permissions)>, Error> {
        self.look(|cached| {
            let keys = bucket.grants.keys().filter_map(|id| cached.keys.get(id));
            let granted = keys.map(|key| (key.clone(), bucket.permissions(key)));
            granted.filter(|(_, has)| !has.is_empty()).collect()
        })
    }

    pub(crate) async fn put_if_absent(
        &self,
        key: RowKey,
        value: Value,
        exists: Error,
    ) -> Result<(), Error> {
        self.cluster()
            .update(
                &key,
                WriteOptions::durable(Durability::Fsync),
                move |current| match current {
                    Some(_) => Decision::Abort(exists.clone()),
                    None => Decision::Write(Some(value.clone())),
                },
            )
            .await?
    }

    /// Deletes an empty bucket: this one, and no other that has its name by then. GC drops its
    /// uploads in the background. It goes on if its caller goes away: closed fences would hold up
    /// writers.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::BucketNotEmpty`]; [`Error::Conflict`] if another operation
    /// deletes it, too.
    #[boxed]
    pub async fn delete_bucket(&self, bucket: &Bucket) -> Result<(), Error> {
        // This finds most buckets that are not empty without closing their fences.
        if !self.is_empty(bucket).await? {
            return Err(Error::BucketNotEmpty);
        }
        let (model, bucket) = (self.clone(), bucket.clone());
        let deletion = async move { model.delete_to_the_end(&bucket).await };
        detached("deletes a bucket", deletion).await
    }

    /// Closes the fences of a bucket. Deletes it if it is empty then; else opens them again.
    async fn delete_to_the_end(&self, bucket: &Bucket) -> Result<(), Error> {
        let held = self.take_token(bucket, |_| Ok(())).await?;
        let empty = match self.set_fences(&held, FenceState::Closed).await {
            Ok(()) => self.is_empty_behind_fences(&held).await,
            Err(error) => Err(error),
        };
        if !matches!(empty, Ok(true)) {
            // Opening takes a later token, so that no late message of this one closes a fence
            // again.
            self.release_token(&held).await?;
            self.open_fences(&held).await?;
            return empty.and(Err(Error::BucketNotEmpty));
        }
        let (id, token) = (held.id, held.token.number);
        let row = rowkeys::bucket(&held.name);
        let how = WriteOptions::durable(Durability::Fsync);
        self.cluster()
            .update(&row, how, move |current| delete_if(current, id, token))
            .await??;
        // The cache drops the bucket at once, even if the row cannot be read again.
        self.control().remove(&row.key)?;
        self.tell_changed(&row).await;
        self.drop_aliases(bucket).await;
        self.wake_gc();
        Ok(())
    }

    /// Returns a bucket as its row is now, whatever the cache says.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    #[boxed]
    pub async fn read_bucket(&self, bucket: &Bucket) -> Result<Bucket, Error> {
        let now = self.refresh_bucket(&bucket.name).await?;
        now.filter(|now| now.id == bucket.id)
            .ok_or(Error::NoSuchBucket)
    }

    /// Changes a bucket's row and then the cache.
    pub(crate) async fn change_bucket(
        &self,
        bucket: &Bucket,
        change: impl Fn(&mut Bucket) + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        self.change_row(bucket, move |row| {
            change(row);
            Ok(())
        })
        .await
    }

    /// Changes a bucket's row and then the cache, unless `change` fails. A bucket that was deleted
    /// is not mistaken for one that has its name now: who may change the one may not change the
    /// other. Returns the bucket as this change wrote it: the row may have been changed again since.
    pub(crate) async fn change_row(
        &self,
        bucket: &Bucket,
        change: impl Fn(&mut Bucket) -> Result<(), Error> + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        let (id, row_key) = (bucket.id, rowkeys::bucket(&bucket.name));
        let read = |current: Option<&Value>| match current.map(|v| Named::bucket(&v.metadata)) {
            Some(Ok(Some(bucket))) if bucket.id == id => Ok(bucket),
            Some(Err(error)) => Err(damaged_row(error)),
            _ => Err(Error::NoSuchBucket),
        };
        let written = self.rewrite(&row_key, read, change).await?;
        let metadata = self.changed(&row_key).await?;
        let changed = metadata.map(|metadata| Named::bucket(&metadata).map_err(damaged_row));
        let changed = changed
            .transpose()?
            .flatten()
            .filter(|bucket| bucket.id == id);
        let now = changed.ok_or(Error::NoSuchBucket)?;
        Ok(Arc::new(written.unwrap_or(now)))
    }

    /// Changes the value in a row, unless `read` or `change` fails. Returns the value as this change
    /// wrote it.
    pub(crate) async fn rewrite<T: Versioned + Send>(
        &self,
        row_key: &RowKey,
        read: impl Fn(Option<&Value>) -> Result<T, Error> + Send + Sync,
        change: impl Fn(&mut T) -> Result<(), Error> + Send + Sync,
    ) -> Result<Option<T>, Error> {
        let written = Mutex::new(None);
        let how = WriteOptions::durable(Durability::Fsync);
        let changed = self.cluster().update(row_key, how, |current| {
            let changed = read(current).and_then(|mut value| change(&mut value).map(|()| value));
            match changed {
                Ok(value) => {
                    let encoded = codec::encode(&value);
                    *written.lock() = Some(value);
                    Decision::Write(Some(row(encoded)))
                }
                Err(error) => Decision::Abort(error),
            }
        });
        let changed = changed.await?;
        self.renew_if_refused(row_key, &changed).await;
        changed?;
        Ok(written.into_inner())
    }

    /// Sets an access key's permissions for a bucket. Empty permissions remove the grant.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchAccessKey`].
    #[boxed]
    pub async fn set_grant(
        &self,
        name: &str,
        access_key: &str,
        permissions: Permissions,
    ) -> Result<Arc<Bucket>, Error> {
        let changed = self.change_grant(name, access_key, permissions.into());
        changed.await.map(|(bucket, _)| bucket)
    }

    /// Changes an access key's permissions for a bucket, and returns the permissions after the
    /// change. Permissions that the change does not name stay as they are in the row, whatever the
    /// cache says.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchAccessKey`].
    #[boxed]
    pub async fn change_grant(
        &self,
        name: &str,
        access_key: &str,
        change: GrantChange,
    ) -> Result<(Arc<Bucket>, Permissions), Error> {
        let key = self.refresh_access_key(access_key).await?;
        let key = Arc::new(key.ok_or(Error::NoSuchAccessKey)?);
        let granted = key.clone();
        let bucket = self.find_bucket(name).await?.ok_or(Error::NoSuchBucket)?;
        let changed = self.change_bucket(&bucket, move |bucket| {
            // Of the key itself, not of its user.
            let own = AccessKey {
                user: None,
                ..(*granted).clone()
            };
            let permissions = change.of(bucket.permissions(&own));
            if permissions.is_empty() {
                bucket.grants.remove(&granted.id);
            } else {
                let grant = Grant::new(granted.incarnation, permissions);
                bucket.grants.insert(granted.id.clone(), grant);
            }
        });
        let bucket = changed.await?;
        let permissions = bucket.permissions(&key);
        Ok((bucket, permissions))
    }

    /// Reads a row into the cache if a condition refused a change of it: the client judged by what
    /// the cache said, and looks again.
    async fn renew_if_refused(&self, row: &RowKey, changed: &Result<(), Error>) {
        if *changed != Err(Error::PreconditionFailed) {
            return;
        }
        if let Err(error) = self.reread(&row.key).await {
            tracing::debug!(%error, "the row of a refused change cannot be read");
        }
    }

    /// Returns the number of objects and bytes in a bucket.
    #[boxed]
    pub async fn bucket_usage(&self, bucket: &Bucket) -> Result<Usage, Error> {
        let partitions = rowkeys::bucket_partitions(self.cluster(), &bucket.id).into_iter();
        let counters = partitions.map(|partition| self.cluster().counter(partition, bucket.id));
        let add = async |mut usage: Usage, (objects, bytes)| {
            usage.objects += objects;
            usage.bytes += bytes;
            Ok(usage)
        };
        let counters = stream::iter(counters).buffer_unordered(COUNTERS_AT_ONCE);
        Ok(counters.try_fold(Usage::default(), add).await?)
    }
}

/// Deletes a bucket's row if `token` is still the bucket's fencing token.
fn delete_if(current: Option<&Value>, id: Id, token: u64) -> Decision<Error> {
    match current.map(|v| Named::bucket(&v.metadata)) {
        Some(Ok(Some(bucket))) if bucket.id == id && bucket.token.number != token => {
            Decision::Abort(Error::Conflict)
        }
        Some(Ok(Some(bucket))) if bucket.id == id => Decision::Write(None),
        Some(Err(error)) => Decision::Abort(damaged_row(error)),
        _ => Decision::Abort(Error::NoSuchBucket),
    }
}

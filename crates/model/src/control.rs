//! Control data: buckets and access keys, cached whole on every node, so that requests check
//! them without a network round.

mod cache;
mod keys;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::Id;
use archipel_base::codec;
use archipel_cluster::{Decision, How};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};

use crate::Model;
use crate::bucket::{AccessKey, Bucket, CorsRule, Permissions, Turn, Usage, check_bucket_name};
use crate::content::damaged_row;
use crate::error::Error;
use crate::rowkeys;

pub(crate) use cache::Control;

fn row(head: Vec<u8>) -> Value {
    Value {
        head: head.into(),
        ..Value::default()
    }
}

impl Model {
    /// The bucket of that name.
    pub fn bucket(&self, name: &str) -> Option<Arc<Bucket>> {
        self.control().read(|c| c.buckets.get(name).cloned())
    }

    /// All buckets, by name.
    pub fn buckets(&self) -> Vec<Arc<Bucket>> {
        self.control()
            .read(|c| c.buckets.values().cloned().collect())
    }

    /// The access key of that id.
    pub fn access_key(&self, id: &str) -> Option<Arc<AccessKey>> {
        self.control().read(|c| c.keys.get(id).cloned())
    }

    /// All access keys, by id.
    pub fn access_keys(&self) -> Vec<Arc<AccessKey>> {
        self.control().read(|c| c.keys.values().cloned().collect())
    }

    /// Creates a bucket, owned by `owner` (an access key) if one is named.
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::BucketExists`] (whoever owns it), [`Error::NoSuchAccessKey`].
    pub async fn create_bucket(
        &self,
        name: &str,
        owner: Option<&str>,
    ) -> Result<Arc<Bucket>, Error> {
        check_bucket_name(name)?;
        let mut grants = BTreeMap::new();
        if let Some(owner) = owner {
            let known = self.find_access_key(owner).await?;
            known.ok_or(Error::NoSuchAccessKey)?;
            grants.insert(owner.to_owned(), Permissions::ALL);
        }
        let bucket = Bucket {
            id: self.random_id(),
            name: name.to_owned(),
            created_ms: self.now_ms(),
            grants,
            cors: Vec::new(),
            buffered: None,
            turn: Turn::default(),
        };
        let value = row(codec::encode(&bucket));
        let row = rowkeys::bucket(name);
        {
            let _changing = self.control().changing.lock().await;
            let put = self.put_if_absent(row.clone(), value, Error::BucketExists);
            match put.await {
                // Who hears that it exists may use it here at once.
                Err(Error::BucketExists) => {
                    self.reread(&row.key).await?;
                    return Err(Error::BucketExists);
                }
                other => other?,
            }
            self.changed(&row).await?;
        }
        // Closed as long as they are not there: the first commit opens them if this node dies now, and
        // whoever has a later turn since then has opened them.
        match self.move_gates(&bucket.id, 0, true).await {
            Ok(()) | Err(Error::Conflict) => Ok(Arc::new(bucket)),
            Err(error) => Err(error),
        }
    }

    async fn put_if_absent(&self, key: RowKey, value: Value, exists: Error) -> Result<(), Error> {
        self.cluster()
            .update(
                &key,
                How::durable(Durability::Fsync),
                move |current| match current {
                    Some(_) => Decision::Abort(exists.clone()),
                    None => Decision::Write(Some(value.clone())),
                },
            )
            .await?
    }

    /// Deletes an empty bucket. The uploads that were left in it are dropped in the background.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::BucketNotEmpty`]; [`Error::Conflict`] if another deletes it, too.
    pub async fn delete_bucket(&self, name: &str) -> Result<(), Error> {
        let bucket = self.find_bucket(name).await?.ok_or(Error::NoSuchBucket)?;
        // Most that are not empty are found so without disturbing anybody.
        if !self.is_empty(&bucket).await? {
            return Err(Error::BucketNotEmpty);
        }
        let turn = self.take_turn(&bucket).await?;
        let empty = match self.move_gates(&bucket.id, turn, false).await {
            Ok(()) => self.is_empty(&bucket).await,
            Err(error) => Err(error),
        };
        if !matches!(empty, Ok(true)) {
            // A later turn, so that no message of this one closes a gate behind it.
            self.leave_turn(&bucket, turn).await?;
            self.open_gates(&bucket).await?;
            return empty.and(Err(Error::BucketNotEmpty));
        }
        let _changing = self.control().changing.lock().await;
        let (id, row) = (bucket.id, rowkeys::bucket(name));
        let how = How::durable(Durability::Fsync);
        self.cluster()
            .update(&row, how, move |current| delete_if(current, id, turn))
            .await??;
        self.changed(&row).await?;
        self.wake_sweep();
        Ok(())
    }

    async fn is_empty(&self, bucket: &Bucket) -> Result<bool, Error> {
        let prefix = rowkeys::objects(&bucket.id);
        for partition in rowkeys::bucket_partitions(self.cluster(), &bucket.id) {
            let rows = self.cluster().scan(partition, &prefix, None, 1).await?;
            if !rows.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Changes a bucket's row and the cache.
    async fn change_bucket(
        &self,
        name: &str,
        change: impl Fn(&mut Bucket) + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        let bucket = self.find_bucket(name).await?.ok_or(Error::NoSuchBucket)?;
        self.change_row(&bucket, move |row| {
            change(row);
            Ok(())
        })
        .await
    }

    /// Changes a bucket's row and the cache, unless `change` refuses.
    pub(crate) async fn change_row(
        &self,
        bucket: &Bucket,
        change: impl Fn(&mut Bucket) -> Result<(), Error> + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        let _changing = self.control().changing.lock().await;
        let (id, row_key) = (bucket.id, rowkeys::bucket(&bucket.name));
        let how = How::durable(Durability::Fsync);
        self.cluster()
            .update(&row_key, how, move |current| {
                match current.map(|v| codec::decode::<Bucket>(&v.head)) {
                    Some(Ok(mut bucket)) if bucket.id == id => match change(&mut bucket) {
                        Ok(()) => Decision::Write(Some(row(codec::encode(&bucket)))),
                        Err(error) => Decision::Abort(error),
                    },
                    Some(Err(error)) => Decision::Abort(damaged_row(error)),
                    _ => Decision::Abort(Error::NoSuchBucket),
                }
            })
            .await??;
        self.changed(&row_key).await?;
        let changed = self.bucket(&bucket.name).filter(|b| b.id == id);
        changed.ok_or(Error::NoSuchBucket)
    }

    /// Sets a bucket's CORS rules; none switch CORS off.
    pub async fn set_cors(&self, name: &str, rules: Vec<CorsRule>) -> Result<(), Error> {
        self.change_bucket(name, move |bucket| bucket.cors = rules.clone())
            .await
            .map(|_| ())
    }

    /// Sets whether writes to a bucket are acknowledged before they are on stable storage; `None` for the node's setting.
    pub async fn set_buffered(&self, name: &str, buffered: Option<bool>) -> Result<(), Error> {
        self.change_bucket(name, move |bucket| bucket.buffered = buffered)
            .await
            .map(|_| ())
    }

    /// Sets what an access key may do with a bucket; nothing removes the grant.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchAccessKey`].
    pub async fn set_grant(
        &self,
        name: &str,
        access_key: &str,
        permissions: Permissions,
    ) -> Result<Arc<Bucket>, Error> {
        let known = self.find_access_key(access_key).await?;
        known.ok_or(Error::NoSuchAccessKey)?;
        let access_key = access_key.to_owned();
        self.change_bucket(name, move |bucket| {
            if permissions.is_empty() {
                bucket.grants.remove(&access_key);
            } else {
                bucket.grants.insert(access_key.clone(), permissions);
            }
        })
        .await
    }

    /// What a bucket holds.
    pub async fn bucket_usage(&self, bucket: &Bucket) -> Result<Usage, Error> {
        let mut usage = Usage::default();
        for partition in rowkeys::bucket_partitions(self.cluster(), &bucket.id) {
            let (objects, bytes) = self.cluster().counter(partition, bucket.id).await?;
            usage.objects += objects;
            usage.bytes += bytes;
        }
        Ok(usage)
    }
}

/// A bucket is deleted only by who still has its turn.
fn delete_if(current: Option<&Value>, id: Id, turn: u64) -> Decision<Error> {
    match current.map(|v| codec::decode::<Bucket>(&v.head)) {
        Some(Ok(bucket)) if bucket.id == id && bucket.turn.number != turn => {
            Decision::Abort(Error::Conflict)
        }
        Some(Ok(bucket)) if bucket.id == id => Decision::Write(None),
        Some(Err(error)) => Decision::Abort(damaged_row(error)),
        _ => Decision::Abort(Error::NoSuchBucket),
    }
}

//! Further names of buckets: aliases that count for everybody, and names that only one access key
//! has.
//!
//! # One row decides
//! The meaning of a name is the value of one row, a register: a bucket, an alias, or nothing. So
//! creations of buckets and aliases that race for a name have one winner, and no operation on
//! names changes two rows. An alias names its bucket and the bucket's identity. It counts while
//! that bucket exists. Identities are random and never come back, so an alias that does not count
//! never counts again, and its name may be taken.
//!
//! A name that only one key has is in the key's row, which decides likewise.

use std::sync::Arc;

use archipel_base::{boxed, codec};
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::engine::Durability;

use super::row;
use crate::Model;
use crate::bucket::{AccessKey, Alias, Bucket, Named, check_alias};
use crate::error::{Error, damaged_row};
use crate::rowkeys;

/// The most names that a key may have of its own.
const MAX_NAMES_OF_KEY: usize = 1000;

impl Model {
    /// Returns the aliases of a bucket, sorted.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn aliases_of(&self, bucket: &Bucket) -> Result<Vec<String>, Error> {
        let is_meant = |alias: &Alias| *alias == Alias::of(bucket);
        self.look(|cached| {
            let aliases = cached.aliases.iter();
            let own = aliases.filter(|(_, alias)| is_meant(alias));
            own.map(|(name, _)| name.clone()).collect()
        })
    }

    /// Returns the bucket that a name stands for when `key` says it: the key's own names come
    /// first.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn bucket_of_key(&self, key: &AccessKey, name: &str) -> Result<Option<Arc<Bucket>>, Error> {
        self.look(|cached| {
            let own = key.names.get(name).and_then(|alias| cached.meant(alias));
            own.or_else(|| cached.named(name)).cloned()
        })
    }

    /// Returns the bucket that a name stands for when `key` says it. Reads rows that the cache
    /// lacks.
    ///
    /// # Errors
    /// As [`Model::find_bucket`].
    #[boxed]
    pub async fn find_bucket_of_key(
        &self,
        key: &AccessKey,
        name: &str,
    ) -> Result<Option<Arc<Bucket>>, Error> {
        if let Some(bucket) = self.bucket_of_key(key, name)? {
            return Ok(Some(bucket));
        }
        if let Some(alias) = key.names.get(name) {
            self.find_bucket(&alias.bucket).await?;
        }
        self.find_bucket(name).await?;
        self.bucket_of_key(key, name)
    }

    /// Gives a bucket a further name, which counts for everybody. A name that the bucket has
    /// already is no error.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::NoSuchBucket`]; [`Error::BucketExists`] if the name stands
    /// for another bucket.
    #[boxed]
    pub async fn add_alias(&self, bucket: &str, name: &str) -> Result<Arc<Bucket>, Error> {
        check_alias(name)?;
        let bucket = self.find_bucket(bucket).await?.ok_or(Error::NoSuchBucket)?;
        if bucket.name == name {
            return Ok(bucket);
        }
        // The cache may be behind the row.
        let current = self.refresh_bucket(&bucket.name).await?;
        if current.is_none_or(|current| current.id != bucket.id) {
            return Err(Error::NoSuchBucket);
        }
        let alias = Alias::of(&bucket);
        match self.claim(name, &alias).await {
            Err(Error::BucketExists) if self.free_name(name).await? => {
                self.claim(name, &alias).await?;
            }
            other => other?,
        }
        self.tell_changed(&rowkeys::bucket(name)).await;
        Ok(bucket)
    }

    /// Makes a free name an alias.
    pub(super) async fn claim(&self, name: &str, alias: &Alias) -> Result<(), Error> {
        let (wanted, value) = (alias.clone(), row(codec::encode(alias)));
        let how = WriteOptions::durable(Durability::Fsync);
        self.cluster()
            .update(&rowkeys::bucket(name), how, move |current| {
                match current.map(|value| Named::decode(&value.metadata)) {
                    None => Decision::Write(Some(value.clone())),
                    Some(Ok(Named::Alias(alias))) if alias == wanted => {
                        Decision::Write(Some(value.clone()))
                    }
                    Some(Ok(_)) => Decision::Abort(Error::BucketExists),
                    Some(Err(error)) => Decision::Abort(damaged_row(error)),
                }
            })
            .await?
    }

    /// Takes an alias of a bucket away.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::OwnName`] for the name that the bucket was created with;
    /// [`Error::NoSuchAlias`].
    #[boxed]
    pub async fn remove_alias(&self, bucket: &str, name: &str) -> Result<Arc<Bucket>, Error> {
        let bucket = self.find_bucket(bucket).await?.ok_or(Error::NoSuchBucket)?;
        if bucket.name == name {
            return Err(Error::OwnName);
        }
        if self.drop_alias(name, &Alias::of(&bucket)).await? {
            Ok(bucket)
        } else {
            Err(Error::NoSuchAlias)
        }
    }

    /// Deletes the row of an alias, if it holds this one. Returns false if it does not.
    async fn drop_alias(&self, name: &str, alias: &Alias) -> Result<bool, Error> {
        let (row, alias) = (rowkeys::bucket(name), alias.clone());
        let how = WriteOptions::durable(Durability::Fsync);
        let dropped = self.cluster().update(&row, how, move |current| {
            match current.map(|value| Named::decode(&value.metadata)) {
                Some(Ok(Named::Alias(current))) if current == alias => Decision::Write(None),
                Some(Err(error)) => Decision::Abort(damaged_row(error)),
                _ => Decision::Abort(Error::NoSuchAlias),
            }
        });
        match dropped.await? {
            Ok(()) => {}
            Err(Error::NoSuchAlias) => return Ok(false),
            Err(error) => return Err(error),
        }
        self.tell_changed(&row).await;
        Ok(true)
    }

    /// Deletes the aliases of a bucket that was deleted. They do not count any more, so nothing
    /// depends on this: an alias that stays is deleted when another bucket wants its name.
    pub(super) async fn drop_aliases(&self, bucket: &Bucket) {
        for name in self.aliases_of(bucket).unwrap_or_default() {
            if let Err(error) = self.drop_alias(&name, &Alias::of(bucket)).await {
                tracing::debug!(%error, name, "an alias of a deleted bucket is left");
            }
        }
    }

    /// Deletes the alias of this name if it does not count any more. Returns true if the name may
    /// be free now.
    pub(super) async fn free_name(&self, name: &str) -> Result<bool, Error> {
        let Some(metadata) = self.reread(&rowkeys::bucket(name).key).await? else {
            return Ok(true);
        };
        let Named::Alias(alias) = Named::decode(&metadata).map_err(damaged_row)? else {
            return Ok(false);
        };
        let bucket = self.refresh_bucket(&alias.bucket).await?;
        if bucket.is_some_and(|bucket| bucket.id == alias.id) {
            return Ok(false);
        }
        self.drop_alias(name, &alias).await?;
        Ok(true)
    }

    /// Gives a bucket a name that only one access key has. It comes before a bucket or an alias of
    /// that name.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::NoSuchBucket`]; [`Error::NoSuchAccessKey`];
    /// [`Error::BucketExists`] if the key has the name for another bucket.
    #[boxed]
    pub async fn add_name_of_key(
        &self,
        bucket: &str,
        key: &str,
        name: &str,
    ) -> Result<Arc<Bucket>, Error> {
        check_alias(name)?;
        let bucket = self.find_bucket(bucket).await?.ok_or(Error::NoSuchBucket)?;
        let before = self.refresh_access_key(key).await?;
        let before = before.ok_or(Error::NoSuchAccessKey)?;
        let wanted = Alias::of(&bucket);
        // A name whose bucket is gone is free. The change below replaces no other name.
        let other = before.names.get(name).filter(|other| **other != wanted);
        if let Some(other) = other {
            let bucket = self.refresh_bucket(&other.bucket).await?;
            if bucket.is_some_and(|bucket| bucket.id == other.id) {
                return Err(Error::BucketExists);
            }
        }
        let (other, name) = (other.cloned(), name.to_owned());
        let change = move |key: &mut AccessKey| {
            let current = key.names.get(&name);
            if current.is_some_and(|current| *current != wanted && Some(current) != other.as_ref())
            {
                return Err(Error::BucketExists);
            }
            if current.is_none() && key.names.len() >= MAX_NAMES_OF_KEY {
                let why = format!("a key has at most {MAX_NAMES_OF_KEY} names of its own");
                return Err(Error::InvalidName(why));
            }
            key.names.insert(name.clone(), wanted.clone());
            Ok(())
        };
        self.change_access_key(key, change).await?;
        Ok(bucket)
    }

    /// Takes away a name that only one access key has.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::NoSuchAccessKey`]; [`Error::NoSuchAlias`].
    #[boxed]
    pub async fn remove_name_of_key(
        &self,
        bucket: &str,
        key: &str,
        name: &str,
    ) -> Result<Arc<Bucket>, Error> {
        let bucket = self.find_bucket(bucket).await?.ok_or(Error::NoSuchBucket)?;
        let (alias, name) = (Alias::of(&bucket), name.to_owned());
        let change = move |key: &mut AccessKey| match key.names.get(&name) {
            Some(current) if *current == alias => {
                key.names.remove(&name);
                Ok(())
            }
            _ => Err(Error::NoSuchAlias),
        };
        self.change_access_key(key, change).await?;
        Ok(bucket)
    }
}

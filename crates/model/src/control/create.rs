//! Creating buckets, and their owners.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_access::{Acl, Ownership};
use archipel_base::{boxed, codec};
use archipel_storage::{RowKey, Value};

use super::row;
use crate::Model;
use crate::access;
use crate::bucket::{AccessKey, Bucket, FencingToken, Grant, Permissions, check_bucket_name};
use crate::error::Error;
use crate::fence::FenceState;
use crate::identity::Reference;
use crate::lock::BucketLock;
use crate::object::Tags;
use crate::rowkeys;
use crate::version::Versioning;

/// The number of times that a creation writes its row if each time a bucket is there that is gone
/// when it is read.
const PUT_ATTEMPTS: usize = 4;

impl Model {
    /// Returns the unique ids of the access keys, users and roles that own a bucket, sorted.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn owners_of(&self, bucket: &Bucket) -> Result<Vec<String>, Error> {
        self.look(|cached| {
            let is_there = |id: &str, incarnation| {
                let key = cached.keys.get(id);
                let is_key = key.is_some_and(|key| key.incarnation == incarnation);
                is_key || cached.identities.has(id, incarnation)
            };
            let grants = bucket.grants.iter().filter(|(_, grant)| grant.is_owner());
            let there = grants.filter(|(id, grant)| is_there(id, grant.incarnation));
            there.map(|(id, _)| id.clone()).collect()
        })
    }

    /// Creates a bucket in which access control lists do not count. If `owner` names an access key,
    /// the key gets all permissions. A new bucket blocks all public access.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::BucketExists`], whichever key owns it;
    /// [`Error::NoSuchAccessKey`]; [`Error::Conflict`] if others create and delete it meanwhile.
    #[boxed]
    pub async fn create_bucket(
        &self,
        name: &str,
        owner: Option<&str>,
    ) -> Result<Arc<Bucket>, Error> {
        let owner = match owner {
            Some(id) => self.present_owner(id).await?,
            None => None,
        };
        let enforced = Ownership::BucketOwnerEnforced;
        self.create_bucket_owned(name, owner, enforced, None, Tags::new())
            .await
    }

    /// Creates a bucket for the identity that an access key acts for: the key itself, its user, or
    /// the role of its session. The identity gets all permissions. A new bucket blocks all public
    /// access. With object lock it has versioning, too.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::BucketExists`], also one of another owner;
    /// [`Error::NoSuchAccessKey`]; [`Error::TooManyBuckets`]; [`Error::Conflict`] if others create
    /// and delete it meanwhile.
    #[boxed]
    pub async fn create_bucket_for(
        &self,
        name: &str,
        owner: &AccessKey,
        ownership: Ownership,
        lock: Option<BucketLock>,
        tags: Tags,
    ) -> Result<Arc<Bucket>, Error> {
        let owner = match owner.session {
            None => self.present_owner(&owner.id).await?,
            Some(_) => owner.grantees().into_iter().next(),
        };
        if let Some(owner) = &owner {
            self.check_number(name, owner)?;
        }
        self.create_bucket_owned(name, owner, ownership, lock, tags)
            .await
    }

    /// Fails if an owner has as many buckets as it may have. Requests at the same time, and nodes
    /// that have not heard of the last buckets, may create a few more. A bucket that exists is for
    /// the caller to refuse.
    fn check_number(&self, name: &str, owner: &Reference) -> Result<(), Error> {
        let most = self.inner.buckets_per_user;
        let is_own = |bucket: &Arc<Bucket>| {
            let grant = bucket.grants.get(&owner.name);
            grant.is_some_and(|grant| grant.is_owner() && grant.incarnation == owner.incarnation)
        };
        let (mut own, mut exists) = (0, false);
        for bucket in self.buckets()? {
            own += usize::from(is_own(&bucket));
            exists |= bucket.name == name;
        }
        if own >= most && !exists {
            return Err(Error::TooManyBuckets(most));
        }
        Ok(())
    }

    /// Returns the identity that an existing access key acts for.
    async fn present_owner(&self, id: &str) -> Result<Option<Reference>, Error> {
        let key = self.refresh_access_key(id).await?;
        let key = key.ok_or(Error::NoSuchAccessKey)?;
        Ok(key.grantees().into_iter().next())
    }

    async fn create_bucket_owned(
        &self,
        name: &str,
        owner: Option<Reference>,
        ownership: Ownership,
        lock: Option<BucketLock>,
        tags: Tags,
    ) -> Result<Arc<Bucket>, Error> {
        check_bucket_name(name)?;
        // A node that has just got its first layout has not read them yet.
        if !self.control().is_filled() {
            self.refresh_all().await?;
        }
        self.check_control()?;
        let mut grants = BTreeMap::new();
        if let Some(owner) = owner {
            let grant = Grant::new(owner.incarnation, Permissions::ALL);
            grants.insert(owner.name, grant);
        }
        let mut bucket = Bucket {
            grants,
            tags,
            versioning: match lock {
                Some(_) => Versioning::Enabled,
                None => Versioning::Never,
            },
            lock,
            ownership: Some(ownership),
            ..self.plain_bucket(name)
        };
        // From the beginning: a creation may end after any step.
        bucket.portion = self.first_portion(&bucket)?;
        let value = row(codec::encode(&bucket));
        let row = rowkeys::bucket(name);
        self.put_bucket(name, &row, value).await?;
        self.tell_changed(&row).await;
        if let Some(limited) = self.limit_new_bucket(&bucket).await? {
            return Ok(limited);
        }
        // A missing fence counts as closed. If this node dies now, the first commit limits the
        // bucket and opens the fences. An operation that has taken a later token since then has
        // opened them.
        match self.set_fences(&bucket, FenceState::Open).await {
            Ok(()) | Err(Error::Conflict) => Ok(Arc::new(bucket)),
            Err(error) => Err(error),
        }
    }

    /// Returns a new bucket without owner and configuration.
    fn plain_bucket(&self, name: &str) -> Bucket {
        Bucket {
            id: rowkeys::bucket_id(self.random_id(), rowkeys::NEW_BUCKET_SHARDS),
            name: name.to_owned(),
            created_ms: self.now_ms(),
            grants: BTreeMap::new(),
            cors: Vec::new(),
            tags: Tags::new(),
            website: None,
            versioning: Versioning::Never,
            lock: None,
            lifecycle: None,
            notification: None,
            policy: None,
            public_access_block: access::block_everything(),
            ownership: None,
            acl: Acl::default(),
            buffered: None,
            encrypts: false,
            has_bucket_key: false,
            blocked_encryption: None,
            suspends_acceleration: false,
            quota: None,
            portion: None,
            portion_pending: false,
            generation: 0,
            token: FencingToken::default(),
        }
    }

    /// Writes the row of a new bucket. A client that hears that the bucket exists may use it here
    /// at once.
    ///
    /// # Errors
    /// [`Error::BucketExists`]; [`Error::Conflict`] if others create and delete the bucket
    /// meanwhile.
    async fn put_bucket(&self, name: &str, row: &RowKey, value: Value) -> Result<(), Error> {
        for _ in 0..PUT_ATTEMPTS {
            match self
                .put_if_absent(row.clone(), value.clone(), Error::BucketExists)
                .await
            {
                // Its deletion may have ended since then: nobody's bucket is no reason to refuse.
                Err(Error::BucketExists) if self.free_name(name).await? => {}
                put => return put,
            }
        }
        Err(Error::Conflict)
    }
}

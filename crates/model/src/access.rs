//! A bucket's settings for access: its policy, Public Access Block, object ownership and access
//! control list; and what the one decision needs of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_access::{Acl, Grants, Inputs, Ownership, Policy, Principal, PublicAccessBlock};
use archipel_base::{Id, boxed};
use serde::{Deserialize, Serialize};

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::identity::Subject;

/// A bucket's policy: the text as it was sent. It is read once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "StoredPolicy", into = "StoredPolicy")]
pub struct BucketPolicy {
    text: String,
    /// The access keys, users and roles that the policy names, each with its incarnation. A key
    /// that is deleted and imported again under its id is not the one that the policy named.
    keys: BTreeMap<String, Id>,
    policy: Arc<Policy>,
}

#[derive(Serialize, Deserialize)]
struct StoredPolicy {
    #[serde(rename = "t")]
    text: String,
    #[serde(rename = "k", default)]
    keys: BTreeMap<String, Id>,
}

impl From<StoredPolicy> for BucketPolicy {
    fn from(stored: StoredPolicy) -> BucketPolicy {
        BucketPolicy {
            policy: Arc::new(Policy::stored(&stored.text)),
            text: stored.text,
            keys: stored.keys,
        }
    }
}

impl From<BucketPolicy> for StoredPolicy {
    fn from(policy: BucketPolicy) -> StoredPolicy {
        StoredPolicy {
            text: policy.text,
            keys: policy.keys,
        }
    }
}

impl BucketPolicy {
    /// Makes a policy that was read from this text, with the incarnations of those whom it names.
    pub fn new(text: String, policy: Policy, keys: BTreeMap<String, Id>) -> BucketPolicy {
        BucketPolicy {
            text,
            keys,
            policy: Arc::new(policy),
        }
    }

    /// Returns the text as it was sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}

/// Returns what new buckets block: everything.
pub(crate) fn block_everything() -> Option<PublicAccessBlock> {
    Some(PublicAccessBlock::ALL)
}

/// Returns the object ownership of new buckets: access control lists do not count.
pub(crate) fn owner_enforced() -> Option<Ownership> {
    Some(Ownership::BucketOwnerEnforced)
}

impl Bucket {
    /// Returns what decides about the requests of a subject, or of an anonymous client.
    pub fn inputs<'a>(&'a self, subject: Option<&'a Subject>) -> Inputs<'a> {
        let permissions = subject.map(|subject| self.permissions(subject.key()));
        let permissions = permissions.unwrap_or_default();
        let identity = subject.map(Subject::identity);
        Inputs {
            grants: Grants {
                read: permissions.read,
                write: permissions.write,
                owner: permissions.owner,
                ..Grants::default()
            },
            identity: identity.filter(|identity| !identity.is_empty()),
            policy: self.policy.as_ref().map(BucketPolicy::policy),
            block: self.blocked(),
            ownership: self.ownership(),
            bucket_acl: self.acl,
            object_acl: None,
        }
    }

    /// Returns the principal for which this bucket's policy takes a subject, or an anonymous
    /// client.
    pub fn principal<'a>(
        &'a self,
        subject: Option<&'a Subject>,
        canonical_id: Option<&'a str>,
    ) -> Principal<'a> {
        match (subject, &self.policy) {
            (None, _) => Principal::Anonymous,
            (Some(subject), None) => subject.principal(canonical_id),
            (Some(subject), Some(policy)) => subject.principal_by(&policy.keys, canonical_id),
        }
    }

    /// Returns what is blocked.
    pub fn blocked(&self) -> PublicAccessBlock {
        self.public_access_block.unwrap_or_default()
    }

    /// Returns the object ownership. Without a setting, access control lists count, as in AWS.
    pub fn ownership(&self) -> Ownership {
        self.ownership.unwrap_or(Ownership::ObjectWriter)
    }

    /// Checks that a list may be set in this bucket.
    ///
    /// # Errors
    /// [`Error::AclsDisabled`], [`Error::PublicAccessBlocked`]. A private list changes nothing, so
    /// it is always accepted.
    pub fn check_acl(&self, acl: Acl) -> Result<(), Error> {
        if acl.is_private() {
            Ok(())
        } else if self.ownership() == Ownership::BucketOwnerEnforced {
            Err(Error::AclsDisabled)
        } else if self.blocked().block_public_acls {
            Err(Error::PublicAccessBlocked)
        } else {
            Ok(())
        }
    }

    fn check_policy(&self, policy: &Policy) -> Result<(), Error> {
        if policy.is_public() && self.blocked().block_public_policy {
            Err(Error::PublicAccessBlocked)
        } else {
            Ok(())
        }
    }
}

impl Model {
    /// Sets or removes a bucket's policy.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::PublicAccessBlocked`] for a public policy that the bucket
    /// blocks.
    #[boxed]
    pub async fn set_policy(
        &self,
        bucket: &Bucket,
        policy: Option<BucketPolicy>,
    ) -> Result<(), Error> {
        self.set_policy_if(bucket, policy, |_| true).await
    }

    /// Sets or removes a bucket's policy as [`set_policy`](Model::set_policy) does, if the one so
    /// far passes the test.
    ///
    /// # Errors
    /// Those of [`set_policy`](Model::set_policy); [`Error::PreconditionFailed`] if it does not
    /// pass.
    pub async fn set_policy_if(
        &self,
        bucket: &Bucket,
        policy: Option<BucketPolicy>,
        test: impl Fn(Option<&BucketPolicy>) -> bool + Send + Sync,
    ) -> Result<(), Error> {
        self.change_row(bucket, move |bucket| {
            if !test(bucket.policy.as_ref()) {
                return Err(Error::PreconditionFailed);
            }
            if let Some(policy) = &policy {
                bucket.check_policy(policy.policy())?;
            }
            bucket.policy.clone_from(&policy);
            Ok(())
        })
        .await
        .map(|_| ())
    }

    /// Sets or removes a bucket's Public Access Block.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    #[boxed]
    pub async fn set_public_access_block(
        &self,
        bucket: &Bucket,
        block: Option<PublicAccessBlock>,
    ) -> Result<Arc<Bucket>, Error> {
        self.change_bucket(bucket, move |bucket| bucket.public_access_block = block)
            .await
    }

    /// Changes a bucket's Public Access Block. `change` gets the one so far, so that two changes of
    /// different parts both count.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub async fn change_public_access_block(
        &self,
        bucket: &Bucket,
        change: impl Fn(&mut PublicAccessBlock) + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        self.change_bucket(bucket, move |bucket| {
            let mut block = bucket.blocked();
            change(&mut block);
            bucket.public_access_block = Some(block);
        })
        .await
    }

    /// Sets or removes a bucket's object ownership.
    ///
    /// # Errors
    /// [`Error::AclGrantsOthers`] if access control lists shall not count and the bucket's own list
    /// grants something.
    #[boxed]
    pub async fn set_ownership(
        &self,
        bucket: &Bucket,
        ownership: Option<Ownership>,
    ) -> Result<Arc<Bucket>, Error> {
        self.change_row(bucket, move |bucket| {
            let enforced = ownership == Some(Ownership::BucketOwnerEnforced);
            if enforced && !bucket.acl.is_private() {
                return Err(Error::AclGrantsOthers);
            }
            bucket.ownership = ownership;
            Ok(())
        })
        .await
    }

    /// Sets a bucket's access control list.
    ///
    /// # Errors
    /// As [`Bucket::check_acl`].
    #[boxed]
    pub async fn set_bucket_acl(&self, bucket: &Bucket, acl: Acl) -> Result<(), Error> {
        self.change_row(bucket, move |bucket| {
            bucket.check_acl(acl)?;
            bucket.acl = acl;
            Ok(())
        })
        .await
        .map(|_| ())
    }

    /// Publishes a bucket: sets a policy and lets public policies take effect, in one change.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::Conflict`] if the bucket has another policy.
    #[boxed]
    pub async fn publish(&self, bucket: &Bucket, policy: BucketPolicy) -> Result<(), Error> {
        self.change_row(bucket, move |bucket| {
            let own = bucket.policy.as_ref().map(BucketPolicy::text);
            if own.is_some_and(|text| text != policy.text()) {
                return Err(Error::Conflict);
            }
            bucket.policy = Some(policy.clone());
            bucket.public_access_block = Some(PublicAccessBlock {
                block_public_policy: false,
                restrict_public_buckets: false,
                ..bucket.blocked()
            });
            Ok(())
        })
        .await
        .map(|_| ())
    }

    /// Blocks public access to a bucket, and removes its policy if that is `published`, in one
    /// change.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    #[boxed]
    pub async fn unpublish(&self, bucket: &Bucket, published: &str) -> Result<(), Error> {
        let published = published.to_owned();
        self.change_row(bucket, move |bucket| {
            bucket.public_access_block = block_everything();
            let is_other = |policy: &BucketPolicy| policy.text() != published;
            bucket.policy = bucket.policy.take().filter(is_other);
            Ok(())
        })
        .await
        .map(|_| ())
    }
}

//! Access control lists, object ownership and Public Access Block.
//!
//! Source: AWS, "Access control list (ACL) overview", "Controlling ownership of objects" and
//! "Blocking public access".

use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::decision::Request;
use crate::principal::Principal;

/// The permissions that an access control list grants to others than the owner, who always has full
/// control.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Acl {
    /// Everybody may read: list the bucket, or get the object.
    #[serde(rename = "r", default)]
    pub public_read: bool,
    /// Everybody may put objects into the bucket.
    #[serde(rename = "w", default)]
    pub public_write: bool,
    /// Every access key may read.
    #[serde(rename = "a", default)]
    pub authenticated_read: bool,
}

impl Acl {
    /// Returns the list that a canned ACL stands for; `None` for one that is not known.
    pub fn of_canned(name: &str) -> Option<Acl> {
        let private = Acl::default();
        match name {
            // The owner of the bucket owns its objects.
            "private" | "bucket-owner-full-control" | "bucket-owner-read" => Some(private),
            "public-read" => Some(Acl {
                public_read: true,
                ..private
            }),
            "public-read-write" => Some(Acl {
                public_read: true,
                public_write: true,
                ..private
            }),
            "authenticated-read" => Some(Acl {
                authenticated_read: true,
                ..private
            }),
            _ => None,
        }
    }

    /// Returns true if the list grants nothing to others.
    pub fn is_private(&self) -> bool {
        *self == Acl::default()
    }

    /// Returns true if the list as that of a bucket allows a request.
    pub(crate) fn allows_on_bucket(self, request: &Request<'_>) -> bool {
        match request.action {
            Action::ListBucket
            | Action::ListBucketMultipartUploads
            | Action::ListBucketVersions => self.may_read(request.principal),
            Action::PutObject => self.public_write,
            _ => false,
        }
    }

    /// Returns true if the list as that of an object allows a request.
    pub(crate) fn allows_on_object(self, request: &Request<'_>) -> bool {
        matches!(request.action, Action::GetObject | Action::GetObjectVersion)
            && self.may_read(request.principal)
    }

    fn may_read(self, principal: Principal<'_>) -> bool {
        self.public_read || (self.authenticated_read && principal != Principal::Anonymous)
    }
}

/// The object ownership of a bucket: it decides if access control lists count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Ownership {
    /// They do not: the owner of the bucket has full control of all objects.
    #[default]
    BucketOwnerEnforced,
    /// They do. The owner of the bucket owns the objects.
    BucketOwnerPreferred,
    /// They do. All access keys are in one account, so the owner of the bucket owns the objects.
    ObjectWriter,
}

impl Ownership {
    /// Returns the name in S3.
    pub fn name(self) -> &'static str {
        match self {
            Ownership::BucketOwnerEnforced => "BucketOwnerEnforced",
            Ownership::BucketOwnerPreferred => "BucketOwnerPreferred",
            Ownership::ObjectWriter => "ObjectWriter",
        }
    }

    /// Returns the setting of that name.
    pub fn of_name(name: &str) -> Option<Ownership> {
        use Ownership::{BucketOwnerEnforced, BucketOwnerPreferred, ObjectWriter};
        let all = [BucketOwnerEnforced, BucketOwnerPreferred, ObjectWriter];
        all.into_iter().find(|ownership| ownership.name() == name)
    }
}

/// Which public permissions a bucket blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PublicAccessBlock {
    /// Public access control lists cannot be set.
    #[serde(default)]
    pub block_public_acls: bool,
    /// Public access control lists have no effect.
    #[serde(default)]
    pub ignore_public_acls: bool,
    /// A public policy cannot be set.
    #[serde(default)]
    pub block_public_policy: bool,
    /// A public policy does not open the bucket to anonymous clients.
    #[serde(default)]
    pub restrict_public_buckets: bool,
}

impl PublicAccessBlock {
    /// Blocks everything, as in new buckets.
    pub const ALL: PublicAccessBlock = PublicAccessBlock {
        block_public_acls: true,
        ignore_public_acls: true,
        block_public_policy: true,
        restrict_public_buckets: true,
    };
}

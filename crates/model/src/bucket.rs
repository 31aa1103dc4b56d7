//! Buckets, access keys and permissions.

mod key;
mod name;

use std::collections::BTreeMap;

use archipel_access::{Acl, Ownership, PublicAccessBlock};
use archipel_base::Id;
use archipel_base::codec::{self, DecodeError, Versioned};
use archipel_storage::engine::Durability;
use serde::{Deserialize, Serialize};

use crate::access::{self, BucketPolicy};
use crate::cipher::BlockedEncryption;
use crate::lifecycle::Lifecycle;
use crate::lock::BucketLock;
use crate::notification::Notification;
use crate::object::Tags;
use crate::quota::Quota;
use crate::version::Versioning;
use crate::website::Website;

pub use key::{AccessKey, Secret};
pub use name::{check_alias, check_bucket_name};

/// The permissions of an access key for a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Permissions {
    /// May list and get objects.
    pub read: bool,
    /// May put and delete objects, and use multipart uploads.
    pub write: bool,
    /// May change the bucket's settings and delete the bucket.
    pub owner: bool,
}

impl Permissions {
    /// All permissions.
    pub const ALL: Permissions = Permissions {
        read: true,
        write: true,
        owner: true,
    };

    /// Returns true if nothing is permitted.
    pub fn is_empty(&self) -> bool {
        *self == Permissions::default()
    }
}

/// A change of an access key's permissions for a bucket. `None` leaves a permission as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrantChange {
    /// See [`Permissions::read`].
    pub read: Option<bool>,
    /// See [`Permissions::write`].
    pub write: Option<bool>,
    /// See [`Permissions::owner`].
    pub owner: Option<bool>,
}

impl GrantChange {
    /// Returns the permissions after the change.
    pub(crate) fn of(&self, now: Permissions) -> Permissions {
        Permissions {
            read: self.read.unwrap_or(now.read),
            write: self.write.unwrap_or(now.write),
            owner: self.owner.unwrap_or(now.owner),
        }
    }
}

impl From<Permissions> for GrantChange {
    fn from(all: Permissions) -> GrantChange {
        GrantChange {
            read: Some(all.read),
            write: Some(all.write),
            owner: Some(all.owner),
        }
    }
}

/// An access key's permissions as the bucket's row holds them. A grant counts for one incarnation
/// of the key only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    #[serde(rename = "r", default)]
    read: bool,
    #[serde(rename = "w", default)]
    write: bool,
    #[serde(rename = "o", default)]
    owner: bool,
    #[serde(rename = "k", default)]
    pub incarnation: Id,
}

impl Grant {
    pub fn new(incarnation: Id, permissions: Permissions) -> Grant {
        let Permissions { read, write, owner } = permissions;
        Grant {
            read,
            write,
            owner,
            incarnation,
        }
    }

    /// Returns true if the grant includes ownership.
    pub fn is_owner(self) -> bool {
        self.owner
    }

    fn permissions(self) -> Permissions {
        Permissions {
            read: self.read,
            write: self.write,
            owner: self.owner,
        }
    }
}

/// A CORS rule as in S3.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CorsRule {
    /// The rule's name, if the user gave one.
    #[serde(default)]
    pub id: Option<String>,
    /// The allowed origins, each with at most one `*`.
    pub allowed_origins: Vec<String>,
    /// The allowed methods: `GET`, `PUT`, `HEAD`, `POST`, `DELETE`.
    pub allowed_methods: Vec<String>,
    /// The allowed request headers, each with at most one `*`.
    #[serde(default)]
    pub allowed_headers: Vec<String>,
    /// The response headers that a script may read.
    #[serde(default)]
    pub expose_headers: Vec<String>,
    /// The seconds for which a browser may keep the answer to a preflight request.
    #[serde(default)]
    pub max_age_seconds: Option<u32>,
}

/// A bucket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bucket {
    /// The bucket's identity. A bucket that is deleted and created again gets another one.
    pub id: Id,
    /// The bucket's name, unique in the cluster.
    pub name: String,
    /// The time of creation in milliseconds since 1970.
    pub created_ms: u64,
    /// The grants, by access key id.
    #[serde(default)]
    pub(crate) grants: BTreeMap<String, Grant>,
    /// The CORS rules; empty if CORS is not configured.
    #[serde(default)]
    pub cors: Vec<CorsRule>,
    /// The tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Tags,
    /// The website; `None` if the bucket is none.
    #[serde(default)]
    pub website: Option<Website>,
    /// The versioning state.
    #[serde(default)]
    pub versioning: Versioning,
    /// The object lock configuration; `None` if object lock was never enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<BucketLock>,
    /// The lifecycle configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// The event notifications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification: Option<Notification>,
    /// The policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<BucketPolicy>,
    /// The public permissions that are blocked; `None` if the setting was removed.
    #[serde(default = "access::block_everything")]
    pub public_access_block: Option<PublicAccessBlock>,
    /// The object ownership; `None` if the setting was removed.
    #[serde(default = "access::owner_enforced")]
    pub ownership: Option<Ownership>,
    /// The access control list.
    #[serde(default)]
    pub acl: Acl,
    /// True if a power cut may undo acknowledged writes; `None` for the node's setting.
    #[serde(default)]
    pub buffered: Option<bool>,
    /// The number of changes of the settings that decide what a write stores: see
    /// [`fence`](crate::fence).
    #[serde(default)]
    pub(crate) generation: u64,
    /// The most that the bucket may hold: see [`quota`](crate::quota).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// The part of its user's quota that the bucket may fill; `None` if the user has no quota, or
    /// none owns it.
    #[serde(rename = "portion", default, skip_serializing_if = "Option::is_none")]
    pub(crate) portion: Option<Quota>,
    /// True while the write fences may hold shares of an earlier portion.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) portion_pending: bool,
    /// True if new objects are encrypted by the cluster's keys where the request does not say how.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypts: bool,
    /// True if an S3 Bucket Key was asked for. It saves calls of AWS KMS, so it changes nothing
    /// here; tools expect to read what they have set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_bucket_key: bool,
    /// The encryption that new objects may not have; `None` if that was never set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_encryption: Option<BlockedEncryption>,
    /// True if transfer acceleration was suspended. There is none; tools expect to read what they
    /// have set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspends_acceleration: bool,
    /// The token of the operation that may set the bucket's write fences.
    #[serde(rename = "turn", default)]
    pub(crate) token: FencingToken,
}

impl Versioned for Bucket {
    const VERSION: u8 = 1;
}

impl Bucket {
    /// Returns the permissions of an access key for this bucket.
    pub fn permissions(&self, key: &AccessKey) -> Permissions {
        if key.user.is_none() && key.session.is_none() {
            return self.granted(&key.id, key.incarnation);
        }
        let grantees = key.grantees().into_iter();
        let each = grantees.map(|of| self.granted(&of.name, of.incarnation));
        each.fold(Permissions::default(), |all, more| Permissions {
            read: all.read || more.read,
            write: all.write || more.write,
            owner: all.owner || more.owner,
        })
    }

    /// Returns the permissions of an access key, a user or a role, by unique id.
    fn granted(&self, id: &str, incarnation: Id) -> Permissions {
        // A key that is deleted and imported again under its id gets no old grant back.
        let grant = self.grants.get(id);
        let own = grant.filter(|grant| grant.incarnation == incarnation);
        own.map_or(Permissions::default(), |grant| grant.permissions())
    }

    /// Returns the unique id of the first owner.
    pub(crate) fn first_owner(&self) -> Option<&str> {
        let mut owners = self.grants.iter().filter(|(_, grant)| grant.is_owner());
        owners.next().map(|(id, _)| id.as_str())
    }

    pub(crate) fn durability(&self, default: Durability) -> Durability {
        match self.buffered {
            Some(true) => Durability::Buffered,
            Some(false) => Durability::Fsync,
            None => default,
        }
    }
}

/// Another name of a bucket. It counts while the bucket exists. See [ADR: names of
/// buckets](../../../docs/adr/2026-11-23-a-name-is-one-row.md).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Alias {
    /// The name with which the bucket was created.
    #[serde(rename = "n")]
    pub bucket: String,
    /// The bucket's identity: a later bucket of that name does not get the alias.
    #[serde(rename = "i")]
    pub id: Id,
}

impl Versioned for Alias {
    /// Rows of names hold buckets or aliases. The versions tell which.
    const VERSION: u8 = b'a';
}

impl Alias {
    pub(crate) fn of(bucket: &Bucket) -> Alias {
        Alias {
            bucket: bucket.name.clone(),
            id: bucket.id,
        }
    }
}

/// The meaning of a name: the value of its row.
pub(crate) enum Named {
    Bucket(Box<Bucket>),
    Alias(Alias),
}

impl Named {
    pub(crate) fn decode(metadata: &[u8]) -> Result<Named, DecodeError> {
        match metadata.first() {
            Some(&Alias::VERSION) => codec::decode(metadata).map(Named::Alias),
            _ => codec::decode(metadata).map(|bucket| Named::Bucket(Box::new(bucket))),
        }
    }

    /// Returns the bucket of a row, unless the row is that of an alias.
    pub(crate) fn bucket(metadata: &[u8]) -> Result<Option<Bucket>, DecodeError> {
        match Named::decode(metadata)? {
            Named::Bucket(bucket) => Ok(Some(*bucket)),
            Named::Alias(_) => Ok(None),
        }
    }
}

/// A fencing token: see [`fence`](crate::fence).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FencingToken {
    /// The token's number. Each token is higher than the one before.
    #[serde(rename = "n", default)]
    pub number: u64,
    /// The time at which an operation took the token, in milliseconds since 1970; `None` if it was
    /// released.
    #[serde(rename = "s", default)]
    pub taken_ms: Option<u64>,
}

impl FencingToken {
    /// Returns true if no operation has ever taken it.
    pub(crate) fn is_new(&self) -> bool {
        *self == FencingToken::default()
    }
}

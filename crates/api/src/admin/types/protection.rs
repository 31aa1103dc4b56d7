//! Settings that protect a bucket: encryption, public access, ownership.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The default encryption of a bucket: `GET` and `PUT /v1/buckets/{name}/encryption`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketEncryption {
    /// True if new objects are encrypted by the cluster's keys (`AES256`) where the request does not say
    /// how.
    pub enabled: bool,
    /// True if an S3 Bucket Key was asked for. It changes nothing here; tools expect to read it.
    #[serde(default)]
    pub bucket_key: bool,
    /// The encryption that new objects may not have; absent if none is blocked. Only PutBucketEncryption of the S3
    /// API changes it: a `PUT` leaves it as it is, and is refused if it names another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<BlockedEncryption>,
}

/// An encryption that new objects of a bucket may not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub enum BlockedEncryption {
    /// That by customers' keys.
    #[serde(rename = "SSE-C")]
    Customer,
}

/// The Public Access Block of a bucket: `GET` and `PUT /v1/buckets/{name}/public-access`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublicAccess {
    /// Refuses access control lists that grant everybody something.
    pub block_public_acls: bool,
    /// Ignores such lists.
    pub ignore_public_acls: bool,
    /// Refuses policies that grant everybody something.
    pub block_public_policy: bool,
    /// Ignores such policies for clients outside the account.
    pub restrict_public_buckets: bool,
}

/// `PATCH /v1/buckets/{name}/public-access`: what is absent stays as it is.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePublicAccess {
    /// True to refuse access control lists that grant everybody something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_public_acls: Option<bool>,
    /// True to ignore such lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_public_acls: Option<bool>,
    /// True to refuse policies that grant everybody something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_public_policy: Option<bool>,
    /// True to ignore such policies for clients outside the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restrict_public_buckets: Option<bool>,
}

/// The object ownership of a bucket: `GET` and `PUT /v1/buckets/{name}/ownership`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketOwnership {
    /// The owner of new objects, and the effect of access control lists.
    pub ownership: ObjectOwnership,
}

/// The owner of new objects, and the effect of access control lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub enum ObjectOwnership {
    /// The bucket's owner. Access control lists do not count.
    BucketOwnerEnforced,
    /// The bucket's owner, if the request asks for `bucket-owner-full-control`.
    BucketOwnerPreferred,
    /// The user who writes the object.
    ObjectWriter,
}

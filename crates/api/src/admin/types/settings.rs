//! Settings of buckets: versions, object lock, tags and lifecycle rules.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::NameValue;

/// The versioning state of a bucket: `GET` and `PUT /v1/buckets/{name}/versioning`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketVersioning {
    /// The state of versioning.
    pub state: VersioningState,
}

/// The state of versioning: of whether a write keeps the object that it replaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum VersioningState {
    /// It never did. A bucket that leaves this state cannot return to it.
    Never,
    /// Each write makes a version, and the older ones stay.
    Enabled,
    /// Each write replaces the version `null`, and the others stay.
    Suspended,
}

/// The object lock of a bucket: `GET` and `PUT /v1/buckets/{name}/lock`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketLockInfo {
    /// True if versions can be protected. It cannot be taken back.
    pub enabled: bool,
    /// The mode of the retention that new versions get, if they get one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<LockMode>,
    /// The retention of new versions in days. Give `days` or `years` with `mode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// The retention of new versions in years of 365 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub years: Option<u32>,
}

/// The mode of a retention: the strictness of its protection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LockMode {
    /// Those with the permission may bypass it.
    Governance,
    /// Nobody may bypass, shorten or remove it.
    Compliance,
}

/// The most that may be held: the body of `PUT /v1/buckets/{name}/quota` and
/// `PUT /v1/users/{name}/quota`. An absent field sets no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// The most bytes of content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The most objects. Each version counts as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
}

/// A quota and what is used of it: `GET /v1/buckets/{name}/quota`, `GET /v1/users/{name}/quota`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct QuotaUse {
    /// The most that may be held.
    pub quota: Quota,
    /// The bytes of content that are held.
    pub bytes: u64,
    /// The objects and versions that are held.
    pub objects: u64,
}

/// The tags of a bucket: `GET` and `PUT /v1/buckets/{name}/tags`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketTags {
    /// The tags: at most 50.
    pub tags: Vec<NameValue>,
}

/// The lifecycle rules of a bucket: `GET` and `PUT /v1/buckets/{name}/lifecycle`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketLifecycle {
    /// The rules; none if the bucket has no configuration.
    pub rules: Vec<BucketRule>,
}

/// A lifecycle rule. It is for the objects that match `prefix`, all `tags` and the sizes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketRule {
    /// The rule's name, unique in the bucket; a random one if absent.
    #[serde(default)]
    pub id: String,
    /// True if the rule is not applied.
    #[serde(default)]
    pub disabled: bool,
    /// The beginning of the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Tags that the object has, with these values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<NameValue>,
    /// The object has more bytes than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub larger_than: Option<u64>,
    /// The object has fewer bytes than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smaller_than: Option<u64>,
    /// Objects expire so many days after they were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_days: Option<u32>,
    /// Objects expire at this midnight UTC, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_at_ms: Option<u64>,
    /// Delete markers without other versions are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_markers: Option<bool>,
    /// Versions are removed so many days after they became noncurrent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noncurrent_days: Option<u32>,
    /// With `noncurrent_days`: the number of noncurrent versions that stay, the newest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noncurrent_keep: Option<u32>,
    /// Incomplete uploads are aborted after so many days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_days: Option<u32>,
}

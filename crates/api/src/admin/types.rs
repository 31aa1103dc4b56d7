//! Requests and answers of the admin API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

mod access;
mod blocks;
mod certificates;
mod cluster;
mod content;
mod deletion;
mod families;
mod identities;
mod keyring;
mod protection;
mod providers;
mod recent;
mod rules;
mod settings;
mod tokens;
mod upkeep;
mod users;
mod verify;
mod website;
mod work;

pub use access::{Explain, Explanation};
pub use blocks::{BlockInfo, BlockNode, CopyState};
pub use certificates::{CertificateInfo, CertificateState};
pub use cluster::{
    Apply, Assign, ClusterState, ClusterStatus, HistoryInfo, Join, LayoutInfo, LayoutNode,
    NodeInfo, NodeState, ProgressInfo, Redundancy, RemoveDead, RemovedInfo, Stage, StagedInfo,
    StagedNode, StagedRole,
};

pub use content::{AbortUploads, AbortedUploads, NameValue, ObjectInfo, UploadInfo};
pub use deletion::DeletionPlan;
pub use families::MetricInfo;
pub use identities::{
    ChangeGroup, ChangeRole, CreateGroup, CreatePolicy, CreateRole, GroupInfo, HolderKind,
    PolicyDocument, PolicyInfo, RoleInfo,
};
pub use keyring::{KeyringInfo, RingKeyInfo};
pub use protection::{
    BlockedEncryption, BucketEncryption, BucketOwnership, ChangePublicAccess, ObjectOwnership,
    PublicAccess,
};
pub use providers::{ChangeProvider, CreateProvider, ProviderInfo};
pub use recent::AuditLine;
pub use rules::{BucketCors, BucketNotifications, CorsRule, NotificationRule, NotificationStyle};
pub use settings::{
    BucketLifecycle, BucketLockInfo, BucketRule, BucketTags, BucketVersioning, LockMode, Quota,
    QuotaUse, VersioningState,
};
pub use tokens::{ChangeToken, CreateToken, TokenInfo, TokenWithSecret};
pub use upkeep::{
    AntiEntropyInfo, BlockTrouble, EventTargetInfo, EventTargetState, GcInfo, LifecycleInfo,
    RepairCounts, ScrubInfo, StartScrub, Upkeep,
};
pub use users::{ChangeUser, CreateUser, UserInfo};
pub use verify::{
    BehindInfo, DiskSpace, RepairBlocks, RepairInfo, RepairNode, SnapshotInfo, StartVerify,
    VerificationSummary, VerifyInfo, VerifyNode,
};
pub use website::{SetWebsite, WebsiteInfo, WebsiteRedirect, WebsiteRule};
pub use work::{OperationInfo, OperationKind, OperationState};

/// The error in every answer that is not a success: problem details (RFC 9457), with a code.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The kind of problem as a URI: `urn:archipel:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The meaning of the status.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The problem and its remedy, for people.
    pub detail: String,
    /// A stable name: `NoSuchBucket`, `BucketNotEmpty`, `InvalidRequest`...
    pub code: String,
}

/// A part of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The items, sorted.
    pub items: Vec<T>,
    /// If there are more items: the value of `after` that gets the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `GET /health`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// True if the node can do its work.
    pub healthy: bool,
    /// The reasons why it cannot.
    pub reasons: Vec<String>,
}

/// `GET /v1/status`
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// The node's identity: its public key, in hexadecimal digits.
    pub node_id: String,
    /// The release.
    pub version: String,
    /// The commit it was built from, if known.
    pub commit: Option<String>,
    /// The highest feature level that it speaks.
    #[serde(default)]
    pub level: u32,
    /// The number of starts on its data.
    pub boot: u64,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// The addresses at which S3 clients connect.
    pub s3_endpoint: String,
    /// The address of websites; absent if the node serves none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web_endpoint: Option<String>,
    /// The address at which K2V clients connect; absent if K2V is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k2v_endpoint: Option<String>,
    /// The address of the web console; absent if it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console_endpoint: Option<String>,
    /// The region that they sign for.
    pub region: String,
    /// The metadata engine.
    pub engine: String,
    /// `fsync` or `buffered`.
    pub durability: String,
    /// The transport between nodes: `quic` or `tcp`; absent if the node stays alone.
    #[serde(default)]
    pub transport: Option<String>,
    /// Bytes of metadata on disk.
    pub metadata_bytes: u64,
    /// The disks that hold blocks.
    pub disks: Vec<DiskStatus>,
    /// Buckets; absent while they are not known here.
    pub buckets: Option<u64>,
    /// Access keys; absent while they are not known here.
    pub access_keys: Option<u64>,
    /// The cluster as this node sees it; absent if it is in none yet.
    pub cluster: Option<ClusterStatus>,
    /// The maintenance of the node's data.
    #[serde(default)]
    pub upkeep: Upkeep,
    /// Advice to the operator on a node that does its work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The reasons why the node cannot do its work; empty if it can.
    pub troubles: Vec<String>,
}

/// A folder for blocks.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DiskStatus {
    /// Its number, which never changes.
    pub number: u16,
    /// The folder.
    pub path: String,
    /// `healthy`, `draining`, `drained` once it may be removed, `full` or `failed: why`.
    pub state: String,
    /// Bytes of blocks on it.
    pub used_bytes: u64,
    /// Bytes that may still be written.
    pub free_bytes: u64,
    /// Bytes that may be used in all.
    pub capacity_bytes: u64,
}

/// A bucket in `GET /v1/buckets`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BucketSummary {
    /// Its name.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// The number of access keys that may use it.
    pub grants: usize,
}

/// `POST /v1/buckets`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateBucket {
    /// Its name, by S3's rules.
    pub name: String,
    /// An access key that gets all permissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// `GET /v1/buckets/{name}`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BucketInfo {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// The number of its objects.
    pub objects: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Further names that count for everybody.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Names that only one access key has for it.
    #[serde(default)]
    pub names_of_keys: Vec<NameOfKey>,
    /// The most that it may hold.
    #[serde(default)]
    pub quota: Quota,
    /// The permissions of each access key.
    pub grants: Vec<Grant>,
}

/// A name that only one access key has for a bucket.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NameOfKey {
    /// The access key's id.
    pub key: String,
    /// The name.
    pub name: String,
}

/// `POST /v1/buckets/{name}/aliases`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddAlias {
    /// The further name: a bucket name or a domain.
    pub name: String,
    /// The access key for which alone the name counts; absent for everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The permissions of an access key on a bucket.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Grant {
    /// The bucket's name.
    pub bucket: String,
    /// The access key's id.
    pub key: String,
    /// List and get objects.
    pub read: bool,
    /// Put and delete objects.
    pub write: bool,
    /// Change the bucket's settings and delete it.
    pub owner: bool,
}

/// `PATCH /v1/buckets/{name}/grants/{key}`: what is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeGrant {
    /// List and get objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<bool>,
    /// Put and delete objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<bool>,
    /// Change the bucket's settings and delete it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<bool>,
}

/// An access key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct KeyInfo {
    /// The public part.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// True if it may create buckets.
    pub create_bucket: bool,
    /// The user that it belongs to; absent if it is a user of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// True if requests that are signed with it are refused.
    #[serde(default)]
    pub disabled: bool,
    /// The time from which on it does not count, in milliseconds since 1970; absent if it does not
    /// expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// Its permissions on each bucket; absent if the node does not know them now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<Vec<Grant>>,
}

/// An access key with its secret: the answer to its creation, and to `?secret=true`.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct KeyWithSecret {
    /// The key.
    #[serde(flatten)]
    pub key: KeyInfo,
    /// The secret part.
    pub secret: String,
}

/// `POST /v1/keys`: a new key, or, with id and secret, one that exists elsewhere.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    /// The name for people.
    pub name: String,
    /// True if it may create buckets.
    #[serde(default)]
    pub create_bucket: bool,
    /// The time from which on it does not count, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// The public part of a key to import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The secret part of a key to import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// `PATCH /v1/keys/{id}`: what is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeKey {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True if it may create buckets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_bucket: Option<bool>,
    /// True to refuse requests that are signed with it; false to take them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// The time from which on it does not count, in milliseconds since 1970; 0 for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

//! Incomplete uploads and single objects.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An incomplete upload.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UploadInfo {
    /// Its id.
    pub id: String,
    /// The key of the future object.
    pub key: String,
    /// The time at which it began, in milliseconds since 1970.
    pub initiated_ms: u64,
    /// The access key that began it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiator: Option<String>,
}

/// The uploads to abort.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AbortUploads {
    /// Those that began at least this many seconds ago.
    pub older_than_seconds: u64,
    /// True to count them only.
    #[serde(default)]
    pub dry_run: bool,
}

/// Uploads that were aborted, or would be.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct AbortedUploads {
    /// Their number, at most 10,000.
    pub uploads: u64,
    /// The keys of the first hundred of them.
    pub keys: Vec<String>,
    /// True if more are left for a further request.
    pub more: bool,
    /// True if they were aborted; false for a dry run.
    pub done: bool,
}

/// A name with a value.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NameValue {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// The metadata of an object.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ObjectInfo {
    /// The bucket's name.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The identity of the write that made it.
    pub version: String,
    /// The bytes of content.
    pub bytes: u64,
    /// The entity tag, without quotes.
    pub etag: String,
    /// The time of the write, in milliseconds since 1970.
    pub modified_ms: u64,
    /// The number of parts in which it was uploaded; 0 if it was uploaded in one request.
    pub parts: u32,
    /// The headers that it is returned with, among them the user's metadata.
    pub headers: Vec<NameValue>,
    /// The tags.
    pub tags: Vec<NameValue>,
}

//! Multipart uploads and their parts.

use archipel_access::Acl;
use archipel_base::codec::Versioned;
use archipel_base::{Id, Stamp};
use archipel_cluster::Intent;
use serde::{Deserialize, Serialize};

use crate::checksum::{Checksum, ChecksumKind};
use crate::cipher::Encryption;
use crate::form::ContentForm;
use crate::lock::ObjectLock;
use crate::object::Tags;
use crate::owner::UploadName;

/// The highest number of a part. The lowest is 1.
pub const MAX_PART_NUMBER: u16 = 10_000;

/// The metadata that a client gives when an upload begins.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UploadMeta {
    /// The headers of the future object, by lower-case name.
    #[serde(rename = "h", default)]
    pub headers: Vec<(String, String)>,
    /// The checksum algorithm that the client asked for.
    #[serde(rename = "a", default)]
    pub checksum_algorithm: Option<String>,
    /// The kind of checksum that the object will have.
    #[serde(rename = "k", default)]
    pub checksum_kind: Option<ChecksumKind>,
    /// The tags of the future object.
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Tags,
    /// The access control list of the future object.
    #[serde(default, skip_serializing_if = "Acl::is_private")]
    pub acl: Acl,
    /// The protection of the future object that the client asks for.
    #[serde(rename = "l", default, skip_serializing_if = "ObjectLock::is_empty")]
    pub lock: ObjectLock,
    /// The encryption of the future object: see [`Sealing`](crate::Sealing).
    #[serde(rename = "enc", default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Box<Encryption>>,
    /// Headers of the request that policies may have conditions on, by lower-case name: those that
    /// go on with the upload do not repeat them.
    #[serde(rename = "q", default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<(String, String)>,
}

/// An upload in progress.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Upload {
    /// The upload's id.
    #[serde(rename = "i")]
    pub id: Id,
    /// The key of the future object.
    #[serde(rename = "o")]
    pub key: String,
    /// The time at which the upload began, in milliseconds since 1970.
    #[serde(rename = "m")]
    pub initiated_ms: u64,
    /// The access key that began it.
    #[serde(rename = "n", default)]
    pub initiator: Option<String>,
    /// The metadata that the client gave when the upload began.
    #[serde(rename = "d", default)]
    pub meta: UploadMeta,
    /// The write of the object that completes or aborts the upload. The object's row decides
    /// whether it took effect: see [`intents`](crate::intents).
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub(crate) intent: Option<Intent>,
}

impl Versioned for Upload {
    const VERSION: u8 = 1;
}

impl Upload {
    /// Returns the upload's name, if it is an upload of that bucket.
    pub(crate) fn name_in(&self, bucket: &Id) -> UploadName {
        UploadName::new(bucket, &self.key, &self.id)
    }
}

/// The metadata that a client gives with a part's content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartMeta {
    /// The entity tag: MD5 in hexadecimal, without quotes.
    pub etag: String,
    /// The checksum, if there is one.
    pub checksum: Option<Checksum>,
}

/// A part that was uploaded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The part's number: 1 to [`MAX_PART_NUMBER`].
    #[serde(rename = "n")]
    pub number: u16,
    /// The random identity of this attempt. A client may send a part several times.
    #[serde(rename = "t")]
    pub attempt: Id,
    /// The bytes of content.
    #[serde(rename = "s")]
    pub size: u64,
    /// The entity tag: MD5 in hexadecimal, without quotes.
    #[serde(rename = "e")]
    pub etag: String,
    /// The checksum, if there is one.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    /// The time of the write in milliseconds since 1970.
    #[serde(rename = "m")]
    pub modified_ms: u64,
    /// The form of the content.
    #[serde(rename = "l")]
    pub(crate) form: ContentForm,
    /// The part's upload, which decides whether the part is still needed.
    #[serde(rename = "o")]
    pub(crate) of: UploadName,
    /// The stamp of the row. It orders attempts.
    #[serde(skip)]
    pub(crate) stamp: Stamp,
    /// True if a quorum is known to hold the row.
    #[serde(skip)]
    pub(crate) is_settled: bool,
}

impl Versioned for Part {
    const VERSION: u8 = 1;
}

/// A request for a page of a bucket's uploads.
#[derive(Clone, Debug, Default)]
pub struct UploadQuery {
    /// The prefix of the keys to list.
    pub prefix: String,
    /// The delimiter. Keys that contain it after the prefix are rolled up to a common prefix.
    pub delimiter: Option<String>,
    /// The listing leaves out uploads of keys up to and including this one (see `after_id`).
    pub after_key: Option<String>,
    /// With `after_key`: the listing shows uploads of that key itself whose id is above this one.
    pub after_id: Option<Id>,
    /// The largest number of uploads and prefixes.
    pub limit: usize,
}

/// A page of uploads, sorted by key and then by id.
#[derive(Clone, Debug, Default)]
pub struct UploadPage {
    /// The uploads.
    pub uploads: Vec<Upload>,
    /// The common prefixes that keys were rolled up to.
    pub prefixes: Vec<String>,
    /// True if more uploads follow.
    pub truncated: bool,
}

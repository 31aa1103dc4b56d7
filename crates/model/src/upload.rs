//! Multipart uploads: what is known of one, and of its parts.

use archipel_base::codec::Versioned;
use archipel_base::{Id, Stamp};
use serde::{Deserialize, Serialize};

use crate::content::Layout;
use crate::object::{Checksum, ChecksumKind};

/// The highest number that a part may have; the lowest is 1.
pub const MAX_PART_NUMBER: u16 = 10_000;

/// What the door gives when an upload begins.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UploadMeta {
    /// Headers of the object to come, by lower-case name.
    #[serde(rename = "h", default)]
    pub headers: Vec<(String, String)>,
    /// The checksum algorithm that was asked for.
    #[serde(rename = "a", default)]
    pub checksum_algorithm: Option<String>,
    /// What kind of checksum the object shall have.
    #[serde(rename = "k", default)]
    pub checksum_kind: Option<ChecksumKind>,
}

/// An upload in progress.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Upload {
    /// Its identity.
    #[serde(rename = "i")]
    pub id: Id,
    /// The key of the object to come.
    #[serde(rename = "o")]
    pub key: String,
    /// Milliseconds since 1970.
    #[serde(rename = "m")]
    pub initiated_ms: u64,
    /// The access key that began it.
    #[serde(rename = "n", default)]
    pub initiator: Option<String>,
    /// What was given when it began.
    #[serde(rename = "d", default)]
    pub meta: UploadMeta,
}

impl Versioned for Upload {
    const VERSION: u8 = 1;
}

/// What the door gives with a part's content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartMeta {
    /// MD5 in hexadecimal, without quotes.
    pub etag: String,
    /// A checksum, if there is one.
    pub checksum: Option<Checksum>,
}

/// A part that was uploaded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// 1 to [`MAX_PART_NUMBER`].
    #[serde(rename = "n")]
    pub number: u16,
    /// Tells this upload of the part from others of the same number; the newest counts.
    #[serde(rename = "t")]
    pub attempt: Id,
    /// Bytes of content.
    #[serde(rename = "s")]
    pub size: u64,
    /// MD5 in hexadecimal, without quotes.
    #[serde(rename = "e")]
    pub etag: String,
    /// A checksum, if there is one.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    /// Milliseconds since 1970.
    #[serde(rename = "m")]
    pub modified_ms: u64,
    /// Where the content is.
    #[serde(rename = "l")]
    pub(crate) layout: Layout,
    /// The bucket and key of its upload: whom to ask whether it is still needed.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<(Id, String)>,
    /// When the row was written; orders attempts.
    #[serde(skip)]
    pub(crate) stamp: Stamp,
}

impl Versioned for Part {
    const VERSION: u8 = 1;
}

/// A part of a completed object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartInfo {
    /// Its number.
    #[serde(rename = "n")]
    pub number: u16,
    /// Bytes of content.
    #[serde(rename = "s")]
    pub size: u64,
    /// A checksum, if there is one.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    #[serde(rename = "t")]
    pub(crate) attempt: Id,
}

/// What to list of the uploads of a bucket.
#[derive(Clone, Debug, Default)]
pub struct UploadQuery {
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys that hold it behind the prefix are rolled up.
    pub delimiter: Option<String>,
    /// Uploads of keys at or below it are left out (see `after_id`).
    pub after_key: Option<String>,
    /// With `after_key`: of that key itself, uploads above this one are shown.
    pub after_id: Option<Id>,
    /// At most so many uploads and prefixes.
    pub limit: usize,
}

/// A page of uploads: sorted by key, then by identity.
#[derive(Clone, Debug, Default)]
pub struct UploadPage {
    /// The uploads.
    pub uploads: Vec<Upload>,
    /// The prefixes that keys were rolled up to.
    pub prefixes: Vec<String>,
    /// Whether there is more.
    pub truncated: bool,
}

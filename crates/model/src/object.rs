//! Objects: what is known of one, and under which condition it may be replaced.

use std::sync::Arc;

use archipel_base::Id;
use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::content::Layout;
use crate::error::Error;

/// Who vouches for a checksum: the whole object, or its parts' checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ChecksumKind {
    /// Of the object's bytes.
    #[serde(rename = "f")]
    FullObject,
    /// Of the parts' checksums.
    #[serde(rename = "c")]
    Composite,
}

/// A checksum that a client gave or asked for; opaque here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Checksum {
    /// As S3 names it: `CRC32`, `CRC32C`, `CRC64NVME`, `SHA1`, `SHA256`.
    #[serde(rename = "a")]
    pub algorithm: String,
    /// Base64, with `-N` behind it for a composite one.
    #[serde(rename = "v")]
    pub value: String,
    /// What it is of.
    #[serde(rename = "k")]
    pub kind: ChecksumKind,
}

/// What the door gives with an object's content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectMeta {
    /// Without quotes.
    pub etag: String,
    /// Headers to give back, by lower-case name: `content-type`, `x-amz-meta-*`, ….
    pub headers: Vec<(String, String)>,
    /// A checksum, if there is one.
    pub checksum: Option<Checksum>,
}

/// What is known of an object without reading its content.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ObjectHead {
    /// The identity of this version.
    #[serde(rename = "v")]
    pub version: Id,
    /// Bytes of content.
    #[serde(rename = "s")]
    pub size: u64,
    /// Without quotes; `-N` behind it if it was uploaded in N parts.
    #[serde(rename = "e")]
    pub etag: String,
    /// Milliseconds since 1970.
    #[serde(rename = "m")]
    pub modified_ms: u64,
    /// Headers to give back, by lower-case name.
    #[serde(rename = "h", default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// A checksum, if there is one.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    /// How many parts it was uploaded in; 0 if in one request.
    #[serde(rename = "p", default)]
    pub parts: u32,
    /// Where the content is.
    #[serde(rename = "l")]
    pub(crate) layout: Layout,
}

impl Versioned for ObjectHead {
    const VERSION: u8 = 1;
}

impl ObjectHead {
    /// An empty object with this entity tag, for tests of what stands above.
    #[doc(hidden)]
    pub fn for_tests(etag: &str, modified_ms: u64) -> ObjectHead {
        ObjectHead {
            version: Id::default(),
            size: 0,
            etag: etag.to_owned(),
            modified_ms,
            headers: Vec::new(),
            checksum: None,
            parts: 0,
            layout: Layout::Inline,
        }
    }

    /// The value of a header, by lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A test of the current object (`None`: there is none), made atomically with the write.
pub type Predicate = Arc<dyn Fn(Option<&ObjectHead>) -> Result<(), Error> + Send + Sync>;

/// Under which condition a write takes effect.
#[derive(Clone, Default)]
pub enum Condition {
    /// None: one round.
    #[default]
    Always,
    /// Only if the test passes; its error is the operation's. Two rounds.
    Check(Predicate),
}

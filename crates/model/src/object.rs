//! Objects: metadata, and conditions of their replacement.

use std::sync::Arc;

use archipel_access::Acl;
use archipel_base::Id;
use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::checksum::Checksum;
use crate::cipher::Encryption;
use crate::error::Error;
use crate::form::ContentForm;
use crate::lock::{Governance, ObjectLock, Retention};
use crate::version::VersionId;

/// The tags of an object or a bucket: keys and values, in the order in which they were given.
pub type Tags = Vec<(String, String)>;

/// The metadata that a client gives with an object's content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectMeta {
    /// The entity tag, without quotes.
    pub etag: String,
    /// The headers to return with the object, by lower-case name: `content-type`, `x-amz-meta-*`,
    /// ….
    pub headers: Vec<(String, String)>,
    /// The checksum, if there is one.
    pub checksum: Option<Checksum>,
    /// The tags.
    pub tags: Tags,
    /// The access control list.
    pub acl: Acl,
    /// The protection that the client asks for.
    pub lock: ObjectLock,
}

/// The stored metadata of an object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ObjectHead {
    /// The random identity of this write of the object. A change of the tags keeps it.
    #[serde(rename = "v")]
    pub version: Id,
    /// The bytes of content.
    #[serde(rename = "s")]
    pub size: u64,
    /// The entity tag, without quotes. It ends with `-N` if the object was uploaded in N parts.
    #[serde(rename = "e")]
    pub etag: String,
    /// The time of the write in milliseconds since 1970.
    #[serde(rename = "m")]
    pub modified_ms: u64,
    /// The headers to return with the object, by lower-case name.
    #[serde(rename = "h", default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The checksum, if there is one.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    /// The number of parts in which the object was uploaded; 0 if it was uploaded in one request.
    #[serde(rename = "p", default)]
    pub parts: u32,
    /// The tags.
    #[serde(rename = "g", default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Tags,
    /// The access control list.
    #[serde(rename = "acl", default, skip_serializing_if = "Acl::is_private")]
    pub acl: Acl,
    /// The protection from deletion.
    #[serde(rename = "k", default, skip_serializing_if = "ObjectLock::is_empty")]
    pub lock: ObjectLock,
    /// The version's id. A row holds it beside the metadata.
    #[serde(skip)]
    pub id: VersionId,
    /// True for a delete marker, of which only the id and the time mean something.
    #[serde(skip)]
    pub is_marker: bool,
    /// The encryption of the content; `None` if it is not encrypted.
    #[serde(rename = "enc", default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Box<Encryption>>,
    /// The form of the content.
    #[serde(rename = "l")]
    pub(crate) form: ContentForm,
}

impl Versioned for ObjectHead {
    const VERSION: u8 = 1;
}

impl ObjectHead {
    /// Returns an empty object with this entity tag, for tests of the crates above.
    #[doc(hidden)]
    pub fn for_tests(etag: &str, modified_ms: u64) -> ObjectHead {
        ObjectHead::empty(etag, modified_ms)
    }

    /// Returns an object without content.
    pub(crate) fn empty(etag: &str, modified_ms: u64) -> ObjectHead {
        ObjectHead {
            version: Id::default(),
            size: 0,
            etag: etag.to_owned(),
            modified_ms,
            headers: Vec::new(),
            checksum: None,
            parts: 0,
            tags: Tags::new(),
            acl: Acl::default(),
            lock: ObjectLock::default(),
            id: VersionId::Null,
            is_marker: false,
            encryption: None,
            form: ContentForm::Inline,
        }
    }

    /// Returns the value of a header, by lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A delete marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker {
    /// Its id.
    pub id: VersionId,
    /// The time of the deletion in milliseconds since 1970.
    pub modified_ms: u64,
}

impl Marker {
    pub(crate) fn of(head: &ObjectHead) -> Marker {
        Marker {
            id: head.id,
            modified_ms: head.modified_ms,
        }
    }
}

/// A change of a version's protection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockChange {
    /// Replaces the retention, by one or by none. A caller may bypass governance.
    Retention(Option<Retention>, Governance),
    /// Sets or lifts the legal hold.
    LegalHold(bool),
}

/// A test of the current object, or of `None` if there is none or a delete marker. It is atomic
/// with the write.
pub type Predicate = Arc<dyn Fn(Option<&ObjectHead>) -> Result<(), Error> + Send + Sync>;

/// The condition under which a write takes effect.
#[derive(Clone, Default)]
pub enum Condition {
    /// No condition. The write takes one round trip.
    #[default]
    Always,
    /// The test must pass; otherwise the operation fails with its error. The write takes two round
    /// trips.
    Check(Predicate),
}

//! Owners of content, by name: objects and parts; and the names of uploads.
//!
//! An owner's row refers to the content. Content whose owner does not refer to it is garbage.

use archipel_base::Id;
use archipel_base::hash::derived_id;
use serde::{Deserialize, Serialize};

/// An upload, named by its bucket, its key and its id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct UploadName {
    #[serde(rename = "b")]
    pub bucket: Id,
    #[serde(rename = "k")]
    pub key: String,
    #[serde(rename = "u")]
    pub id: Id,
}

impl UploadName {
    /// Names an upload of a bucket.
    pub fn new(bucket: &Id, key: &str, id: &Id) -> UploadName {
        UploadName {
            bucket: *bucket,
            key: key.to_owned(),
            id: *id,
        }
    }

    /// Returns the name that the upload's parts have in common.
    pub fn parts(&self) -> PartsId {
        let fields: [&[u8]; 3] = [
            self.bucket.as_bytes(),
            self.key.as_bytes(),
            self.id.as_bytes(),
        ];
        PartsId(derived_id("archipel 2026 parts of an upload", &fields))
    }
}

/// The common name of all parts of one upload: a hash of its bucket, its key and its id.
///
/// A client may send any upload id to any bucket and key. A part that a client sent to a wrong
/// bucket or key is in rows of its own, which no other upload reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct PartsId(pub Id);

/// An owner of content: an object or a part. Its row decides whether the content is still needed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Owner {
    /// An object.
    #[serde(rename = "o")]
    Object {
        /// The object's bucket.
        #[serde(rename = "b")]
        bucket: Id,
        /// The object's key.
        #[serde(rename = "k")]
        key: String,
    },
    /// A part of an upload.
    #[serde(rename = "p")]
    Part {
        /// The parts of the upload.
        #[serde(rename = "u")]
        parts: PartsId,
        /// The part's number.
        #[serde(rename = "n")]
        number: u16,
        /// The attempt: a part may be sent several times under one number.
        #[serde(rename = "t")]
        attempt: Id,
    },
}

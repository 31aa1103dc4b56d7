//! The cipher of content at rest, and keys wrapped by other keys. Knows no rows.
//!
//! | module | what it holds |
//! |---|---|
//! | `sealed` | secrets in rows |
//! | `segments` | the cipher of content |
//! | `wrap` | keys, wrapped by other keys |

pub(crate) mod sealed;
pub(crate) mod segments;
#[cfg(test)]
mod tests;
pub(crate) mod wrap;

use archipel_base::Id;
use bytes::Bytes;
use ring::hmac;
use serde::{Deserialize, Serialize};

use wrap::KEY_BYTES;

pub use wrap::DataKey;

/// The owner of the key that wraps the key of a content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EncryptionKind {
    /// The cluster's: SSE-S3.
    #[serde(rename = "s")]
    Server,
    /// The customer's: SSE-C.
    #[serde(rename = "c")]
    Customer,
}

/// The encryption that new objects of a bucket may not have, as its row says it. A row with an
/// unknown value cannot be read, because nobody knows what it blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum BlockedEncryption {
    /// None: all of it is allowed.
    #[serde(rename = "n")]
    Nothing,
    /// That by customers' keys: SSE-C.
    #[serde(rename = "c")]
    Customer,
}

/// The encryption of a content, as its row says it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Encryption {
    /// The owner of the key that wraps the content's.
    #[serde(rename = "m")]
    pub kind: EncryptionKind,
    /// The key of the keyring, if it is the cluster's.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<Id>,
    /// The content's key, wrapped.
    #[serde(rename = "w")]
    pub(crate) wrapped: Bytes,
}

/// A key that a customer gave. Debug output does not exist.
#[derive(Clone)]
pub struct CustomerKey(pub(crate) DataKey);

impl CustomerKey {
    /// Takes a key of 256 bits.
    pub fn new(key: [u8; KEY_BYTES]) -> CustomerKey {
        CustomerKey(DataKey::new(key))
    }
}

/// Returns the entity tag of content that a customer's key encrypts. The MD5 of the content would
/// tell everybody who may list the bucket what the content is.
pub(crate) fn masked_etag(key: &DataKey, etag: &str) -> String {
    let mask = key.derive(b"etag", &[]);
    let mask = hmac::Key::new(hmac::HMAC_SHA256, mask.bytes());
    let tag = hmac::sign(&mask, etag.as_bytes());
    hex::encode(tag.as_ref().get(..16).unwrap_or_default())
}

/// Returns the key of a part of an upload.
pub(crate) fn part_key(upload: &DataKey, attempt: &Id) -> DataKey {
    upload.derive(b"part", attempt.as_bytes())
}

impl Encryption {
    /// Returns the content's key, if the outer key and the context are right.
    pub(crate) fn open(&self, outer: &DataKey, context: &[u8]) -> Option<DataKey> {
        wrap::unwrap(outer.bytes(), context, &self.wrapped)
    }
}

/// The key of an open object, as far as it is known.
pub(crate) enum ContentKey {
    /// The content is not encrypted.
    Plain,
    /// The customer's key is needed.
    Closed { context: Vec<u8> },
    /// The key is known.
    Open(DataKey),
}

/// The customer's key is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Locked;

impl ContentKey {
    /// Finds the key by the customer's key, where one is needed. Returns false if it is a wrong
    /// one.
    pub(crate) fn open(&mut self, encryption: Option<&Encryption>, customer: &CustomerKey) -> bool {
        let (ContentKey::Closed { context }, Some(encryption)) = (&self, encryption) else {
            return true;
        };
        let Some(opened) = encryption.open(&customer.0, context) else {
            return false;
        };
        *self = ContentKey::Open(opened);
        true
    }

    /// Returns the key, if the content is encrypted.
    pub(crate) fn key(&self) -> Result<Option<&DataKey>, Locked> {
        match self {
            ContentKey::Plain => Ok(None),
            ContentKey::Closed { .. } => Err(Locked),
            ContentKey::Open(key) => Ok(Some(key)),
        }
    }
}

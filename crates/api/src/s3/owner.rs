//! Owners and initiators, as documents name them.
//!
//! S3 names an account by its canonical user id. Archipel derives such an id from an access key.
//! The id of the key itself is half of a credential, and readers of a bucket must not learn it.

use archipel_access::ACCOUNT;
use archipel_model::{Bucket, Model};
use ring::digest;

use super::error::S3Result;
use super::xml::Writer;

/// Keeps these ids apart from every other hash of an access key's id.
const DOMAIN: &[u8] = b"archipel canonical user id\0";

/// A canonical user id: 64 hexadecimal digits, the same on every node and after every restart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner(String);

impl Owner {
    /// Derives the canonical id of an access key, a user or a role, by unique id.
    pub fn of_key(id: &str) -> Owner {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(DOMAIN);
        hash.update(id.as_bytes());
        Owner(hex::encode(hash.finish()))
    }

    /// Returns the owner of a bucket: the first access key, user or role with that right. A bucket
    /// that nobody owns stands for itself.
    ///
    /// # Errors
    /// As [`Model::owners_of`].
    pub fn of_bucket(model: &Model, bucket: &Bucket) -> S3Result<Owner> {
        Ok(match model.owners_of(bucket)?.first() {
            Some(id) => Owner::of_key(id),
            None => Owner::of_key(&bucket.id.to_string()),
        })
    }

    /// Returns true if `expected` names an owner of the bucket: the account, or an owner's
    /// canonical id or access key id.
    ///
    /// # Errors
    /// As [`Model::owners_of`].
    pub fn matches(model: &Model, expected: &str, bucket: &Bucket) -> S3Result<bool> {
        if expected == ACCOUNT {
            return Ok(true);
        }
        let owners = model.owners_of(bucket)?;
        let is_named = |id: &String| id == expected || Owner::of_key(id).0 == expected;
        Ok(owners.iter().any(is_named) || Owner::of_bucket(model, bucket)?.0 == expected)
    }

    /// Returns true if a text has the form of a canonical user id.
    pub fn is_id(text: &str) -> bool {
        text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    /// Returns true for text that can name an owner: an account, a canonical user id, the id of an
    /// access key.
    pub fn may_be(text: &str) -> bool {
        let account = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
        let key = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        account || key
    }

    /// Returns the canonical user id.
    pub fn id(&self) -> &str {
        &self.0
    }

    /// Writes the element that describes an owner or initiator. The display name is the id, since
    /// S3 no longer gives one and some clients insist on it.
    pub fn write(&self, xml: &mut Writer, element: &'static str) {
        xml.open(element);
        xml.text("ID", &self.0);
        xml.text("DisplayName", &self.0);
        xml.close();
    }
}

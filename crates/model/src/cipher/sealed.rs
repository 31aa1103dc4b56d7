//! Secrets in rows, sealed by a key of the keyring.

use archipel_base::Id;
use bytes::Bytes;
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::wrap::{self, DataKey};

/// A secret that the keyring seals. Debug output does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    /// The key of the ring.
    #[serde(rename = "i")]
    pub by: Id,
    #[serde(rename = "s")]
    pub bytes: Bytes,
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sealed by {}", self.by)
    }
}

/// The purpose of a sealed secret. Sealed for one purpose it opens for no other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// The key of a certificate, or the credentials at an authority.
    Certificate,
    /// The secret of an access key.
    AccessKey,
    /// A key that seals the tokens of sessions.
    TokenKey,
}

impl Purpose {
    /// Returns the context of a sealed secret: moved to another row it opens nothing.
    fn context(self, name: &str) -> Vec<u8> {
        let label: &[u8] = match self {
            Purpose::Certificate => b"archipel certificate 1\0",
            Purpose::AccessKey => b"archipel access key 1\0",
            Purpose::TokenKey => b"archipel token key 1\0",
        };
        [label, name.as_bytes()].concat()
    }
}

/// Opens secrets: a keyring.
pub(crate) trait OpenSecrets: Send + Sync {
    /// Opens a secret of the row that `name` names, if the key of the ring is known.
    fn open(&self, purpose: Purpose, name: &str, sealed: &Sealed) -> Option<Vec<u8>>;
}

/// A node without a keyring.
#[cfg(test)]
impl OpenSecrets for () {
    fn open(&self, _: Purpose, _: &str, _: &Sealed) -> Option<Vec<u8>> {
        None
    }
}

/// Opens a secret by the key of the ring that seals it.
pub(crate) fn open(
    outer: &DataKey,
    purpose: Purpose,
    name: &str,
    sealed: &Sealed,
) -> Option<Vec<u8>> {
    wrap::open(outer.bytes(), &purpose.context(name), &sealed.bytes)
}

/// Seals secrets by one key of the ring. Does not wait, so that decisions about rows can use it.
pub(crate) struct Sealer {
    by: Id,
    outer: DataKey,
    salt: [u8; 32],
}

impl Sealer {
    /// Returns one for this key of the ring. `salt` must be random.
    pub fn new(by: Id, outer: DataKey, salt: [u8; 32]) -> Sealer {
        Sealer { by, outer, salt }
    }

    /// Returns the key of the ring.
    pub fn by(&self) -> Id {
        self.by
    }

    /// Seals a secret of the row that `name` names. A decision that is retried may seal another
    /// secret for the same row, so the salt of each comes from all of it.
    pub fn seal(&self, purpose: Purpose, name: &str, secret: &[u8]) -> Option<Sealed> {
        let context = purpose.context(name);
        let mut salted = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.salt));
        salted.update(&(context.len() as u64).to_be_bytes());
        salted.update(&context);
        salted.update(secret);
        let salt = salted.sign().as_ref().try_into().ok()?;
        let bytes = wrap::seal(self.outer.bytes(), &context, salt, secret)?;
        Some(Sealed { by: self.by, bytes })
    }
}

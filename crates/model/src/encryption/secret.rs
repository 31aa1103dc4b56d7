//! Secrets in rows of the control data, sealed by the keyring.

use archipel_base::Id;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::Model;
use crate::cipher::wrap;
use crate::error::Error;

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

impl Model {
    /// Seals a secret of the row that `name` names.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`]; errors of reading the keyring.
    pub(crate) async fn seal_secret(&self, name: &str, secret: &str) -> Result<Sealed, Error> {
        let (by, outer) = self.newest_master_key().await?;
        let mut salt = [0; 32];
        self.fill_random(&mut salt);
        let sealed = wrap::seal(outer.bytes(), &context(name), salt, secret.as_bytes());
        let bytes = sealed.ok_or_else(|| Error::Internal("a secret cannot be sealed".into()))?;
        Ok(Sealed { by, bytes })
    }

    /// Opens a secret of the row that `name` names.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`] if no secret of this node opens the keyring; [`Error::Damaged`].
    pub(crate) async fn open_secret(&self, name: &str, sealed: &Sealed) -> Result<String, Error> {
        let outer = self.master_key(sealed.by).await?;
        let opened = wrap::open(outer.bytes(), &context(name), &sealed.bytes);
        let opened = opened.and_then(|secret| String::from_utf8(secret).ok());
        opened.ok_or_else(|| Error::Damaged(format!("the secret of {name} does not open")))
    }
}

/// Returns the context of a sealed secret: moved to another row it opens nothing.
fn context(name: &str) -> Vec<u8> {
    [b"archipel certificate 1\0", name.as_bytes()].concat()
}

//! Secrets in rows of the control data, sealed by the keyring.

use super::keyring::Keyring;
use crate::Model;
use crate::cipher::sealed::{self, OpenSecrets, Purpose, Sealed, Sealer};
use crate::error::Error;

impl OpenSecrets for Keyring {
    fn open(&self, purpose: Purpose, name: &str, sealed: &Sealed) -> Option<Vec<u8>> {
        sealed::open(&self.key(&sealed.by)?, purpose, name, sealed)
    }
}

impl Model {
    /// Returns what seals one secret by the newest key of the ring; `None` if this node has no
    /// secret for a keyring at all.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`]; errors of reading the keyring.
    pub(crate) async fn sealer(&self) -> Result<Option<Sealer>, Error> {
        if !self.keyring().has_secrets() {
            return Ok(None);
        }
        let (by, outer) = self.newest_master_key().await?;
        let mut salt = [0; 32];
        self.fill_random(&mut salt);
        Ok(Some(Sealer::new(by, outer, salt)))
    }

    /// Seals a secret of the row that `name` names.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`]; errors of reading the keyring.
    pub(crate) async fn seal_secret(
        &self,
        purpose: Purpose,
        name: &str,
        secret: &str,
    ) -> Result<Sealed, Error> {
        let none = || Error::NoMasterKey("this node has no secret for the keyring".into());
        let sealer = self.sealer().await?.ok_or_else(none)?;
        let sealed = sealer.seal(purpose, name, secret.as_bytes());
        sealed.ok_or_else(Error::not_sealed)
    }

    /// Opens a secret of the row that `name` names.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`] if no secret of this node opens the keyring; [`Error::Damaged`].
    pub(crate) async fn open_secret(
        &self,
        purpose: Purpose,
        name: &str,
        sealed: &Sealed,
    ) -> Result<String, Error> {
        // Reads the ring if this key of it is not known yet.
        self.master_key(sealed.by).await?;
        let opened = self.keyring().open(purpose, name, sealed);
        let opened = opened.and_then(|secret| String::from_utf8(secret).ok());
        opened.ok_or_else(|| Error::Damaged(format!("the secret of {name} does not open")))
    }
}

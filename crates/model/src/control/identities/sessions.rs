//! Beginning sessions, reading their tokens, and the keys that seal them.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::boxed;
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::engine::Durability;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::NONCE_LEN;

use crate::Model;
use crate::bucket::{AccessKey, Secret};
use crate::control::{random_text, row};
use crate::error::{Error, damaged_row};
use crate::identity::session::{self, MAX_SESSION_S};
use crate::identity::token_keys::TokenKey;
use crate::identity::{MAX_TOKEN_CHARS, NewSession, Session, TokenKeys};
use crate::rowkeys;

impl Model {
    /// Begins a session. Returns its credentials: the access key and the token.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if its policies and tags make a token that is too long.
    #[boxed]
    pub async fn begin_session(&self, new: NewSession) -> Result<(Arc<AccessKey>, String), Error> {
        let seconds = new.seconds.min(MAX_SESSION_S);
        let now_ms = self.now_ms();
        let session = Session {
            id: format!("ASIA{}", random_text(self, 16)),
            secret: Secret::new(random_text(self, 40)),
            issued_ms: now_ms,
            expires_ms: now_ms + seconds * 1000,
            parent: new.parent,
            role: new.role,
            provider: new.provider,
            policy: new.policy,
            policies: new.policies,
            tags: new.tags,
        };
        let key = self.sealing_key().await?;
        let mut nonce = [0; NONCE_LEN];
        self.fill_random(&mut nonce);
        let token = session::seal(&key, nonce, &session)?;
        match token.len() > MAX_TOKEN_CHARS {
            true => Err(Error::TooLarge),
            false => Ok((Arc::new(session.key(BTreeMap::new())), token)),
        }
    }

    /// Returns true if [`Model::key_of_token`] reads no row for this token.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn knows_key_of_token(&self, token: &str) -> Result<bool, Error> {
        match number(token) {
            Some(number) => Ok(self.known_token_key(number)?.is_some()),
            None => Ok(true),
        }
    }

    /// Returns the access key of the session of a token. [`Model::subject`] says whether the
    /// session counts.
    ///
    /// # Errors
    /// [`Error::InvalidSession`] for a text that is no token of this cluster.
    #[boxed]
    pub async fn key_of_token(&self, token: &str) -> Result<Arc<AccessKey>, Error> {
        if token.len() > MAX_TOKEN_CHARS {
            return Err(Error::InvalidSession);
        }
        let bytes = URL_SAFE_NO_PAD.decode(token);
        let bytes = bytes.map_err(|_| Error::InvalidSession)?;
        let number = number(token).ok_or(Error::InvalidSession)?;
        let key = self.token_key(number).await?;
        let session = key.and_then(|key| session::open(&key, bytes));
        let session = session.ok_or(Error::InvalidSession)?;
        // A session for a key keeps the key's own names of buckets.
        let names = match (&session.role, &session.parent) {
            (None, Some(parent)) => self.known_access_key(&parent.key.name)?,
            _ => None,
        };
        let names = names.map(|key| key.names.clone()).unwrap_or_default();
        Ok(Arc::new(session.key(names)))
    }
}

/// Returns the number of the key that sealed a token.
fn number(token: &str) -> Option<u32> {
    let head = URL_SAFE_NO_PAD.decode(token.get(..8)?).ok()?;
    match *head.as_slice() {
        [session::VERSION, a, b, c, d, _] => Some(u32::from_be_bytes([a, b, c, d])),
        _ => None,
    }
}

impl Model {
    /// Returns the key that seals tokens now. Makes one if there is none.
    async fn sealing_key(&self) -> Result<TokenKey, Error> {
        let cached = || {
            let now_ms = self.now_ms();
            self.look(|cached| {
                let keys = cached.identities.token_keys.as_ref()?;
                keys.sealing(now_ms).cloned()
            })
        };
        if let Some(key) = cached()? {
            return key.checked();
        }
        let mut secret = [0; 32];
        self.fill_random(&mut secret);
        let sealer = self.sealer().await?;
        let ring = self.keyring();
        let (row_key, now_ms) = (rowkeys::token_keys(), self.now_ms());
        let how = WriteOptions::durable(Durability::Fsync);
        let rotated = self.cluster().update(&row_key, how, move |current| {
            let keys = match current.map(|value| TokenKeys::of_row(&value.metadata, ring)) {
                None => TokenKeys::default(),
                Some(Ok(keys)) => keys,
                Some(Err(error)) => return Decision::Abort(damaged_row(error)),
            };
            match keys.rotated(secret, now_ms) {
                Some(mut keys) => {
                    // Earlier ones are sealed already, or else the background seals them.
                    match sealer.as_ref().map(|sealer| keys.seal_newest(sealer)) {
                        Some(Err(error)) => Decision::Abort(error),
                        _ => Decision::Write(Some(row(keys.row()))),
                    }
                }
                // Another node was faster.
                None => Decision::Abort(Error::Conflict),
            }
        });
        match rotated.await? {
            Ok(()) | Err(Error::Conflict) => {}
            Err(error) => return Err(error),
        }
        self.announce(&row_key).await.0?;
        cached()?.ok_or(Error::Conflict)?.checked()
    }

    /// Returns the key of that number. Reads the row if the cache lacks it.
    async fn token_key(&self, number: u32) -> Result<Option<TokenKey>, Error> {
        if let Some(key) = self.known_token_key(number)? {
            return key.checked().map(Some);
        }
        // The token may be invented.
        self.look_up_for_stranger(rowkeys::token_keys()).await?;
        let key = self.known_token_key(number)?;
        key.map(TokenKey::checked).transpose()
    }

    /// Returns the cached key of that number.
    fn known_token_key(&self, number: u32) -> Result<Option<TokenKey>, Error> {
        self.look(|cached| {
            let keys = cached.identities.token_keys.as_ref()?;
            keys.of_number(number).cloned()
        })
    }
}

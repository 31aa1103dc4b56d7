//! Operations on tokens of the admin API.

use std::sync::Arc;

use archipel_base::{boxed, codec};
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::Value;
use archipel_storage::engine::Durability;

use super::keys::random_text;
use super::row;
use crate::bucket::Secret;
use crate::error::{Error, damaged_row};
use crate::rowkeys;
use crate::token::{self, AdminToken, NewToken, TokenChange};
use crate::{Model, detached};

impl Model {
    /// Returns all tokens of the admin API, sorted by id.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn admin_tokens(&self) -> Result<Vec<Arc<AdminToken>>, Error> {
        self.look(|cached| cached.tokens.values().cloned().collect())
    }

    /// Returns the token of that id. Reads its row if the cache lacks it.
    ///
    /// # Errors
    /// As [`Model::find_bucket`].
    #[boxed]
    pub async fn find_admin_token(&self, id: &str) -> Result<Option<Arc<AdminToken>>, Error> {
        if let Some(token) = self.known_admin_token(id)? {
            return Ok(Some(token));
        }
        self.look_up(rowkeys::admin_token(id)).await?;
        self.known_admin_token(id)
    }

    /// Returns true if [`Model::admit_admin_token`] reads no row for this text.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn knows_admin_token(&self, text: &str) -> Result<bool, Error> {
        match token::parse(text) {
            Some((id, _)) => Ok(self.known_admin_token(id)?.is_some()),
            None => Ok(true),
        }
    }

    fn known_admin_token(&self, id: &str) -> Result<Option<Arc<AdminToken>>, Error> {
        self.look(|cached| cached.tokens.get(id).cloned())
    }

    /// Returns the token with this text if it opens something now.
    ///
    /// # Errors
    /// As [`Model::find_bucket`].
    #[boxed]
    pub async fn admit_admin_token(&self, text: &str) -> Result<Option<Arc<AdminToken>>, Error> {
        let Some((id, secret)) = token::parse(text) else {
            return Ok(None);
        };
        let mut token = self.known_admin_token(id)?;
        if token.is_none() {
            // Anybody can send an id.
            self.look_up_for_stranger(rowkeys::admin_token(id)).await?;
            token = self.known_admin_token(id)?;
        }
        let now_ms = self.now_ms();
        Ok(token.filter(|token| token.matches(secret) && token.is_live(now_ms)))
    }

    /// Creates a token. The returned secret is the whole text that a client sends; it cannot be
    /// shown again.
    ///
    /// # Errors
    /// [`Error::InvalidName`] for a name that is not allowed, and [`Error::InvalidValue`] for such
    /// an expiry or scopes.
    #[boxed]
    pub async fn create_admin_token(
        &self,
        new: NewToken,
    ) -> Result<(Arc<AdminToken>, Secret), Error> {
        new.check(self.now_ms())?;
        let secret = random_text(self, 40);
        let token = AdminToken {
            id: random_text(self, 12),
            name: new.name,
            created_ms: self.now_ms(),
            expires_ms: new.expires_ms,
            scopes: new.scopes,
            digest: token::digest(&secret),
        };
        let key = rowkeys::admin_token(&token.id);
        let exists = Error::Internal("a random id is taken".into());
        self.put_if_absent(key.clone(), row(codec::encode(&token)), exists)
            .await?;
        self.tell_changed(&key).await;
        let text = token.text(&secret);
        Ok((Arc::new(token), text))
    }

    /// Changes a token's name, scopes or expiry, and returns it.
    ///
    /// # Errors
    /// [`Error::NoSuchToken`]; [`Error::InvalidName`] and [`Error::InvalidValue`] as for a new
    /// token.
    #[boxed]
    pub async fn change_admin_token(
        &self,
        id: &str,
        change: TokenChange,
    ) -> Result<Arc<AdminToken>, Error> {
        let key = rowkeys::admin_token(id);
        let now_ms = self.now_ms();
        let read = |current: Option<&Value>| match current {
            Some(value) => token::decode(&value.metadata).map_err(damaged_row),
            None => Err(Error::NoSuchToken),
        };
        let change = |token: &mut AdminToken| change.apply(token, now_ms);
        self.rewrite(&key, read, change).await?;
        let metadata = self.changed(&key).await?.ok_or(Error::NoSuchToken)?;
        token::decode(&metadata).map(Arc::new).map_err(damaged_row)
    }

    /// Revokes a token. When this returns, this node and all other nodes that answer refuse it. A
    /// node that is cut off refuses it at the end of its lease. A caller that goes away does not
    /// stop it.
    ///
    /// # Errors
    /// [`Error::NoSuchToken`].
    #[boxed]
    pub async fn revoke_admin_token(&self, id: &str) -> Result<(), Error> {
        let (model, id) = (self.clone(), id.to_owned());
        let revoked = async move { model.delete_token_row(&id).await };
        detached("revokes an admin token", revoked).await
    }

    async fn delete_token_row(&self, id: &str) -> Result<(), Error> {
        let key = rowkeys::admin_token(id);
        let how = WriteOptions::durable(Durability::Fsync);
        let deleted = self.cluster().update(&key, how, |current| match current {
            Some(_) => Decision::Write(None),
            None => Decision::Abort(Error::NoSuchToken),
        });
        let deleted = deleted.await;
        if deleted.is_ok() {
            // The cache drops the token at once, even if the row cannot be read again.
            self.control().remove(&key.key)?;
        }
        self.tell_changed(&key).await;
        deleted?
    }
}

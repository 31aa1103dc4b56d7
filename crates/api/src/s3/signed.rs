//! The signature of a request, checked with the access keys that this node knows, and with those of
//! sessions, which their tokens carry.

use std::net::IpAddr;
use std::sync::Arc;

use archipel_model::{AccessKey, Model};
use http::HeaderMap;
use http::request::Parts;
use parking_lot::Mutex;

use super::call::single_header;
use super::error::{Code, S3Error, S3Result};
use super::sigv4::{Lookup, SignedParts};
use super::target::Target;
use super::uri::Query;
use crate::serve::{Peer, Rates};

/// The header and the parameter with the token of a session.
pub const TOKEN: &str = "x-amz-security-token";

/// Verifies the signature of a request with the key of its token, if it has one, else as
/// [`signed_by`] does.
///
/// # Errors
/// Those of `verify`; [`Code::InvalidToken`]; [`Code::InvalidArgument`] if a token is repeated;
/// [`Code::InvalidRequest`] if those of header and query differ; those of reading the key.
pub async fn verify<T>(
    model: &Model,
    rates: &Rates,
    parts: &Parts,
    target: &Target,
    verify: impl Fn(&SignedParts<'_>, Lookup<'_>) -> S3Result<Option<T>>,
) -> S3Result<Option<T>> {
    let signed = SignedParts {
        method: &parts.method,
        path: &target.path,
        query: &target.query,
        headers: &parts.headers,
        host: &target.host,
    };
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
    let stranger = Stranger { model, rates, peer };
    match token(&parts.headers, &target.query)? {
        None => signed_by(&stranger, |lookup| verify(&signed, lookup)).await,
        Some(token) => {
            let key = stranger.key_of_token(token).await?;
            verify(&signed, &of_session(&key))
        }
    }
}

/// A client whose signature is not checked yet. It may name any key, so that its look-ups of those
/// that this node does not know are limited by its address.
pub struct Stranger<'a> {
    pub model: &'a Model,
    pub rates: &'a Rates,
    pub peer: Option<IpAddr>,
}

impl Stranger<'_> {
    /// Reads the row of an access key that this node does not know: another node may have made it a
    /// moment ago.
    ///
    /// # Errors
    /// [`Code::SlowDown`]; those of reading the row.
    pub async fn learn_key(&self, id: &str) -> S3Result<()> {
        self.may_look_up().await?;
        Ok(self.model.learn_access_key(id).await?)
    }

    /// Returns the access key of the session of a token.
    ///
    /// # Errors
    /// [`Code::SlowDown`]; [`Code::InvalidToken`]; those of reading the row of the keys that seal
    /// tokens.
    pub async fn key_of_token(&self, token: &str) -> S3Result<Arc<AccessKey>> {
        if !self.model.knows_key_of_token(token)? {
            self.may_look_up().await?;
        }
        Ok(self.model.key_of_token(token).await?)
    }

    async fn may_look_up(&self) -> S3Result<()> {
        // A node that is alone asks nobody.
        let Some(peer) = self.peer.filter(|_| !self.model.cluster().is_alone()) else {
            return Ok(());
        };
        match self.rates.admits_look_up(peer).await {
            true => Ok(()),
            false => Err(Code::SlowDown.into()),
        }
    }
}

/// Returns the token of a request.
fn token<'r>(headers: &'r HeaderMap, query: &'r Query) -> S3Result<Option<&'r str>> {
    let header = single_header(headers, TOKEN)?;
    match (header, query.single_in_any_case(TOKEN)?) {
        (Some(one), Some(other)) if one != other => Err(S3Error::conflict(TOKEN)),
        (one, other) => Ok(one.or(other)),
    }
}

/// Finds the key of a session, and no other.
pub fn of_session(
    key: &Arc<AccessKey>,
) -> impl Fn(&str) -> S3Result<Option<Arc<AccessKey>>> + Sync {
    |id| match id == key.id {
        true => Ok(Some(key.clone())),
        false => Err(Code::InvalidToken.into()),
    }
}

/// Verifies the signature of a request; `None` if it has none. `verify` may run twice: the second
/// time after the rows of an unknown key were read.
async fn signed_by<T>(
    stranger: &Stranger<'_>,
    verify: impl Fn(Lookup<'_>) -> S3Result<Option<T>>,
) -> S3Result<Option<T>> {
    let lookup = |id: &str| Ok(stranger.model.access_key(id)?);
    let unknown = Mutex::new(None);
    let noting = |id: &str| {
        let key = lookup(id)?;
        if key.is_none() {
            *unknown.lock() = Some(id.to_owned());
        }
        Ok(key)
    };
    let verified = verify(&noting);
    match unknown.into_inner() {
        Some(id) => {
            stranger.learn_key(&id).await?;
            verify(&lookup)
        }
        None => verified,
    }
}

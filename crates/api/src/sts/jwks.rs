//! The keys of identity providers: found by discovery, kept for a while.
//!
//! Only registered providers are asked. One fetch at a time runs for each; a token with an unknown
//! key makes the keys be fetched again, but not more often than every [`RETRY`]. Tokens of known
//! keys do not wait for it, and it goes on without the client that caused it. So a client that
//! sends invented tokens causes next to nothing.
//!
//! Source: OpenID Connect Discovery 1.0; RFC 7517.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_model::identity::{Provider, provider_of_url};
use http::StatusCode;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use super::jwt::{Claims, Jwk, Token, invalid};
use crate::fetch::{Ask, fetch};
use crate::iam::{IamError, IamResult};

/// The time for which keys are used without asking again.
const KEPT: Duration = Duration::from_secs(3600);

/// The time after which a provider may be asked again.
pub(super) const RETRY: Duration = Duration::from_secs(10);

/// The largest document, and the most keys.
const MAX_DOCUMENT_BYTES: usize = 256 << 10;
const MAX_KEYS: usize = 100;

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<serde_json::Value>,
}

/// A provider and its keys.
#[derive(Default)]
struct Issuer {
    known: Mutex<Known>,
    /// Held during a fetch.
    fetching: Arc<tokio::sync::Mutex<()>>,
}

/// The known keys of a provider.
#[derive(Clone, Default)]
struct Known {
    keys: Arc<[Jwk]>,
    fetched: Option<Instant>,
    tried: Option<Instant>,
}

impl Known {
    fn signed(&self, token: &Token<'_>) -> bool {
        self.keys.iter().any(|key| token.is_signed_by(key))
    }

    fn is_fresh(&self) -> bool {
        self.fetched.is_some_and(|time| time.elapsed() < KEPT)
    }

    /// Returns the verdict of the known keys on a token, or `None` if it may be signed with
    /// another.
    fn verdict(&self, token: &Token<'_>) -> Option<IamResult<()>> {
        if !self.is_fresh() {
            return None;
        }
        if self.signed(token) {
            return Some(Ok(()));
        }
        let knows = |key: &Jwk| key.id.as_deref() == token.key();
        let is_known = token.key().is_some() && self.keys.iter().any(knows);
        is_known.then(|| Err(forged()))
    }

    /// Returns an error if the provider was asked a moment ago.
    fn may_ask(&self) -> IamResult<()> {
        if self.tried.is_none_or(|time| time.elapsed() >= RETRY) {
            return Ok(());
        }
        match self.is_fresh() {
            true => Err(forged()),
            // The log has told why.
            false => Err(unreachable(None)),
        }
    }
}

impl Issuer {
    fn known(&self) -> Known {
        self.known.lock().clone()
    }

    /// Checks the signature of a token.
    async fn check(self: Arc<Issuer>, token: &Token<'_>, url: &str) -> IamResult<()> {
        if let Some(verdict) = self.known().verdict(token) {
            return verdict;
        }
        let fetching = self.fetching.clone().lock_owned().await;
        // Another fetch may have ended in the meantime.
        let known = self.known();
        if let Some(verdict) = known.verdict(token) {
            return verdict;
        }
        known.may_ask()?;
        self.known.lock().tried = Some(Instant::now());
        let (issuer, url) = (self.clone(), url.to_owned());
        // A client that goes away must not leave behind a fetch that was tried and never ended.
        let fetched = tokio::spawn(async move {
            let keys = keys_of(&url).await;
            let keys = keys.map_err(|why| unreachable(Some(format!("{url}: {why}"))))?;
            let mut known = issuer.known.lock();
            known.keys = keys.into();
            known.fetched = Some(Instant::now());
            drop((known, fetching));
            IamResult::Ok(())
        });
        let given_up = || Err(unreachable(Some("the request was given up".into())));
        fetched.await.unwrap_or_else(|_| given_up())?;
        match self.known().signed(token) {
            true => Ok(()),
            false => Err(forged()),
        }
    }
}

/// The keys of identity providers.
#[derive(Default)]
pub struct Providers(Mutex<HashMap<String, Arc<Issuer>>>);

impl Providers {
    /// Checks a token of a provider.
    ///
    /// # Errors
    /// `InvalidIdentityToken`, `ExpiredTokenException`; `IDPCommunicationError` if the provider's
    /// keys cannot be fetched.
    pub async fn verify(
        &self,
        token: &Token<'_>,
        provider: &Provider,
        now_ms: u64,
    ) -> IamResult<Claims> {
        let same = |url: &str| url.trim_end_matches('/') == provider.url.trim_end_matches('/');
        if !same(token.issuer()) {
            return Err(invalid("The issuer of the token is not the provider"));
        }
        let clients: Vec<&str> = provider.clients.iter().map(String::as_str).collect();
        // A token that would be refused in any case makes nobody fetch keys.
        let claims = token.claims(&clients, now_ms)?;
        let issuer = self
            .0
            .lock()
            .entry(provider.url.clone())
            .or_default()
            .clone();
        issuer.check(token, &provider.url).await?;
        Ok(claims)
    }
}

fn forged() -> IamError {
    invalid("Couldn't verify the signature of the token")
}

/// Returns the error of a provider that gives no keys. Clients get one text, and only the log tells
/// the cause: anybody can ask, and a provider could send this node to other addresses and learn
/// what is there.
fn unreachable(cause: Option<String>) -> IamError {
    let message = "The identity provider cannot be asked for its keys";
    IamError {
        cause,
        ..IamError::new("IDPCommunicationError", StatusCode::BAD_REQUEST, message)
    }
}

/// Fetches the keys of a provider, or returns a text for the operator.
async fn keys_of(issuer: &str) -> Result<Vec<Jwk>, String> {
    let base = issuer.trim_end_matches('/');
    let document = get(&format!("{base}/.well-known/openid-configuration")).await?;
    let discovery: Discovery =
        serde_json::from_slice(&document).map_err(|_| "its configuration cannot be read")?;
    if discovery.issuer.trim_end_matches('/') != base {
        return Err("its configuration is that of another issuer".into());
    }
    if !may_hold_keys(issuer, &discovery.jwks_uri) {
        return Err("the address of its keys is not allowed".into());
    }
    let document = get(&discovery.jwks_uri).await?;
    let set: KeySet = serde_json::from_slice(&document).map_err(|_| "its keys cannot be read")?;
    let keys = set.keys.into_iter().take(MAX_KEYS);
    Ok(keys.filter_map(Jwk::of).collect())
}

/// Returns true if a provider may name this address for its keys. The rules for addresses of
/// issuers hold for it. Only a provider on this machine, whose own address has no TLS, may name
/// another one without TLS.
pub(super) fn may_hold_keys(issuer: &str, url: &str) -> bool {
    let path = url.split('?').next().unwrap_or_default();
    let is_https = |url: &str| url.starts_with("https://");
    provider_of_url(path).is_ok() && (is_https(url) || !is_https(issuer))
}

async fn get(url: &str) -> Result<Vec<u8>, String> {
    let ask = Ask {
        url,
        limit: MAX_DOCUMENT_BYTES,
        ..Ask::default()
    };
    fetch(ask).await
}

//! The keys of identity providers: found by discovery, kept for a while.
//!
//! Only registered providers are asked. One fetch at a time runs for each; a token with
//! an unknown key makes the keys be fetched again, but not more often than every [`RETRY`]. So a client
//! that sends invented tokens causes next to nothing.
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
const RETRY: Duration = Duration::from_secs(10);

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

/// What is known of one provider.
#[derive(Default)]
struct Known {
    keys: Vec<Jwk>,
    fetched: Option<Instant>,
    tried: Option<Instant>,
}

/// What is known of each provider, behind a lock that is held during a fetch.
type Cache = HashMap<String, Arc<tokio::sync::Mutex<Known>>>;

/// The keys of identity providers.
#[derive(Default)]
pub struct Providers(Mutex<Cache>);

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
        let known = self
            .0
            .lock()
            .entry(provider.url.clone())
            .or_default()
            .clone();
        let mut known = known.lock().await;
        let is_signed = |known: &Known| known.keys.iter().any(|key| token.is_signed_by(key));
        let is_fresh = known.fetched.is_some_and(|time| time.elapsed() < KEPT);
        if is_fresh && is_signed(&known) {
            return Ok(claims);
        }
        let knows = |key: &Jwk| key.id.as_deref() == token.key();
        if is_fresh && token.key().is_some() && known.keys.iter().any(knows) {
            return Err(invalid("Couldn't verify the signature of the token"));
        }
        if known.tried.is_some_and(|time| time.elapsed() < RETRY) {
            return match is_fresh {
                true => Err(invalid("Couldn't verify the signature of the token")),
                false => Err(unreachable("it was asked a moment ago")),
            };
        }
        known.tried = Some(Instant::now());
        known.keys = keys_of(&provider.url).await?;
        known.fetched = Some(Instant::now());
        match is_signed(&known) {
            true => Ok(claims),
            false => Err(invalid("Couldn't verify the signature of the token")),
        }
    }
}

fn unreachable(why: &str) -> IamError {
    let message = format!("The identity provider cannot be asked for its keys: {why}");
    IamError::new("IDPCommunicationError", StatusCode::BAD_REQUEST, message)
}

/// Fetches the keys of a provider.
async fn keys_of(issuer: &str) -> IamResult<Vec<Jwk>> {
    let base = issuer.trim_end_matches('/');
    let document = get(&format!("{base}/.well-known/openid-configuration")).await?;
    let discovery: Discovery = serde_json::from_slice(&document)
        .map_err(|_| unreachable("its configuration cannot be read"))?;
    if discovery.issuer.trim_end_matches('/') != base {
        return Err(unreachable("its configuration is that of another issuer"));
    }
    // The rules for addresses of issuers hold for those of their keys.
    let path = discovery.jwks_uri.split('?').next().unwrap_or_default();
    provider_of_url(path).map_err(|_| unreachable("the address of its keys is not allowed"))?;
    let document = get(&discovery.jwks_uri).await?;
    let set: KeySet =
        serde_json::from_slice(&document).map_err(|_| unreachable("its keys cannot be read"))?;
    let keys = set.keys.into_iter().take(MAX_KEYS);
    Ok(keys.filter_map(Jwk::of).collect())
}

async fn get(url: &str) -> IamResult<Vec<u8>> {
    let ask = Ask {
        url,
        limit: MAX_DOCUMENT_BYTES,
        ..Ask::default()
    };
    fetch(ask).await.map_err(|why| unreachable(&why))
}

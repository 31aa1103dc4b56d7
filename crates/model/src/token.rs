//! Tokens of the admin API: who may ask it for what, until when.

use std::hint::black_box;

use archipel_base::codec::Versioned;
use archipel_base::hash::derived_id;
use archipel_base::{Id, codec};
use serde::{Deserialize, Serialize};

use crate::bucket::Secret;
use crate::error::Error;

/// The purpose of the digests of tokens, as BLAKE3's context.
const PURPOSE: &str = "archipel 2026 secret of an admin token";

/// The beginning of every token, so that scanners for leaked secrets know them.
const PREFIX: &str = "archipel";

/// The most scopes of a token.
const MAX_SCOPES: usize = 64;

/// A part of the admin API that a token opens.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenScope {
    /// The resource: `buckets`, `keys`, `layout`; `*` for all of them.
    #[serde(rename = "r")]
    pub resource: String,
    /// True to change it; false to see it.
    #[serde(rename = "w", default)]
    pub write: bool,
    /// The name of the only bucket, with the resource `buckets`.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
}

/// A token of the admin API. The secret itself is not kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdminToken {
    /// The id, which is public: the part of the token before the secret.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// The time of creation in milliseconds since 1970.
    pub created_ms: u64,
    /// The time from which it opens nothing any more; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// The parts of the admin API that it opens.
    #[serde(default)]
    pub scopes: Vec<TokenScope>,
    /// The digest of the secret.
    #[serde(rename = "d", default)]
    pub(crate) digest: Id,
}

impl Versioned for AdminToken {
    const VERSION: u8 = 1;
}

/// The scopes of a new token, and its life.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The name for people.
    pub name: String,
    /// The parts of the admin API that it opens.
    pub scopes: Vec<TokenScope>,
    /// The time from which it opens nothing, in milliseconds since 1970; `None` for never.
    pub expires_ms: Option<u64>,
}

/// A change of a token. Fields that are `None` change nothing.
#[derive(Clone, Debug, Default)]
pub struct TokenChange {
    /// The name for people.
    pub name: Option<String>,
    /// The parts of the admin API that it opens.
    pub scopes: Option<Vec<TokenScope>>,
    /// The time from which it opens nothing, in milliseconds since 1970; `Some(None)` for never.
    pub expires_ms: Option<Option<u64>>,
}

impl TokenChange {
    /// Changes a token, unless the result is not allowed.
    pub(crate) fn apply(&self, token: &mut AdminToken, now_ms: u64) -> Result<(), Error> {
        let changed = NewToken {
            name: self.name.clone().unwrap_or_else(|| token.name.clone()),
            scopes: self.scopes.clone().unwrap_or_else(|| token.scopes.clone()),
            // A time that stays may have passed by now.
            expires_ms: self.expires_ms.flatten(),
        };
        changed.check(now_ms)?;
        token.name = changed.name;
        token.scopes = changed.scopes;
        token.expires_ms = self.expires_ms.unwrap_or(token.expires_ms);
        Ok(())
    }
}

impl NewToken {
    /// Checks names, scopes and their number.
    pub(crate) fn check(&self, now_ms: u64) -> Result<(), Error> {
        if self.name.is_empty() || self.name.len() > 256 {
            let why = "token name: 1 to 256 bytes are allowed";
            return Err(Error::InvalidName(why.into()));
        }
        let refuse = |why: String| Err(Error::InvalidValue(why));
        if self.scopes.is_empty() || self.scopes.len() > MAX_SCOPES {
            return refuse(format!("token scopes: 1 to {MAX_SCOPES} are allowed"));
        }
        if self.expires_ms.is_some_and(|expires| expires <= now_ms) {
            return refuse("token expiry: it is in the past".into());
        }
        for scope in &self.scopes {
            let plain = |b: u8| b.is_ascii_lowercase() || b == b'-' || b == b'*';
            let known = (1..=32).contains(&scope.resource.len());
            if !known || !scope.resource.bytes().all(plain) {
                return refuse(format!("token scope: {:?} is no resource", scope.resource));
            }
            if scope.bucket.is_some() && scope.resource != "buckets" {
                return refuse("token scope: only the resource buckets has single buckets".into());
            }
        }
        Ok(())
    }
}

impl AdminToken {
    /// Returns true if `secret` is this token's. Takes the same time wherever they differ.
    pub fn matches(&self, secret: &str) -> bool {
        let given = digest(secret);
        let pairs = given.0.iter().zip(&self.digest.0);
        let difference = pairs.fold(0, |sum, (a, b)| sum | (a ^ b));
        black_box(difference) == 0 && self.digest != Id::default()
    }

    /// Returns true if the token opens something at this time.
    pub fn is_live(&self, now_ms: u64) -> bool {
        self.expires_ms.is_none_or(|expires| now_ms < expires)
    }

    /// Returns the token as text: what a client sends.
    pub(crate) fn text(&self, secret: &str) -> Secret {
        Secret::new(format!("{PREFIX}_{}_{secret}", self.id))
    }
}

/// Returns the digest of a secret. Secrets are random and long, so that nobody can try them all.
pub(crate) fn digest(secret: &str) -> Id {
    derived_id(PURPOSE, &[secret.as_bytes()])
}

/// Returns the id and the secret in a token's text, if it has the form of one.
pub fn parse(text: &str) -> Option<(&str, &str)> {
    let (id, secret) = text
        .strip_prefix(PREFIX)?
        .strip_prefix('_')?
        .split_once('_')?;
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric());
    (plain(id) && plain(secret) && text.len() <= 128).then_some((id, secret))
}

/// Decodes a token's row.
pub(crate) fn decode(metadata: &[u8]) -> Result<AdminToken, codec::DecodeError> {
    codec::decode(metadata)
}

//! Tokens of identity providers: JSON Web Tokens, signed with RS256 or ES256.
//!
//! Source: RFC 7515, RFC 7518, RFC 7519; OpenID Connect Core 1.0, section 2.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

use crate::iam::{IamError, IamResult};

/// The longest token, as in AWS.
const MAX_CHARS: usize = 20_000;

/// The difference of clocks that is allowed for.
const SKEW_S: f64 = 60.0;

/// Returns the error for a token that is not right.
pub fn invalid(why: impl Into<String>) -> IamError {
    IamError::new("InvalidIdentityToken", StatusCode::BAD_REQUEST, why)
}

/// The algorithm of a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    Rs256,
    Es256,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// Extensions that a reader has to understand: there are none that we do.
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

/// One text or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
struct Body {
    iss: String,
    sub: String,
    aud: Texts,
    #[serde(default)]
    azp: Option<String>,
    exp: f64,
    #[serde(default)]
    nbf: Option<f64>,
}

/// A token that was read. Nothing in it counts before its signature was checked.
pub struct Token<'a> {
    algorithm: Algorithm,
    key: Option<String>,
    signed: &'a str,
    signature: Vec<u8>,
    body: Body,
}

/// The claims of a valid token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claims {
    /// The user, as the provider names it.
    pub subject: String,
    /// For whom: one of the provider's audiences.
    pub audience: String,
}

fn decode<T: serde::de::DeserializeOwned>(text: &str) -> IamResult<T> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let value = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    value.ok_or_else(|| invalid("The token is not a JSON Web Token with all claims"))
}

impl<'a> Token<'a> {
    /// Reads a token.
    ///
    /// # Errors
    /// `InvalidIdentityToken`.
    pub fn parse(text: &'a str) -> IamResult<Token<'a>> {
        let bad = || invalid("The token is not a JSON Web Token");
        if text.len() > MAX_CHARS {
            return Err(bad());
        }
        let (signed, signature) = text.rsplit_once('.').ok_or_else(bad)?;
        let (header, body) = signed.split_once('.').ok_or_else(bad)?;
        let header: Header = decode(header)?;
        let algorithm = match header.alg.as_str() {
            "RS256" => Algorithm::Rs256,
            "ES256" => Algorithm::Es256,
            _ => {
                return Err(invalid(
                    "The token is signed neither with RS256 nor with ES256",
                ));
            }
        };
        if header.crit.is_some() {
            return Err(invalid("The token has critical extensions"));
        }
        Ok(Token {
            algorithm,
            key: header.kid,
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).map_err(|_| bad())?,
            body: decode(body)?,
        })
    }

    /// Returns the issuer that the token claims to come from.
    pub fn issuer(&self) -> &str {
        &self.body.iss
    }

    /// Returns the id of the key that the token claims to be signed with.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns true if a key signed the token.
    pub fn is_signed_by(&self, key: &Jwk) -> bool {
        let (message, signature) = (self.signed.as_bytes(), self.signature.as_slice());
        let named = match (&self.key, &key.id) {
            (Some(wanted), Some(id)) => wanted == id,
            _ => true,
        };
        named
            && match (self.algorithm, &key.public) {
                (Algorithm::Rs256, Public::Rsa { n, e }) => RsaPublicKeyComponents { n, e }
                    .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                    .is_ok(),
                (Algorithm::Es256, Public::P256(point)) => {
                    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                        .verify(message, signature)
                        .is_ok()
                }
                _ => false,
            }
    }

    /// Checks the claims of a token whose signature was checked.
    ///
    /// # Errors
    /// `ExpiredTokenException`, `InvalidIdentityToken`.
    pub fn claims(&self, clients: &[&str], now_ms: u64) -> IamResult<Claims> {
        let now = now_ms as f64 / 1000.0;
        let body = &self.body;
        if !body.exp.is_finite() || body.exp + SKEW_S < now {
            let why = "The token has expired";
            return Err(IamError::new(
                "ExpiredTokenException",
                StatusCode::BAD_REQUEST,
                why,
            ));
        }
        if body.nbf.is_some_and(|time| time - SKEW_S > now) {
            return Err(invalid("The token is not valid yet"));
        }
        let audiences = match &body.aud {
            Texts::One(one) => std::slice::from_ref(one),
            Texts::Several(several) => several,
        };
        // The party that the token was issued to, if it is named, is the audience.
        let audience = match &body.azp {
            Some(party) => Some(party).filter(|party| clients.contains(&party.as_str())),
            None => audiences.iter().find(|one| clients.contains(&one.as_str())),
        };
        let audience = audience.ok_or_else(|| invalid("Incorrect token audience"))?;
        if body.sub.is_empty() {
            return Err(invalid("The token names no subject"));
        }
        Ok(Claims {
            subject: body.sub.clone(),
            audience: audience.clone(),
        })
    }
}

/// A public key.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Public {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
}

/// A public key of an identity provider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Jwk {
    pub id: Option<String>,
    public: Public,
}

#[derive(Deserialize)]
struct WrittenJwk {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(rename = "use", default)]
    purpose: Option<String>,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
}

impl Jwk {
    /// Reads a key. `None` for keys that are no use here.
    pub fn of(value: serde_json::Value) -> Option<Jwk> {
        let written: WrittenJwk = serde_json::from_value(value).ok()?;
        if written.purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        let public = match (written.kty.as_str(), written.crv.as_deref()) {
            ("RSA", _) => Public::Rsa {
                n: bytes(&written.n)?,
                e: bytes(&written.e)?,
            },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(&written.x)?, bytes(&written.y)?);
                if x.len() != 32 || y.len() != 32 {
                    return None;
                }
                // An uncompressed point.
                Public::P256([&[4][..], &x, &y].concat())
            }
            _ => return None,
        };
        Some(Jwk {
            id: written.kid,
            public,
        })
    }
}

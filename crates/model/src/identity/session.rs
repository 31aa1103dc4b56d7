//! Temporary credentials: a session is a sealed token that the client carries. No row is written
//! for it, and no other node is asked about it.
//!
//! A token is AES-256-GCM over the session, under a key of the cluster (`token_keys`). Its holder
//! learns nothing from it and cannot change it. A session counts while what it was made
//! from counts: the access key that asked for it, the role, the identity provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::codec::{self, Versioned};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use super::token_keys::TokenKey;
use super::{IdentityPolicy, PolicyRef, Reference};
use crate::bucket::{AccessKey, Secret};
use crate::error::Error;
use crate::object::Tags;

/// The longest session in seconds: 36 hours.
pub(crate) const MAX_SESSION_S: u64 = 129_600;

/// The most characters of a token. It has to fit into a header, and into the address of a presigned
/// request.
pub const MAX_TOKEN_CHARS: usize = 6 << 10;

/// The purpose of the seal, so that no other sealed text is taken for a token.
const PURPOSE: &[u8] = b"archipel session token 1";

/// The version of the form of a token.
pub(crate) const VERSION: u8 = 1;

/// The bytes before the sealed text: version, number of the key, nonce.
const HEAD: usize = 1 + 4 + NONCE_LEN;

/// The access key that asked for a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parent {
    /// The access key.
    #[serde(rename = "k")]
    pub key: Reference,
    /// The user that the key belongs to.
    #[serde(rename = "u", default)]
    pub user: Option<Reference>,
}

/// The role that a session acts for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionRole {
    /// The role.
    #[serde(rename = "r")]
    pub role: Reference,
    /// The name of the session.
    #[serde(rename = "s")]
    pub session: String,
}

/// A session, as its token says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Session {
    /// The id of its access key.
    #[serde(rename = "i")]
    pub id: String,
    /// The secret.
    #[serde(rename = "s")]
    pub(crate) secret: Secret,
    /// The time of its beginning in milliseconds since 1970.
    #[serde(rename = "b", default)]
    pub issued_ms: u64,
    /// The time of its end.
    #[serde(rename = "e", default)]
    pub expires_ms: u64,
    /// The access key that asked for it; `None` for a web identity.
    #[serde(rename = "p", default)]
    pub parent: Option<Parent>,
    /// The role; `None` if it acts for the user of its parent.
    #[serde(rename = "r", default)]
    pub role: Option<SessionRole>,
    /// The identity provider that spoke for it.
    #[serde(rename = "o", default)]
    pub provider: Option<Reference>,
    /// The policy that limits it.
    #[serde(rename = "l", default)]
    pub policy: Option<IdentityPolicy>,
    /// The managed policies that limit it.
    #[serde(rename = "m", default)]
    pub policies: Vec<PolicyRef>,
    /// The tags.
    #[serde(rename = "t", default)]
    pub tags: Tags,
}

impl Versioned for Session {
    const VERSION: u8 = 1;
}

/// A session that is to begin.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    /// The seconds that it lasts.
    pub seconds: u64,
    /// See [`Session::parent`].
    pub parent: Option<Parent>,
    /// See [`Session::role`].
    pub role: Option<SessionRole>,
    /// See [`Session::provider`].
    pub provider: Option<Reference>,
    /// See [`Session::policy`].
    pub policy: Option<IdentityPolicy>,
    /// See [`Session::policies`].
    pub policies: Vec<PolicyRef>,
    /// See [`Session::tags`].
    pub tags: Tags,
}

impl Session {
    /// Returns the access key with which the session signs.
    pub(crate) fn key(self, names: BTreeMap<String, crate::bucket::Alias>) -> AccessKey {
        AccessKey {
            name: String::new(),
            created_ms: self.issued_ms,
            names,
            session: Some(Arc::new(self.clone())),
            ..AccessKey::new(self.id, self.secret)
        }
    }
}

fn aead(key: &TokenKey) -> Option<LessSafeKey> {
    let key = UnboundKey::new(&AES_256_GCM, key.secret.as_ref()?).ok()?;
    Some(LessSafeKey::new(key))
}

pub(crate) fn seal(
    key: &TokenKey,
    nonce: [u8; NONCE_LEN],
    session: &Session,
) -> Result<String, Error> {
    let failed = || Error::Internal("a token cannot be sealed".into());
    let mut sealed = codec::encode(session);
    let aead = aead(key).ok_or_else(failed)?;
    let unique = Nonce::assume_unique_for_key(nonce);
    aead.seal_in_place_append_tag(unique, Aad::from(PURPOSE), &mut sealed)
        .map_err(|_| failed())?;
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&key.number.to_be_bytes());
    bytes.extend_from_slice(&nonce);
    bytes.append(&mut sealed);
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

pub(crate) fn open(key: &TokenKey, mut bytes: Vec<u8>) -> Option<Session> {
    let nonce = bytes.get(5..HEAD)?.try_into().ok()?;
    let nonce = Nonce::assume_unique_for_key(nonce);
    let sealed = bytes.get_mut(HEAD..)?;
    let session = aead(key)?.open_in_place(nonce, Aad::from(PURPOSE), sealed);
    codec::decode(session.ok()?).ok()
}

//! Wraps the key of a content, or another secret, by an outer key: a customer's, or one of the
//! keyring.
//!
//! Each wrapping has a random salt and a key of its own, derived from the outer key, the salt and
//! the context. So an outer key wraps any number of keys, and a wrapped key opens in its context
//! only.

use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;

/// The bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 32;

/// The key of one content, or of one upload. Debug output does not exist.
#[derive(Clone)]
pub struct DataKey([u8; KEY_BYTES]);

impl Drop for DataKey {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Overwrites a key that is no longer needed.
pub(crate) fn wipe(key: &mut [u8]) {
    key.fill(0);
    std::hint::black_box(key);
}

impl DataKey {
    pub(crate) fn new(bytes: [u8; KEY_BYTES]) -> DataKey {
        DataKey(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Returns another key that only this key's holders know.
    pub(crate) fn derive(&self, label: &[u8], context: &[u8]) -> DataKey {
        DataKey(mac(&self.0, &[label, context]))
    }
}

/// Returns a MAC of fields. Their lengths are part of it.
fn mac(key: &[u8], fields: &[&[u8]]) -> [u8; KEY_BYTES] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut context = hmac::Context::with_key(&key);
    for field in fields {
        context.update(&(field.len() as u64).to_be_bytes());
        context.update(field);
    }
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(context.sign().as_ref());
    bytes
}

fn cipher(outer: &[u8; KEY_BYTES], salt: &[u8], context: &[u8]) -> Option<LessSafeKey> {
    let mut key = mac(outer, &[b"archipel key wrap 1", salt, context]);
    let cipher = UnboundKey::new(&AES_256_GCM, &key).ok();
    wipe(&mut key);
    cipher.map(LessSafeKey::new)
}

/// Returns the one nonce: each wrapping has a key of its own.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// Wraps a key. `salt` must be random.
pub(crate) fn wrap(
    outer: &[u8; KEY_BYTES],
    context: &[u8],
    salt: [u8; SALT_BYTES],
    key: &DataKey,
) -> Option<Bytes> {
    seal(outer, context, salt, key.bytes())
}

/// Unwraps a key. Returns `None` if the outer key or the context is another, or the wrapped key was
/// changed.
pub(crate) fn unwrap(outer: &[u8; KEY_BYTES], context: &[u8], wrapped: &[u8]) -> Option<DataKey> {
    let mut opened = open(outer, context, wrapped)?;
    let key = opened[..].try_into().ok().map(DataKey);
    wipe(&mut opened);
    key
}

/// Seals a secret of any length. `salt` must be random.
pub(crate) fn seal(
    outer: &[u8; KEY_BYTES],
    context: &[u8],
    salt: [u8; SALT_BYTES],
    secret: &[u8],
) -> Option<Bytes> {
    let mut inner = secret.to_vec();
    let cipher = cipher(outer, &salt, context)?;
    let tag = cipher.seal_in_place_separate_tag(nonce(), Aad::empty(), &mut inner);
    let tag = tag.ok()?;
    Some([&salt[..], &inner[..], tag.as_ref()].concat().into())
}

/// Opens what [`seal`] returned. Returns `None` if the outer key or the context is another, or it
/// was changed.
pub(crate) fn open(outer: &[u8; KEY_BYTES], context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (salt, sealed) = sealed.split_at_checked(SALT_BYTES)?;
    let mut sealed = sealed.to_vec();
    let cipher = cipher(outer, salt, context)?;
    let length = cipher
        .open_in_place(nonce(), Aad::empty(), &mut sealed)
        .ok()?
        .len();
    sealed.truncate(length);
    Some(sealed)
}

//! Signatures of chunks and trailers: each one covers the one before it.

use ring::{digest, hmac};

use super::credential::{Scope, Timestamp};
use super::matches_hex;

/// The SHA-256 of nothing.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Checks the signatures of one body, in order.
#[derive(Clone)]
pub struct ChunkSigner {
    key: hmac::Key,
    /// Time and scope, as they stand in each string to sign.
    middle: String,
    previous: String,
}

impl ChunkSigner {
    /// Makes a signer that begins with the signature of the headers.
    pub fn new(key: hmac::Key, timestamp: &Timestamp, scope: &Scope, seed: &str) -> ChunkSigner {
        ChunkSigner {
            key,
            middle: format!("{}\n{}", timestamp.text, scope.signed_text()),
            previous: seed.to_owned(),
        }
    }

    /// Returns true if `signature` is that of the next chunk, whose content has this SHA-256.
    pub fn chunk(&mut self, sha256: &digest::Digest, signature: &str) -> bool {
        let hash = hex::encode(sha256);
        let what = format!("{EMPTY_SHA256}\n{hash}");
        self.check("AWS4-HMAC-SHA256-PAYLOAD", &what, signature)
    }

    /// Returns true if `signature` is that of the trailer (`name:value\n` each).
    pub fn trailer(&mut self, trailer: &[u8], signature: &str) -> bool {
        let what = hex::encode(digest::digest(&digest::SHA256, trailer));
        self.check("AWS4-HMAC-SHA256-TRAILER", &what, signature)
    }

    fn check(&mut self, algorithm: &str, what: &str, signature: &str) -> bool {
        let text = format!("{algorithm}\n{}\n{}\n{what}", self.middle, self.previous);
        let right = matches_hex(&self.key, text.as_bytes(), signature);
        if right {
            self.previous = signature.to_ascii_lowercase();
        }
        right
    }
}

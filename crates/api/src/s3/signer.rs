//! The signer of a request, whatever the version of the signature.

use std::sync::Arc;

use archipel_model::AccessKey;

use super::auth::Credential;
use super::error::S3Result;
use super::sigv2;
use super::sigv4::{ChunkSigner, Lookup, Payload, SignedParts, Verifier, unsigned_payload};
use super::target::Target;

/// The signer of a request.
pub struct Signer {
    /// The access key.
    pub key: Arc<AccessKey>,
    /// The body's form.
    pub payload: Payload,
    /// Checks the chunks of a signed chunked body.
    pub chunks: Option<ChunkSigner>,
    /// The kind of the signature.
    pub credential: Credential,
}

/// Checks a request's signature; `None` if it has none. `version_2` says whether that version
/// counts.
///
/// # Errors
/// A 4xx for everything that is not exactly right.
pub fn verify(
    verifier: &Verifier,
    version_2: bool,
    signed: &SignedParts<'_>,
    target: &Target,
    now_ms: u64,
    lookup: Lookup<'_>,
) -> S3Result<Option<Signer>> {
    if version_2 && sigv2::is_presented(signed.query) {
        let key = sigv2::verify(signed.method, target, signed.headers, now_ms, lookup)?;
        return Ok(Some(Signer {
            key,
            payload: unsigned_payload(signed.headers)?,
            chunks: None,
            credential: Credential {
                version: "AWS",
                kind: "REST-QUERY-STRING",
                age_ms: Some(sigv2::AGE_MS),
            },
        }));
    }
    let verified = verifier.verify(signed, now_ms, lookup)?;
    Ok(verified.map(|verified| Signer {
        key: verified.key,
        payload: verified.payload,
        chunks: Some(verified.chunks),
        credential: verified.credential,
    }))
}

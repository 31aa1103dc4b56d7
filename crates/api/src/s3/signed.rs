//! The signature of a request, checked with the access keys that this node knows.

use archipel_model::Model;
use parking_lot::Mutex;

use super::error::S3Result;
use super::sigv4::{SignedParts, Verified, Verifier};

/// Verifies the signature of a request; `None` if it has none.
///
/// # Errors
/// As [`Verifier::verify`].
pub async fn signed_by(
    model: &Model,
    verifier: &Verifier,
    signed: &SignedParts<'_>,
    now_ms: u64,
) -> S3Result<Option<Verified>> {
    let lookup = |id: &str| Ok(model.access_key(id)?);
    let unknown = Mutex::new(None);
    let noting = |id: &str| {
        let key = lookup(id)?;
        if key.is_none() {
            *unknown.lock() = Some(id.to_owned());
        }
        Ok(key)
    };
    let verified = verifier.verify(signed, now_ms, &noting);
    match unknown.into_inner() {
        // Another node may have made the key a moment ago.
        Some(id) => {
            model.find_access_key(&id).await?;
            verifier.verify(signed, now_ms, &lookup)
        }
        None => verified,
    }
}

//! The signature of a request, checked with the access keys that this node knows.

use archipel_model::Model;
use parking_lot::Mutex;

use super::error::S3Result;
use super::sigv4::Lookup;

/// Verifies the signature of a request; `None` if it has none. `verify` may run twice: the second
/// time after the rows of an unknown key were read.
///
/// # Errors
/// Those of `verify`, and those of reading the key.
pub async fn signed_by<T>(
    model: &Model,
    verify: impl Fn(Lookup<'_>) -> S3Result<Option<T>>,
) -> S3Result<Option<T>> {
    let lookup = |id: &str| Ok(model.access_key(id)?);
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
        // Another node may have made the key a moment ago.
        Some(id) => {
            model.find_access_key(&id).await?;
            verify(&lookup)
        }
        None => verified,
    }
}

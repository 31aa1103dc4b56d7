//! The signature of a request, checked with the access keys that this node knows, and with those of
//! sessions, which their tokens carry.

use std::sync::Arc;

use archipel_model::{AccessKey, Model};
use http::HeaderMap;
use parking_lot::Mutex;

use super::call::single_header;
use super::error::{Code, S3Error, S3Result};
use super::sigv4::Lookup;
use super::uri::Query;

/// The header and the parameter with the token of a session.
pub const TOKEN: &str = "x-amz-security-token";

/// Returns the token of a request.
///
/// # Errors
/// [`Code::InvalidArgument`] if there are two.
pub fn token<'r>(headers: &'r HeaderMap, query: &'r Query) -> S3Result<Option<&'r str>> {
    let header = single_header(headers, TOKEN)?;
    match (header, query.single_in_any_case(TOKEN)?) {
        (Some(one), Some(other)) if one != other => {
            let why = "The request gives different values for one header.";
            Err(S3Error::argument(TOKEN, "", why))
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// Verifies the signature of a request with the key of its token, if it has one, else as
/// [`signed_by`] does.
///
/// # Errors
/// Those of `verify`; [`Code::InvalidToken`]; those of reading the key.
pub async fn signed_with<T>(
    model: &Model,
    token: Option<&str>,
    verify: impl Fn(Lookup<'_>) -> S3Result<Option<T>>,
) -> S3Result<Option<T>> {
    match token {
        None => signed_by(model, verify).await,
        Some(token) => {
            let key = model.key_of_token(token).await?;
            verify(&of_session(&key))
        }
    }
}

/// Finds the key of a session, and no other.
pub fn of_session(
    key: &Arc<AccessKey>,
) -> impl Fn(&str) -> S3Result<Option<Arc<AccessKey>>> + Sync {
    |id| match id == key.id {
        true => Ok(Some(key.clone())),
        false => Err(Code::InvalidToken.into()),
    }
}

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

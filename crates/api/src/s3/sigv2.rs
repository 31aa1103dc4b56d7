//! AWS Signature Version 2, for presigned URLs of objects and for forms.
//!
//! boto3 and the AWS CLI make such URLs for `us-east-1` unless they are told otherwise. Version 2
//! covers less of a request than version 4. Parts that it does not cover are refused: other
//! parameters of the query, and operations on buckets. `x-amz-*` parameters of the query are
//! covered as headers.
//! Parameters that repeat a header of the request say nothing of their own, so they are accepted.
//! A setting turns version 2 off.
//!
//! Source: AWS, "Signing and authenticating REST requests (AWS signature version 2)" and
//! "Browser-based uploads using POST (AWS signature version 2)".

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_model::AccessKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method};
use ring::hmac;

use super::call::single_header;
use super::error::{Code, S3Error, S3Result};
use super::sigv4::{Lookup, iso, mismatch, unknown_key, unsupported_mechanism};
use super::target::Target;
use super::uri::Query;

/// The age of a signature for policies: in version 2 it is always 0.
///
/// Source: AWS, "Amazon S3 Signature Version 4 authentication-specific policy keys".
pub const AGE_MS: u64 = 0;

/// The parameters of the signature itself.
const OF_SIGNATURE: [&str; 3] = ["AWSAccessKeyId", "Expires", "Signature"];

/// The parameters that the signature covers.
const COVERED: [&str; 15] = [
    "acl",
    "attributes",
    "legal-hold",
    "partNumber",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "retention",
    "tagging",
    "uploadId",
    "uploads",
    "versionId",
];

/// Headers that SDKs repeat in the query: boto3 those that have a line of their own in what is
/// signed, the AWS SDK for JavaScript 2 all of them, in its own case.
const REPEATED: [&str; 6] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-md5",
    "content-type",
];

/// Returns true if a query presents a signature of version 2, also an incomplete one. `Expires`
/// alone says nothing of a signature.
pub fn is_presented(query: &Query) -> bool {
    query.has("Signature") || query.has("AWSAccessKeyId")
}

/// Checks the signature of a presigned request, and gives the access key.
///
/// # Errors
/// A 4xx for everything that is not exactly right.
pub fn verify(
    method: &Method,
    target: &Target,
    headers: &HeaderMap,
    now_ms: u64,
    lookup: Lookup<'_>,
) -> S3Result<Arc<AccessKey>> {
    let query = &target.query;
    if headers.contains_key("authorization") || query.has("X-Amz-Algorithm") {
        let why = "Only one auth mechanism allowed";
        return Err(S3Error::argument("Authorization", "", why));
    }
    let take = |name: &str| query.single_text(name)?.ok_or_else(incomplete);
    let id = take("AWSAccessKeyId")?;
    let expires_text = take("Expires")?;
    // `+` stands for a space in a query, and no space is in Base64.
    let signature = take("Signature")?.replace(' ', "+");
    let methods = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE];
    if target.key.is_none() || !methods.contains(method) {
        return Err(unsupported_mechanism());
    }
    let expires: u64 = expires_text.parse().map_err(|_| {
        let why = format!("Invalid date (should be seconds since epoch): {expires_text}");
        S3Error::new(Code::AccessDenied, why)
    })?;
    if now_ms / 1000 > expires {
        return Err(S3Error::new(Code::AccessDenied, "Request has expired")
            .with("Expires", iso(expires.saturating_mul(1000)))
            .with("ServerTime", iso(now_ms)));
    }
    check_covered(query, headers)?;
    let text = string_to_sign(method, target, headers, expires_text)?;
    let key = lookup(id)?.ok_or_else(|| unknown_key(id))?;
    if matches(&key, text.as_bytes(), &signature) {
        Ok(key)
    } else {
        Err(mismatch(id, &text, &signature))
    }
}

/// Checks the signature of a form's policy, and gives the access key.
///
/// # Errors
/// A 403 if the policy was not signed so.
pub fn verify_policy(
    policy: &str,
    id: &str,
    signature: &str,
    lookup: Lookup<'_>,
) -> S3Result<Arc<AccessKey>> {
    let key = lookup(id)?.ok_or_else(|| unknown_key(id))?;
    if matches(&key, policy.as_bytes(), signature) {
        Ok(key)
    } else {
        Err(Code::SignatureDoesNotMatch.into())
    }
}

fn incomplete() -> S3Error {
    let why =
        "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters";
    S3Error::new(Code::AccessDenied, why)
}

/// Returns true if the signature matches. Compares in constant time.
fn matches(key: &AccessKey, text: &[u8], signature: &str) -> bool {
    let secret = key.secret.expose().as_bytes();
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let signature = STANDARD.decode(signature);
    signature.is_ok_and(|signature| hmac::verify(&key, text, &signature).is_ok())
}

/// Checks that the signature covers each parameter, and that no header contradicts one.
fn check_covered(query: &Query, headers: &HeaderMap) -> S3Result<()> {
    for (name, value) in query.iter() {
        check_separable(name, value)?;
        let lower = name.to_ascii_lowercase();
        let covered = OF_SIGNATURE.contains(&name)
            || COVERED.contains(&name)
            || lower.starts_with("x-amz-")
            || REPEATED.contains(&lower.as_str()) && single_header(headers, &lower)? == Some(value);
        if !covered {
            let why = format!("The signature does not cover the parameter {name}");
            return Err(S3Error::new(Code::AccessDenied, why));
        }
    }
    Ok(())
}

/// Refuses values that could be parted otherwise: the text that is signed holds them as they are,
/// with nothing but a line feed or `&` between two of them.
fn check_separable(name: &str, value: &str) -> S3Result<()> {
    let begins_another = |rest: &str| {
        let next = rest.split(['=', '&']).next();
        next.is_some_and(|next| COVERED.contains(&next))
    };
    let mut others = value.split('&').skip(1);
    if value.chars().any(char::is_control) || others.any(begins_another) {
        let why = "The value holds what separates parameters. Please use AWS4-HMAC-SHA256.";
        return Err(S3Error::argument(name, value, why));
    }
    Ok(())
}

fn string_to_sign(
    method: &Method,
    target: &Target,
    headers: &HeaderMap,
    expires: &str,
) -> S3Result<String> {
    let own = |name: &str| Ok::<_, S3Error>(single_header(headers, name)?.unwrap_or_default());
    let (md5, kind) = (own("content-md5")?, own("content-type")?);
    let mut text = format!("{method}\n{md5}\n{kind}\n{expires}\n");
    for (name, value) in amz_headers(target, headers)? {
        text.push_str(&format!("{name}:{value}\n"));
    }
    if target.virtual_host {
        text.push('/');
        text.push_str(target.bucket.as_deref().unwrap_or_default());
    }
    text.push_str(&target.path);
    let mut covered: Vec<_> = target
        .query
        .iter()
        .filter(|(name, _)| COVERED.contains(name))
        .collect();
    covered.sort_unstable();
    for (number, (name, value)) in covered.into_iter().enumerate() {
        text.push(if number == 0 { '?' } else { '&' });
        text.push_str(name);
        if !value.is_empty() {
            text.push('=');
            text.push_str(value);
        }
    }
    Ok(text)
}

/// Returns the `x-amz-*` headers and parameters, by lower-case name: both are covered alike.
fn amz_headers(target: &Target, headers: &HeaderMap) -> S3Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for name in headers.keys().map(|name| name.as_str()) {
        if name.starts_with("x-amz-") {
            let value = single_header(headers, name)?.unwrap_or_default();
            all.insert(name.to_owned(), value.to_owned());
        }
    }
    for (name, value) in target.query.iter() {
        let name = name.to_ascii_lowercase();
        if name.starts_with("x-amz-") {
            let value = value.trim().to_owned();
            let other = all.insert(name.clone(), value.clone());
            if other.is_some_and(|other| other != value) {
                return Err(S3Error::conflict(&name));
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;

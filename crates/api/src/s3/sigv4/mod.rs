//! AWS Signature Version 4: in headers, in presigned URLs, of POST policies, and of chunks.
//!
//! One verifier; the region and the service are its parameters. This module reads no body: it
//! checks the signature of the headers, and [`Payload`] says how the body is checked later.
//!
//! Source: AWS, "Authenticating Requests (AWS Signature Version 4)" in the S3 API reference.

mod canonical;
mod chunk;
mod credential;
mod errors;
mod payload;

use std::sync::Arc;

use archipel_model::AccessKey;
use http::{HeaderMap, Method};
use ring::{digest, hmac};

pub use chunk::ChunkSigner;
pub use credential::{Scope, Timestamp, iso};
pub(super) use errors::{mismatch, unknown_key, unsupported_mechanism};
pub use payload::unsigned_payload;

use self::canonical::{Candidate, string_to_sign};
use self::credential::{MAX_EXPIRES_S, Presented, Source};
use self::payload::{parse_payload, payload_text};
use super::auth::Credential;
use super::error::{Code, S3Error, S3Result};
use super::uri::Query;

/// The largest difference between a client's clock and ours.
const MAX_SKEW_MS: u64 = 15 * 60 * 1000;

/// The only algorithm that is spoken.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The parts of a request that the signature covers.
pub struct SignedParts<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path as it was sent.
    pub path: &'a str,
    /// The query.
    pub query: &'a Query,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The host: of `Host`, or of HTTP/2's `:authority`.
    pub host: &'a str,
}

/// The body's form, as the signed headers declare it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Not covered by the signature.
    Unsigned,
    /// The body has this SHA-256.
    Sha256([u8; 32]),
    /// The body is in `aws-chunked` encoding.
    Chunked {
        /// True if every chunk and the trailer are signed.
        signed: bool,
        /// True if trailing headers follow.
        trailer: bool,
    },
}

/// The signer of a request, and the body that was signed.
pub struct Verified {
    /// The access key.
    pub key: Arc<AccessKey>,
    /// The body's form.
    pub payload: Payload,
    /// Checks the chunks of a signed chunked body.
    pub chunks: ChunkSigner,
    /// The kind of the signature.
    pub credential: Credential,
}

/// Finds an access key by its id, unless the keys are not known at present.
pub type Lookup<'a> = &'a (dyn Fn(&str) -> S3Result<Option<Arc<AccessKey>>> + Sync);

/// Checks signatures for one region and one service.
pub struct Verifier {
    region: String,
    service: &'static str,
    /// Requests may also be signed for the region that AWS's global services have.
    global: bool,
}

/// The region for which clients sign requests to AWS's global services.
const GLOBAL_REGION: &str = "us-east-1";

impl Verifier {
    /// Makes a verifier for requests to `service` in `region`.
    pub fn new(region: impl Into<String>, service: &'static str) -> Verifier {
        Verifier {
            region: region.into(),
            service,
            global: false,
        }
    }

    /// Makes a verifier for requests to a service that AWS has once for all regions.
    pub fn global(region: impl Into<String>, service: &'static str) -> Verifier {
        Verifier {
            global: true,
            ..Verifier::new(region, service)
        }
    }

    /// Checks a request's signature; `None` if it has none.
    ///
    /// # Errors
    /// A 4xx for everything that is not exactly right.
    pub fn verify(
        &self,
        request: &SignedParts<'_>,
        now_ms: u64,
        lookup: Lookup<'_>,
    ) -> S3Result<Option<Verified>> {
        self.verify_payload(request, now_ms, lookup, |presented| {
            payload_text(presented, request)
        })
    }

    /// Checks the signature of a request whose body is there, as all services but S3 have it.
    ///
    /// # Errors
    /// As [`verify`](Verifier::verify).
    pub fn verify_with_body(
        &self,
        request: &SignedParts<'_>,
        body: &[u8],
        now_ms: u64,
        lookup: Lookup<'_>,
    ) -> S3Result<Option<Verified>> {
        let hash = hex::encode(digest::digest(&digest::SHA256, body));
        self.verify_payload(request, now_ms, lookup, |_| Ok(hash))
    }

    fn verify_payload(
        &self,
        request: &SignedParts<'_>,
        now_ms: u64,
        lookup: Lookup<'_>,
        payload_text: impl FnOnce(&Presented) -> S3Result<String>,
    ) -> S3Result<Option<Verified>> {
        let Some(presented) = credential::presented(request.headers, request.query)? else {
            return Ok(None);
        };
        self.check_scope(&presented.scope, presented.source)?;
        check_time(&presented, now_ms)?;
        check_all_signed(&presented, request.headers)?;
        let payload_text = payload_text(&presented)?;
        let payload = parse_payload(&payload_text)?;
        let id = &presented.scope.access_key;
        let key = lookup(id)?.ok_or_else(|| unknown_key(id))?;
        let signing_key = self.signing_key(&key, &presented.scope);
        self.check_signature(&presented, request, &payload_text, &signing_key)?;
        let chunks = ChunkSigner::new(
            signing_key,
            &presented.timestamp,
            &presented.scope,
            &presented.signature,
        );
        Ok(Some(Verified {
            key,
            payload,
            chunks,
            credential: described(&presented, now_ms),
        }))
    }

    fn check_signature(
        &self,
        presented: &Presented,
        request: &SignedParts<'_>,
        payload: &str,
        signing_key: &hmac::Key,
    ) -> S3Result<()> {
        let candidates: &[Candidate] = match self.service {
            // Some clients sign reserved characters as they send them instead of encoding them.
            "s3" if !request.query.has("events") => &[Candidate::Encoded, Candidate::AsSent],
            "s3" => &[Candidate::Encoded, Candidate::AsSent, Candidate::Listening],
            _ => &[Candidate::Twice],
        };
        // A header that was signed and is not there was removed on the way.
        let is_there = |name: &String| {
            let is_header = name == "host" || request.headers.contains_key(name);
            is_header || canonical::in_query(presented, request, name).is_some()
        };
        let is_whole = presented.signed_headers.iter().all(is_there);
        let mut expected = None;
        for candidate in candidates {
            let canonical = canonical::request(presented, request, payload, *candidate)?;
            let text = string_to_sign(&presented.timestamp, &presented.scope, &canonical);
            if is_whole && matches_hex(signing_key, text.as_bytes(), &presented.signature) {
                return Ok(());
            }
            expected.get_or_insert((text, canonical));
        }
        let (text, canonical) = expected.unwrap_or_default();
        let id = &presented.scope.access_key;
        let error = mismatch(id, &text, &presented.signature);
        Err(error.with("CanonicalRequest", String::from_utf8_lossy(&canonical)))
    }

    /// Checks the signature of a POST policy. Returns the access key, and the age of the signature
    /// in milliseconds.
    ///
    /// # Errors
    /// A 403 if the policy was not signed so, a 400 if the fields make no sense.
    pub fn verify_policy(
        &self,
        policy: &str,
        fields: &PolicyFields<'_>,
        now_ms: u64,
        lookup: Lookup<'_>,
    ) -> S3Result<(Arc<AccessKey>, u64)> {
        if fields.algorithm != ALGORITHM {
            return Err(unsupported_mechanism());
        }
        let scope = Scope::parse(fields.credential).ok_or_else(|| {
            S3Error::argument(
                "X-Amz-Credential",
                fields.credential,
                "Malformed credential.",
            )
        })?;
        self.check_scope(&scope, Source::Query)?;
        let timestamp = Timestamp::parse(fields.date)
            .filter(|t| t.date() == scope.date)
            .ok_or_else(|| S3Error::argument("X-Amz-Date", fields.date, "Malformed date."))?;
        if timestamp.millis > now_ms + MAX_SKEW_MS {
            return Err(S3Error::new(Code::AccessDenied, "Request is not yet valid"));
        }
        // A signing key is valid for seven days, however late the policy says that it expires.
        if now_ms > timestamp.millis + MAX_EXPIRES_S * 1000 {
            let why = "Invalid according to Policy: Policy expired.";
            return Err(S3Error::new(Code::AccessDenied, why));
        }
        let key = lookup(&scope.access_key)?.ok_or_else(|| unknown_key(&scope.access_key))?;
        let signing_key = self.signing_key(&key, &scope);
        if matches_hex(&signing_key, policy.as_bytes(), fields.signature) {
            Ok((key, now_ms.saturating_sub(timestamp.millis)))
        } else {
            Err(Code::SignatureDoesNotMatch.into())
        }
    }

    fn check_scope(&self, scope: &Scope, source: Source) -> S3Result<()> {
        let (code, what) = match source {
            Source::Header => (
                Code::AuthorizationHeaderMalformed,
                "The authorization header is malformed",
            ),
            Source::Query => (
                Code::AuthorizationQueryParametersError,
                "Error parsing the X-Amz-Credential parameter",
            ),
        };
        let is_global = self.global && scope.region == GLOBAL_REGION;
        if scope.region != self.region && !is_global {
            let message = format!(
                "{what}; the region '{}' is wrong; expecting '{}'",
                scope.region, self.region
            );
            let error = S3Error::new(code, message).with("Region", self.region.clone());
            // SDKs that look for a bucket's region read the header, also because the answer to HEAD
            // has no body.
            return Err(match self.service {
                "s3" => error.with_header("x-amz-bucket-region", self.region.clone()),
                _ => error,
            });
        }
        if scope.service != self.service || scope.terminator != "aws4_request" {
            let message = format!(
                "The credential scope is malformed; it must end in '{}/aws4_request'",
                self.service
            );
            return Err(S3Error::new(code, message));
        }
        Ok(())
    }

    fn signing_key(&self, key: &AccessKey, scope: &Scope) -> hmac::Key {
        signing_key(
            key.secret.expose(),
            &scope.date,
            &scope.region,
            self.service,
        )
    }
}

/// Derives the key that signs the requests of a day to a service.
pub(crate) fn signing_key(secret: &str, date: &str, region: &str, service: &str) -> hmac::Key {
    let first = format!("AWS4{secret}");
    let mut key = hmac::Key::new(hmac::HMAC_SHA256, first.as_bytes());
    for step in [date, region, service, "aws4_request"] {
        let tag = hmac::sign(&key, step.as_bytes());
        key = hmac::Key::new(hmac::HMAC_SHA256, tag.as_ref());
    }
    key
}

/// The form fields that carry a POST policy's signature.
pub struct PolicyFields<'a> {
    /// `x-amz-algorithm`.
    pub algorithm: &'a str,
    /// `x-amz-credential`.
    pub credential: &'a str,
    /// `x-amz-date`.
    pub date: &'a str,
    /// `x-amz-signature`.
    pub signature: &'a str,
}

/// Describes a signature for policies.
fn described(presented: &Presented, now_ms: u64) -> Credential {
    Credential {
        version: ALGORITHM,
        kind: match presented.source {
            Source::Header => "REST-HEADER",
            Source::Query => "REST-QUERY-STRING",
        },
        age_ms: match presented.source {
            Source::Header => None,
            Source::Query => Some(now_ms.saturating_sub(presented.timestamp.millis)),
        },
    }
}

/// Returns true if the signature matches. Compares in constant time.
fn matches_hex(key: &hmac::Key, text: &[u8], signature: &str) -> bool {
    let mut expected = [0; 32];
    hex::decode_to_slice(signature, &mut expected).is_ok()
        && hmac::verify(key, text, &expected).is_ok()
}

fn check_time(presented: &Presented, now_ms: u64) -> S3Result<()> {
    let (sent, early) = (presented.timestamp.millis, now_ms + MAX_SKEW_MS);
    match presented.expires_s {
        None if sent > early || sent + MAX_SKEW_MS < now_ms => {
            Err(S3Error::from(Code::RequestTimeTooSkewed)
                .with("RequestTime", presented.timestamp.text.clone())
                .with("ServerTime", iso(now_ms))
                .with("MaxAllowedSkewMilliseconds", MAX_SKEW_MS.to_string()))
        }
        Some(_) if sent > early => {
            Err(S3Error::new(Code::AccessDenied, "Request is not yet valid"))
        }
        Some(expires) if now_ms > sent + expires * 1000 => {
            Err(S3Error::new(Code::AccessDenied, "Request has expired")
                .with("X-Amz-Expires", expires.to_string())
                .with("Expires", iso(sent + expires * 1000))
                .with("ServerTime", iso(now_ms)))
        }
        _ => Ok(()),
    }
}

/// Checks that `host` and every `x-amz-*` header is signed: an unsigned one must have no effect.
fn check_all_signed(presented: &Presented, headers: &HeaderMap) -> S3Result<()> {
    let signed = |name: &str| presented.signed_headers.iter().any(|s| s == name);
    // The value of `x-amz-content-sha256` is a part of what is signed in any case; see
    // `payload_text` for presigned requests.
    let mut missing: Vec<_> = headers
        .keys()
        .map(|name| name.as_str())
        .filter(|n| n.starts_with("x-amz-") && *n != "x-amz-content-sha256" && !signed(n))
        .collect();
    if !signed("host") {
        missing.push("host");
    }
    if missing.is_empty() {
        return Ok(());
    }
    let why = "There were headers present in the request which were not signed";
    Err(S3Error::new(Code::AccessDenied, why).with("HeadersNotSigned", missing.join(", ")))
}

#[cfg(test)]
mod tests;

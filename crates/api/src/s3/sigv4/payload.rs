//! The body's form and hash, as a request declares them.

use http::HeaderMap;

use super::credential::{Presented, Source};
use super::{Payload, SignedParts};
use crate::s3::error::{Code, S3Error, S3Result};

/// Returns the form of a body that no signature covers.
///
/// # Errors
/// [`Code::InvalidArgument`] for an unknown one.
pub fn unsigned_payload(headers: &HeaderMap) -> S3Result<Payload> {
    match headers.get("x-amz-content-sha256") {
        None => Ok(Payload::Unsigned),
        Some(value) => parse_payload(value.to_str().map_err(|_| bad_payload())?),
    }
}

/// Returns the text that stands for the payload in the canonical request.
pub(super) fn payload_text(presented: &Presented, request: &SignedParts<'_>) -> S3Result<String> {
    let name = "x-amz-content-sha256";
    let header = match request.headers.get(name) {
        Some(value) => Some(value.to_str().map_err(|_| bad_payload())?),
        None => None,
    };
    let named = request.query.single_in_any_case(name)?;
    match (presented.source, header) {
        (Source::Header, Some(value)) => Ok(value.to_owned()),
        (Source::Header, None) => {
            let why = "Missing required header for this request: x-amz-content-sha256";
            Err(S3Error::new(Code::InvalidRequest, why))
        }
        (Source::Query, Some(value)) if presented.signed_headers.iter().any(|s| s == name) => {
            if named.is_some_and(|named| named != value) {
                return Err(S3Error::conflict(name));
            }
            Ok(value.to_owned())
        }
        (Source::Query, None | Some("UNSIGNED-PAYLOAD")) => {
            Ok(named.unwrap_or("UNSIGNED-PAYLOAD").to_owned())
        }
        (Source::Query, Some(_)) => {
            let why = "There were headers present in the request which were not signed";
            Err(S3Error::new(Code::AccessDenied, why).with("HeadersNotSigned", name))
        }
    }
}

fn bad_payload() -> S3Error {
    let why = "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, \
               STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER \
               or a valid sha256 value.";
    S3Error::new(Code::InvalidArgument, why).with("ArgumentName", "x-amz-content-sha256")
}

pub(super) fn parse_payload(text: &str) -> S3Result<Payload> {
    let chunked = |signed, trailer| Ok(Payload::Chunked { signed, trailer });
    match text {
        "UNSIGNED-PAYLOAD" => Ok(Payload::Unsigned),
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => chunked(true, false),
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => chunked(true, true),
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => chunked(false, true),
        t if t.starts_with("STREAMING-AWS4-ECDSA-") => {
            Err(S3Error::not_implemented("Signature Version 4A (ECDSA)"))
        }
        _ => {
            let mut sha256 = [0; 32];
            hex::decode_to_slice(text, &mut sha256).map_err(|_| bad_payload())?;
            Ok(Payload::Sha256(sha256))
        }
    }
}

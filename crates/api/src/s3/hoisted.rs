//! Headers that a client moved into the query.
//!
//! SDKs hoist `x-amz-*` headers of presigned requests into the URL, and S3 reads them there. A
//! signature covers the whole query, so a parameter is as trustworthy as a signed header.
//! [`merge`] turns these parameters into headers before a request is routed. Every later module
//! looks at headers only, so that it honours or refuses both spellings alike.
//!
//! Source: AWS, "Authenticating Requests: Using Query Parameters"; the presigners of the AWS SDKs.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::checksum::{Algorithm, Value};
use super::error::{S3Error, S3Result};
use super::uri::Query;

/// Parameters that belong to the signature itself; `sigv4` reads them.
const OF_SIGNATURE: [&str; 8] = [
    "x-amz-algorithm",
    "x-amz-content-sha256",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
];

/// An SDK's note about its own work. SDKs hoist it even when they send no checksum, and S3
/// ignores it in a query.
const SDK_NOTE: &str = "x-amz-sdk-checksum-algorithm";

/// Returns the headers of a request together with those that its query carries.
///
/// The caller must act on the result only after it checked the signature.
///
/// # Errors
/// [`Code::InvalidRequest`](super::error::Code::InvalidRequest) if a header and a parameter differ,
/// as S3 documents it, and if two parameters do;
/// [`Code::InvalidArgument`](super::error::Code::InvalidArgument) if a parameter cannot be a header.
pub fn merge<'h>(query: &Query, headers: &'h HeaderMap) -> S3Result<Cow<'h, HeaderMap>> {
    let mut merged = Cow::Borrowed(headers);
    for (parameter, value) in query.iter() {
        let name = parameter.to_ascii_lowercase();
        let value = value.trim_matches([' ', '\t']);
        if !is_header(&name) || is_checksum_of_nothing(&name, value) {
            continue;
        }
        let unfit = || S3Error::argument(parameter, "", "The parameter is not fit for a header.");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| unfit())?;
        if merged.get_all(&name).iter().any(|other| other != value) {
            return Err(S3Error::conflict(name.as_str()));
        }
        merged.to_mut().insert(name, value);
    }
    Ok(merged)
}

/// Returns true for a parameter, by lower-case name, that stands for a header.
pub fn is_header(name: &str) -> bool {
    name.starts_with("x-amz-") && !OF_SIGNATURE.contains(&name) && name != SDK_NOTE
}

/// Returns true for the checksum of an empty body.
///
/// The JavaScript SDK puts it into every upload that it presigns without knowing the body. S3
/// ignores checksums in a query altogether; this module honours all others.
fn is_checksum_of_nothing(name: &str, value: &str) -> bool {
    let of_nothing = |algorithm| Value::of(algorithm, b"").to_base64();
    Algorithm::of_header(name).is_some_and(|algorithm| value == of_nothing(algorithm))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::{is_checksum_of_nothing, merge};

    use crate::s3::error::Code;
    use crate::s3::uri::Query;

    fn merged(query: &str, headers: &HeaderMap) -> Vec<String> {
        let query = Query::parse(query).unwrap();
        let merged = merge(&query, headers).unwrap();
        let text = merged.iter();
        text.map(|(n, v)| format!("{n}: {}", v.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn parameters_of_the_signature_and_other_names_stay_in_the_query() {
        let query = "X-Amz-Algorithm=a&X-Amz-Credential=b&X-Amz-Date=c&X-Amz-Expires=d\
                     &X-Amz-SignedHeaders=e&X-Amz-Signature=f&X-Amz-Security-Token=g\
                     &X-Amz-Content-Sha256=h&x-amz-content-sha256=i&x-id=j&content-md5=k\
                     &x-amz-sdk-checksum-algorithm=CRC32&prefix=x-amz-acl";
        assert!(merged(query, &HeaderMap::new()).is_empty());
    }

    #[test]
    fn value_is_trimmed_as_that_of_a_header() {
        let headers = HeaderMap::new();
        let found = merged("X-AMZ-Meta-A=+b%09&x-amz-meta-a=b&x-amz-acl", &headers);
        assert_eq!(found, ["x-amz-meta-a: b", "x-amz-acl: "]);
    }

    #[test]
    fn every_value_of_a_repeated_header_must_agree() {
        let mut headers = HeaderMap::new();
        headers.append("x-amz-meta-a", "1".parse().unwrap());
        assert_eq!(merged("x-amz-meta-a=1", &headers), ["x-amz-meta-a: 1"]);
        headers.append("x-amz-meta-a", "2".parse().unwrap());
        for value in ["1", "2", "1,2"] {
            let query = Query::parse(&format!("x-amz-meta-a={value}")).unwrap();
            let code = merge(&query, &headers).map_err(|error| error.code()).err();
            assert_eq!(code, Some(Code::InvalidRequest), "{value}");
        }
    }

    #[test]
    fn checksums_of_nothing_are_known() {
        assert!(is_checksum_of_nothing("x-amz-checksum-crc32", "AAAAAA=="));
        let sha1 = "2jmj7l5rSw0yVb/vlWAYkK/YBwk=";
        assert!(is_checksum_of_nothing("x-amz-checksum-sha1", sha1));
        assert!(!is_checksum_of_nothing("x-amz-checksum-sha256", "AAAAAA=="));
        assert!(!is_checksum_of_nothing("x-amz-checksum-type", "AAAAAA=="));
    }
}

//! The worked examples of AWS's documentation, and requests that must be refused.
//!
//! Source: AWS, "Signature Calculations for the Authorization Header" (single chunk, multiple
//! chunks, trailers), "Authenticating Requests: Using Query Parameters".

mod messages;
mod policy;

use std::sync::Arc;

use archipel_model::{AccessKey, Secret};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;
use ring::digest;

use super::{Payload, SignedParts, Verified, Verifier};
use crate::s3::error::{Code, S3Result};
use crate::s3::uri::Query;

const ID: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const NOW_MS: u64 = 1_369_353_600_000;
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn lookup(id: &str) -> S3Result<Option<Arc<AccessKey>>> {
    Ok((id == ID).then(|| Arc::new(AccessKey::new(ID.into(), Secret::new(SECRET.into())))))
}

/// A request of the examples, changed by a test as it likes.
#[derive(Clone)]
struct Example {
    method: Method,
    path: String,
    query: String,
    headers: Vec<(&'static str, String)>,
    now_ms: u64,
}

impl Example {
    fn new(method: Method, path: &str, query: &str, sha256: &str) -> Example {
        Example {
            method,
            path: path.into(),
            query: query.into(),
            headers: vec![
                ("x-amz-content-sha256", sha256.into()),
                ("x-amz-date", "20130524T000000Z".into()),
            ],
            now_ms: NOW_MS,
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Example {
        self.headers.push((name, value.into()));
        self
    }

    fn signed(self, headers: &str, signature: &str) -> Example {
        let value = format!(
            "AWS4-HMAC-SHA256 Credential={ID}/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders={headers},Signature={signature}"
        );
        self.with("authorization", value)
    }

    fn verify(&self) -> S3Result<Option<Verified>> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let request = SignedParts {
            method: &self.method,
            path: &self.path,
            query: &Query::parse(&self.query)?,
            headers: &headers,
            host: "examplebucket.s3.amazonaws.com",
        };
        Verifier::new("us-east-1", "s3").verify(&request, self.now_ms, &lookup)
    }

    fn accepted(&self) -> Verified {
        self.verify().unwrap().unwrap()
    }

    fn refused(&self, code: Code) {
        assert_eq!(self.verify().map(|_| ()).map_err(|e| e.code()), Err(code));
    }
}

fn get_object() -> Example {
    Example::new(Method::GET, "/test.txt", "", EMPTY)
        .with("range", "bytes=0-9")
        .signed(
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        )
}

#[test]
fn get_with_a_range() {
    let verified = get_object().accepted();
    assert_eq!(verified.key.id, ID);
    assert!(matches!(verified.payload, Payload::Sha256(_)));
}

/// An upload whose signature stands in the documentation, with the key as it is sent.
fn put_with_a_payload(path: &'static str) -> Example {
    let hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    Example::new(Method::PUT, path, "", hash)
        .with("date", "Fri, 24 May 2013 00:00:00 GMT")
        .with("x-amz-storage-class", "REDUCED_REDUNDANCY")
        .signed(
            "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        )
}

/// A reserved character may be sent encoded or as it is: it means the same path.
#[test]
fn put_with_a_reserved_character() {
    put_with_a_payload("/test%24file.text").accepted();
    put_with_a_payload("/test$file.text").accepted();
}

/// minio-go sorts parameters by name only. The signature covers their order then.
#[test]
fn names_of_events_may_be_signed_in_the_order_in_which_they_are_sent() {
    let signed = "host;x-amz-content-sha256;x-amz-date";
    let get = |query: &str, signature| {
        Example::new(Method::GET, "/", query, EMPTY).signed(signed, signature)
    };
    let signature = "54028a4774fc240105144189febe8a9d4e27bfe8e8f6c94b2b1e34cd22d8c885";
    let (removed, created) = ("events=s3:ObjectRemoved:*", "events=s3:ObjectCreated:*");
    get(&format!("ping=10&{removed}&{created}"), signature).accepted();
    let other = get(&format!("{created}&{removed}&ping=10"), signature);
    other.refused(Code::SignatureDoesNotMatch);
    let signature = "2ddef0cac0f6b55a8801066ca2596fee246c4b7629ba15093a5f39732865eec2";
    get("tag=b&tag=a", signature).refused(Code::SignatureDoesNotMatch);
}

#[test]
fn sub_resource_and_listing() {
    let signed = "host;x-amz-content-sha256;x-amz-date";
    Example::new(Method::GET, "/", "lifecycle", EMPTY)
        .signed(
            signed,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        )
        .accepted();
    Example::new(Method::GET, "/", "max-keys=2&prefix=J", EMPTY)
        .signed(
            signed,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        )
        .accepted();
}

const PRESIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256\
    &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
    &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
    &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";

fn presigned() -> Example {
    let mut example = Example::new(Method::GET, "/test.txt", PRESIGNED, "");
    example.headers.clear();
    example
}

#[test]
fn presigned_url_is_valid_until_it_expires() {
    assert_eq!(presigned().accepted().payload, Payload::Unsigned);
    let at = |now_ms| Example {
        now_ms,
        ..presigned()
    };
    at(NOW_MS + 86_400_000).accepted();
    at(NOW_MS + 86_400_001).refused(Code::AccessDenied);
    at(NOW_MS - 15 * 60_000).accepted();
    at(NOW_MS - 15 * 60_000 - 1).refused(Code::AccessDenied);
}

#[test]
fn changed_presigned_url_is_refused() {
    let query = |from: &str, to: &str| Example {
        query: PRESIGNED.replace(from, to),
        ..presigned()
    };
    let bad = Code::AuthorizationQueryParametersError;
    query("Expires=86400", "Expires=0").refused(bad);
    query("Expires=86400", "Expires=604801").refused(bad);
    query("Expires=86400", "Expires=-1").refused(bad);
    query("&X-Amz-Expires=86400", "").refused(bad);
    query("us-east-1", "eu-west-1").refused(bad);
    query("%2Fs3%2F", "%2Fsts%2F").refused(bad);
    query("Expires=86400", "Expires=86401").refused(Code::SignatureDoesNotMatch);
    query("X-Amz-Algorithm", "extra=1&X-Amz-Algorithm").refused(Code::SignatureDoesNotMatch);
    let post = Example {
        method: Method::PUT,
        ..presigned()
    };
    post.refused(Code::SignatureDoesNotMatch);
    presigned()
        .with("x-amz-copy-source", "/other/key")
        .refused(Code::AccessDenied);
    presigned()
        .with("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
        .refused(Code::AccessDenied);
    presigned()
        .with("authorization", "AWS4-HMAC-SHA256 x")
        .refused(Code::InvalidArgument);
}

#[test]
fn signed_parts_cannot_be_changed() {
    let example = get_object();
    let with_path = |path: &str| Example {
        path: path.into(),
        ..example.clone()
    };
    with_path("/test.tx").refused(Code::SignatureDoesNotMatch);
    with_path("/./test.txt").refused(Code::SignatureDoesNotMatch);
    with_path("//test.txt").refused(Code::SignatureDoesNotMatch);
    let mut other = example.clone();
    other.headers[2].1 = "bytes=0-10".into();
    other.refused(Code::SignatureDoesNotMatch);
    let mut other = example.clone();
    other.headers.remove(2);
    other.refused(Code::SignatureDoesNotMatch);
    let mut twice = example.clone();
    twice.headers.push(("range", "bytes=0-9".into()));
    twice.refused(Code::SignatureDoesNotMatch);
}

#[test]
fn every_amz_header_must_be_signed() {
    get_object()
        .with("x-amz-tagging", "a=b")
        .refused(Code::AccessDenied);
    Example::new(Method::GET, "/", "", EMPTY)
        .signed("x-amz-content-sha256;x-amz-date", &"0".repeat(64))
        .refused(Code::AccessDenied);
    get_object()
        .with("x-amz-security-token", "t")
        .refused(Code::AccessDenied);
}

#[test]
fn clock_may_differ_by_fifteen_minutes() {
    let at = |now_ms| Example {
        now_ms,
        ..get_object()
    };
    at(NOW_MS + 15 * 60_000).accepted();
    at(NOW_MS + 15 * 60_000 + 1).refused(Code::RequestTimeTooSkewed);
    at(NOW_MS - 15 * 60_000).accepted();
    at(NOW_MS - 15 * 60_000 - 1).refused(Code::RequestTimeTooSkewed);
}

#[test]
fn malformed_authorization_is_refused() {
    let scope = "20130524/us-east-1/s3/aws4_request";
    let malformed = |value: &str| {
        Example::new(Method::GET, "/", "", EMPTY)
            .with("authorization", value)
            .refused(Code::AuthorizationHeaderMalformed);
    };
    let sig = "0".repeat(64);
    let good = "SignedHeaders=host;x-amz-content-sha256;x-amz-date";
    malformed("AWS4-HMAC-SHA256");
    malformed(&format!("AWS4-HMAC-SHA256 Credential={ID}/{scope},{good}"));
    malformed(&format!(
        "AWS4-HMAC-SHA256 Credential={ID}/{scope},{good},Signature="
    ));
    malformed(&format!(
        "AWS4-HMAC-SHA256 Credential={scope},{good},Signature={sig}"
    ));
    for headers in ["host;", "Host", "x-amz-date;host", "host;host", ""] {
        malformed(&format!(
            "AWS4-HMAC-SHA256 Credential={ID}/{scope},SignedHeaders={headers},Signature={sig}"
        ));
    }
    for scope in [
        "20130525/us-east-1/s3/aws4_request",
        "20130524/eu-west-1/s3/aws4_request",
        "20130524/us-east-1/sts/aws4_request",
        "20130524/us-east-1/s3/aws4",
    ] {
        malformed(&format!(
            "AWS4-HMAC-SHA256 Credential={ID}/{scope},{good},Signature={sig}"
        ));
    }
    Example::new(Method::GET, "/", "", EMPTY)
        .with("authorization", format!("AWS {ID}:abc"))
        .refused(Code::InvalidRequest);
    let other = format!("AWS4-HMAC-SHA256 Credential=OTHER/{scope},{good},Signature={sig}");
    Example::new(Method::GET, "/", "", EMPTY)
        .with("authorization", other)
        .refused(Code::InvalidAccessKeyId);
    let mut anonymous = Example::new(Method::GET, "/", "", EMPTY);
    anonymous.headers.clear();
    assert!(anonymous.verify().unwrap().is_none());
}

#[test]
fn unknown_payload_names_are_refused() {
    let with = |text: &str| {
        Example::new(Method::GET, "/", "", text)
            .signed("host;x-amz-content-sha256;x-amz-date", &"0".repeat(64))
    };
    with("STREAMING-UNSIGNED-PAYLOAD-TRAILER").refused(Code::SignatureDoesNotMatch);
    with("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD").refused(Code::NotImplemented);
    with("garbage").refused(Code::InvalidArgument);
    with("").refused(Code::InvalidArgument);
}

/// A body of 65 KiB of `a`: one chunk of 64 KiB, one of 1 KiB, the end.
#[test]
fn chunk_signatures_form_a_chain() {
    let mut chunks = Example::new(
        Method::PUT,
        "/examplebucket/chunkObject.txt",
        "",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    )
    .host_is_not_virtual(
        "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    );
    let sha = |bytes: &[u8]| digest::digest(&digest::SHA256, bytes);
    let (first, second, last) = (sha(&[b'a'; 65536]), sha(&[b'a'; 1024]), sha(b""));
    assert!(!chunks.chunk(&second, CHUNKS[0]));
    assert!(chunks.chunk(&first, CHUNKS[0]));
    assert!(
        !chunks.chunk(&first, CHUNKS[0]),
        "a chunk cannot be replayed"
    );
    assert!(chunks.chunk(&second, CHUNKS[1]));
    assert!(chunks.chunk(&last, CHUNKS[2]));
}

const CHUNKS: [&str; 3] = [
    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
];

impl Example {
    /// The chunked example addresses the bucket in the path.
    fn host_is_not_virtual(self, signed: &str, signature: &str) -> super::ChunkSigner {
        let mut headers = HeaderMap::new();
        let mut add = |name: &'static str, value: &str| {
            headers.insert(name, HeaderValue::from_str(value).unwrap());
        };
        add("content-encoding", "aws-chunked");
        add("content-length", "66824");
        add("x-amz-decoded-content-length", "66560");
        add("x-amz-storage-class", "REDUCED_REDUNDANCY");
        for (name, value) in &self.clone().signed(signed, signature).headers {
            add(name, value);
        }
        let request = SignedParts {
            method: &self.method,
            path: &self.path,
            query: &Query::default(),
            headers: &headers,
            host: "s3.amazonaws.com",
        };
        let verified = Verifier::new("us-east-1", "s3").verify(&request, NOW_MS, &lookup);
        verified.unwrap().unwrap().chunks
    }
}

proptest! {
    #[test]
    fn noise_is_an_error_not_a_panic(
        authorization in "(AWS4-HMAC-SHA256 )?([A-Za-z=/,; 0-9]|Credential=|Signature=|SignedHeaders=){0,30}",
        query in "(X-Amz-Algorithm=AWS4-HMAC-SHA256&)?([a-zA-Z&=%+/-]|X-Amz-Date=|X-Amz-Credential=){0,30}",
        date in "[0-9TZ]{0,17}",
    ) {
        let mut example = Example::new(Method::GET, "/%zz", &query, EMPTY)
            .with("authorization", authorization);
        example.headers[1].1 = date;
        prop_assert!(!matches!(example.verify(), Ok(Some(_))));
    }
}

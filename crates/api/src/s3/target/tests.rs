use http::{HeaderMap, HeaderValue, Uri, Version};
use proptest::prelude::*;

use super::Target;
use crate::s3::error::{Code, S3Result};

fn parse(host: &str, uri: &str) -> S3Result<Target> {
    let uri: Uri = uri.parse().map_err(|_| Code::InvalidURI)?;
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_str(host).unwrap());
    let domains = ["s3.example.com".to_owned()];
    Target::of(&uri, &headers, Version::HTTP_11, &domains)
}

fn bucket_and_key(host: &str, uri: &str) -> (Option<String>, Option<String>) {
    let target = parse(host, uri).unwrap();
    (target.bucket, target.key)
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn s3_control_is_told_by_the_header_with_the_account() {
    let of = |host: &str, uri: &str, account: bool| {
        let uri: Uri = uri.parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_str(host).unwrap());
        if account {
            headers.insert("x-amz-account-id", HeaderValue::from_static("000000000000"));
        }
        let domains = ["s3.example.com".to_owned()];
        let target = Target::of(&uri, &headers, Version::HTTP_11, &domains)?;
        S3Result::Ok((target.control, target.bucket, target.key))
    };
    let tags = "/v20180820/tags/arn%3Aaws%3As3%3A%3A%3Aphotos";
    let control = Ok((true, some("photos"), None));
    assert_eq!(of("127.0.0.1:3900", tags, true), control);
    assert_eq!(of("000000000000.s3.example.com", tags, true), control);
    let plain = "/v20180820/tags/arn:aws:s3:::photos";
    assert_eq!(of("s3.example.com", plain, true), control);
    // Without the header they are keys of buckets.
    let (bucket, key) = (some("v20180820"), some("tags/arn:aws:s3:::photos"));
    assert_eq!(of("127.0.0.1", tags, false), Ok((false, bucket, key)));
    let (bucket, key) = (some("a"), some("v20180820/x"));
    assert_eq!(
        of("a.s3.example.com", "/v20180820/x", false),
        Ok((false, bucket, key))
    );
    assert_eq!(
        of("127.0.0.1", "/v20180820/jobs", true),
        Ok((true, None, None))
    );
    for arn in [
        "",
        "arn:aws:s3:::",
        "arn:aws:s3:::a/k",
        "arn:aws:s3:us-east-1:0:accesspoint/x",
    ] {
        let refused = of("127.0.0.1", &format!("/v20180820/tags/{arn}"), true);
        assert_eq!(
            refused.map_err(|error| error.code()),
            Err(Code::InvalidRequest),
            "{arn}"
        );
    }
}

#[test]
fn path_style() {
    let of = |uri| bucket_and_key("127.0.0.1:3900", uri);
    assert_eq!(of("/"), (None, None));
    assert_eq!(of("/b"), (some("b"), None));
    assert_eq!(of("/b/"), (some("b"), None));
    assert_eq!(of("/b/k"), (some("b"), some("k")));
    assert_eq!(of("/b//k/"), (some("b"), some("/k/")));
    assert_eq!(of("/b/../c"), (some("b"), some("../c")));
    assert_eq!(of("/b/a%2Fb+c%20d"), (some("b"), some("a/b+c d")));
    assert_eq!(of("/b%2Fk"), (some("b/k"), None));
}

#[test]
fn virtual_host_style() {
    assert_eq!(
        bucket_and_key("b.s3.example.com", "/k/l"),
        (some("b"), some("k/l"))
    );
    assert_eq!(
        bucket_and_key("B.S3.example.com:80", "/"),
        (some("b"), None)
    );
    assert_eq!(
        bucket_and_key("a.b.s3.example.com", "/k"),
        (some("a.b"), some("k"))
    );
    assert_eq!(
        bucket_and_key("s3.example.com", "/b/k"),
        (some("b"), some("k"))
    );
    assert_eq!(
        bucket_and_key("xs3.example.com", "/b/k"),
        (some("b"), some("k"))
    );
}

#[test]
fn refusals() {
    let code = |host, uri| parse(host, uri).map_err(|e| e.code()).err();
    assert_eq!(code("h", "/b/%zz"), Some(Code::InvalidURI));
    assert_eq!(code("h", "/b/%ff"), Some(Code::InvalidURI));
    assert_eq!(code("h", "//k"), Some(Code::InvalidURI));
    assert_eq!(code("a b", "/"), Some(Code::BadRequest));
    assert_eq!(code("", "/"), Some(Code::BadRequest));
    assert_eq!(code("h/x", "/"), Some(Code::BadRequest));
    let long = format!("/b/{}", "k".repeat(1025));
    assert_eq!(code("h", &long), Some(Code::KeyTooLongError));
    assert!(parse("h", &format!("/b/{}", "k".repeat(1024))).is_ok());
    let mut twice = HeaderMap::new();
    twice.append("host", HeaderValue::from_static("a"));
    twice.append("host", HeaderValue::from_static("a"));
    let uri = Uri::from_static("/");
    assert!(Target::of(&uri, &twice, Version::HTTP_11, &[]).is_err());
    assert!(Target::of(&uri, &HeaderMap::new(), Version::HTTP_11, &[]).is_err());
}

proptest! {
    #[test]
    fn noise_is_an_error_not_a_panic(host in "[ -~]{0,20}", path in "[!-~]{0,30}", query in "[!-~]{0,30}") {
        let _ = parse(&host, &format!("/{path}?{query}"));
    }
}

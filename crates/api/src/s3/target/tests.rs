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

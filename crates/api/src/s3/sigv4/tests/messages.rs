//! Errors help to find what a client did wrong.

use http::Method;

use super::{EMPTY, Example, ID, PRESIGNED, get_object, presigned};
use crate::s3::error::{Code, S3Error};

fn error(example: &Example) -> S3Error {
    match example.verify() {
        Ok(_) => panic!("the signature was accepted"),
        Err(error) => error,
    }
}

#[test]
fn a_wrong_region_is_named_where_it_stands() {
    let elsewhere = Example {
        query: PRESIGNED.replace("us-east-1", "eu-west-1"),
        ..presigned()
    };
    let why = "the region 'eu-west-1' is wrong; expecting 'us-east-1'";
    assert_eq!(
        error(&elsewhere).message(),
        format!("Error parsing the X-Amz-Credential parameter; {why}")
    );
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={ID}/20130524/eu-west-1/s3/aws4_request,\
         SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature={EMPTY}"
    );
    let elsewhere = Example::new(Method::GET, "/", "", EMPTY).with("authorization", authorization);
    assert_eq!(
        error(&elsewhere).message(),
        format!("The authorization header is malformed; {why}")
    );
}

#[test]
fn a_signed_header_that_is_missing_is_told_as_any_difference() {
    let names = |error: &S3Error| -> Vec<_> {
        assert_eq!(error.code(), Code::SignatureDoesNotMatch);
        error.details().iter().map(|(name, _)| *name).collect()
    };
    let mut changed = get_object();
    changed.headers[2].1 = "bytes=0-10".into();
    let mut missing = get_object();
    missing.headers.remove(2);
    assert_eq!(names(&error(&missing)), names(&error(&changed)));
    let error = error(&missing);
    let mut details = error.details().iter();
    let (_, request) = details
        .find(|(name, _)| *name == "CanonicalRequest")
        .unwrap();
    assert!(request.contains("\nrange:\n"), "{request}");
}

/// A signature of a header without a value is none of a request without the header.
#[test]
fn a_missing_header_is_not_an_empty_one() {
    let signed = "host;x-amz-content-sha256;x-amz-date;x-empty";
    let signature = "bbca73a03e0bff954f2d44e658089622d4a106f34d90c555d40262893ee9a992";
    let empty = Example::new(Method::GET, "/", "", EMPTY).signed(signed, signature);
    empty.clone().with("x-empty", "").accepted();
    empty.refused(Code::SignatureDoesNotMatch);
}

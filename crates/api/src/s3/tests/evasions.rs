//! A policy decides about the value that takes effect: no other spelling of it evades a denial.

use http::HeaderValue;

use super::client::{Endpoint, signed};
use super::objects::form;

const REDIRECT: &str = "x-amz-website-redirect-location";

/// Denies objects that redirect to another site, or are of another class.
const POLICY: &str = r#"{"Statement": [
    {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::bucket/*",
     "Condition": {"StringLike": {"s3:x-amz-website-redirect-location": "http*"}}},
    {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::bucket/*",
     "Condition": {"StringEquals": {"s3:x-amz-storage-class": "STANDARD_IA"}}}]}"#;

#[tokio::test]
async fn white_space_in_a_form_evades_no_policy() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket?policy", POLICY).await.ok();
    for value in [
        "https://a.example",
        " https://a.example",
        "https://a.example\t",
    ] {
        let fields = [("key", "up/k"), (REDIRECT, value)];
        let condition = format!(",[\"starts-with\",\"${REDIRECT}\",\"\"]");
        let reply = s3.send(form(&s3, &fields, &condition, "x")).await;
        reply.is(403, "AccessDenied");
    }
    let fields = [("key", "up/k"), (REDIRECT, " /here ")];
    let condition = format!(",[\"starts-with\",\"${REDIRECT}\",\"\"]");
    assert_eq!(
        s3.send(form(&s3, &fields, &condition, "x")).await.status,
        204
    );
    let head = s3.call("HEAD", "/bucket/up/k", &[], "").await.ok();
    assert_eq!(head.header(REDIRECT), "/here");
}

#[tokio::test]
async fn a_repeated_header_evades_no_policy() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket?policy", POLICY).await.ok();
    let class = "x-amz-storage-class";
    let once = [(REDIRECT, "https://a.example")];
    s3.call("PUT", "/bucket/k", &once, "x")
        .await
        .is(403, "AccessDenied");
    for (name, values) in [
        (REDIRECT, ["", "https://a.example"]),
        (REDIRECT, ["/here", "https://a.example"]),
        (class, ["", "STANDARD_IA"]),
        ("x-amz-acl", ["private", "public-read"]),
    ] {
        for (method, path) in [("PUT", "/bucket/k"), ("POST", "/bucket/k?uploads")] {
            // Signatures take the values together.
            let joined = values.join(",");
            let mut request = signed(&s3.key, method, path, &[(name, &joined)], "x".into());
            request.headers_mut().remove(name);
            for value in values {
                let value = HeaderValue::from_static(value);
                request.headers_mut().append(name, value);
            }
            let reply = s3.send(request).await;
            reply.is(400, "InvalidArgument");
        }
    }
    s3.get("/bucket/k").await.is(404, "NoSuchKey");
}

#[tokio::test]
async fn a_header_that_is_not_ascii_evades_no_policy() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket?policy", POLICY).await.ok();
    let headers = [(REDIRECT, "https://a.example/\u{e9}")];
    let reply = s3.call("PUT", "/bucket/k", &headers, "x").await;
    reply.is(400, "InvalidArgument");
    let fields = [("key", "up/k"), headers[0]];
    let condition = format!(",[\"starts-with\",\"${REDIRECT}\",\"\"]");
    let reply = s3.send(form(&s3, &fields, &condition, "x")).await;
    reply.is(400, "InvalidArgument");
}

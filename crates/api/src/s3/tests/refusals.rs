use archipel_model::Permissions;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use proptest::prelude::*;

use super::client::{Endpoint, chunk_signature, presigned, signed};

/// Each operation needs exactly its own permission.
#[tokio::test]
async fn operation_needs_exactly_its_own_permission() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "kept").await.ok();
    let table = [
        ("GET", "/bucket/k", 'r'),
        ("HEAD", "/bucket/k", 'r'),
        ("GET", "/bucket?list-type=2", 'r'),
        ("GET", "/bucket?uploads", 'r'),
        ("PUT", "/bucket/new", 'w'),
        ("DELETE", "/bucket/new", 'w'),
        ("POST", "/bucket/new?uploads", 'w'),
        ("GET", "/bucket/k?tagging", 'r'),
        ("DELETE", "/bucket/k?tagging", 'w'),
        ("GET", "/bucket?tagging", 'o'),
        ("GET", "/bucket?cors", 'o'),
        ("DELETE", "/bucket?cors", 'o'),
    ];
    for granted in ["", "r", "w", "o", "rw", "rwo"] {
        let has = |c| granted.contains(c);
        let permissions = Permissions {
            read: has('r'),
            write: has('w'),
            owner: has('o'),
        };
        let key = s3.key_with(permissions).await;
        for (method, path, needed) in table {
            let reply = s3.send(signed(&key, method, path, &[], Bytes::new())).await;
            let allowed = reply.status != 403;
            assert_eq!(
                allowed,
                has(needed),
                "{granted}: {method} {path} {}",
                reply.text()
            );
        }
    }
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
}

/// Reading the source of a copy needs its own permission.
#[tokio::test]
async fn copies_need_both_permissions() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "secret").await.ok();
    let other = s3.model.create_owner_key("thief").await.unwrap();
    s3.model
        .create_bucket("thiefs", Some(&other.id))
        .await
        .unwrap();
    let copy = [("x-amz-copy-source", "bucket/k")];
    let reply = s3
        .send(signed(&other, "PUT", "/thiefs/k", &copy, Bytes::new()))
        .await;
    reply.is(403, "AccessDenied");
    s3.send(signed(&other, "GET", "/bucket/k", &[], Bytes::new()))
        .await
        .is(403, "AccessDenied");
    let listed = s3
        .send(signed(&other, "GET", "/", &[], Bytes::new()))
        .await
        .ok();
    assert_eq!(listed.text().matches("<Bucket>").count(), 1);
}

#[tokio::test]
async fn anonymous_requests_learn_nothing() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "x").await.ok();
    let paths = [
        "/",
        "/bucket",
        "/bucket/k",
        "/bucket/none",
        "/none",
        "/bucket/k?uploads",
    ];
    for path in paths {
        for method in ["GET", "PUT", "DELETE", "POST"] {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("host", "h");
            let reply = s3.send(request.body(Full::default()).unwrap()).await;
            match (method, path) {
                // A body that is no form is refused before anything is looked up.
                ("POST", "/bucket" | "/none") => reply.is(412, "PreconditionFailed"),
                _ => reply.is(403, "AccessDenied"),
            };
        }
    }
}

/// A presigned URL does what was signed and nothing else.
#[tokio::test]
async fn presigned_urls_cannot_be_widened() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/secret", "secret").await.ok();
    let url = presigned(&s3.key, "PUT", "/bucket/k");
    let request = |header: Option<(&str, &str)>| {
        let mut request = Request::put(&url)
            .header("host", "127.0.0.1")
            .header("content-length", 1);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        request.body(Full::from("x")).unwrap()
    };
    let copy = ("x-amz-copy-source", "/bucket/secret");
    s3.send(request(Some(copy))).await.is(403, "AccessDenied");
    s3.get("/bucket/k").await.is(404, "NoSuchKey");
    s3.send(request(None)).await.ok();
    s3.clock.advance(61_000);
    s3.send(request(None)).await.is(403, "AccessDenied");
}

/// A wrong body leaves the object unchanged.
#[tokio::test]
async fn wrong_bodies_change_nothing() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "kept").await.ok();
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")], "BadDigest"),
        (&[("x-amz-checksum-crc32", "AAAAAA==")], "BadDigest"),
        (
            &[("x-amz-content-sha256", &"0".repeat(64))],
            "XAmzContentSHA256Mismatch",
        ),
        (&[("x-amz-checksum-sha1", "AAAA")], "InvalidRequest"),
    ];
    for (headers, code) in cases {
        s3.call("PUT", "/bucket/k", headers, "new")
            .await
            .is(400, code);
    }
    let mut short = signed(&s3.key, "PUT", "/bucket/k", &[], "new".into());
    short.headers_mut().insert("content-length", 4.into());
    s3.send(short).await.is(400, "IncompleteBody");
    let mut unknown = signed(&s3.key, "PUT", "/bucket/k", &[], "new".into());
    unknown.headers_mut().remove("content-length");
    s3.send(unknown).await.is(411, "MissingContentLength");
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
}

#[tokio::test]
async fn forged_chunks_change_nothing() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "kept").await.ok();
    let headers = [
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        ("x-amz-decoded-content-length", "3"),
    ];
    let send = |tampered: bool| {
        let seed = signed(&s3.key, "PUT", "/bucket/k", &headers, Bytes::new());
        let authorization = seed.headers()["authorization"].to_str().unwrap();
        let previous = authorization.rsplit_once("Signature=").unwrap().1;
        let first = chunk_signature(&s3.key, previous, b"new");
        let last = chunk_signature(&s3.key, &first, b"");
        let content = if tampered { "bad" } else { "new" };
        let body =
            format!("3;chunk-signature={first}\r\n{content}\r\n0;chunk-signature={last}\r\n\r\n");
        signed(&s3.key, "PUT", "/bucket/k", &headers, body.into())
    };
    s3.send(send(true)).await.is(403, "SignatureDoesNotMatch");
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
    s3.send(send(false)).await.ok();
    assert_eq!(s3.get("/bucket/k").await.text(), "new");
}

#[tokio::test]
async fn missing_features_answer_not_implemented() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "kept").await.ok();
    for (path, has) in [
        ("/bucket?session", ["GET"].as_slice()),
        ("/bucket/k?torrent", &["GET"]),
    ] {
        for method in ["GET", "PUT", "DELETE"] {
            let (status, code) = match has.contains(&method) {
                true => (501, "NotImplemented"),
                false => (405, "MethodNotAllowed"),
            };
            s3.call(method, path, &[], "").await.is(status, code);
        }
    }
    for method in ["PUT", "DELETE"] {
        s3.call(method, "/bucket?unheard-of", &[], "")
            .await
            .is(501, "NotImplemented");
    }
    let reply = s3.call("PUT", "/bucket?replication", &[], "").await;
    reply.is(501, "NotImplemented");
    let encrypted = [("x-amz-server-side-encryption", "aws:kms")];
    s3.call("PUT", "/bucket/k", &encrypted, "new")
        .await
        .is(501, "NotImplemented");
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
    let versioning = s3.get("/bucket?versioning").await.ok();
    assert!(!versioning.text().contains("Status"));
}

/// A write makes a version; it cannot name one.
#[tokio::test]
async fn writes_name_no_version() {
    let s3 = Endpoint::open().await;
    let copy = [("x-amz-copy-source", "bucket/k")];
    for (method, path, headers) in [
        ("PUT", "/bucket/k?versionId=null", &[][..]),
        ("PUT", "/bucket/k?versionId=null", &copy),
        ("POST", "/bucket/k?uploads&versionId=null", &[]),
        (
            "PUT",
            "/bucket/k?partNumber=1&uploadId=x&versionId=null",
            &[],
        ),
    ] {
        let reply = s3.call(method, path, headers, "").await;
        reply.is(400, "InvalidArgument");
    }
    s3.get("/bucket/k").await.is(404, "NoSuchKey");
}

#[tokio::test]
async fn impossible_settings_of_a_new_bucket_are_refused() {
    let s3 = Endpoint::open().await;
    for (namespace, status, code) in [
        ("account-regional", 501, "NotImplemented"),
        ("bogus", 400, "InvalidArgument"),
    ] {
        let namespace = [("x-amz-bucket-namespace", namespace)];
        let refused = s3.call("PUT", "/other", &namespace, "").await;
        refused.is(status, code);
    }
    let global = [("x-amz-bucket-namespace", "global")];
    s3.call("PUT", "/other", &global, "").await.ok();
    s3.call("PUT", "/other-an", &[], "")
        .await
        .is(400, "InvalidBucketName");
    let elsewhere = s3.get("/?bucket-region=eu-west-1").await;
    elsewhere.is(400, "InvalidArgument");
    s3.get("/?bucket-region=us-east-1").await.ok();
}

#[tokio::test]
async fn errors_name_their_request() {
    let s3 = Endpoint::open().await;
    let reply = s3.get("/bucket/<missing>").await;
    reply.is(404, "NoSuchKey");
    assert_eq!(
        reply.element("RequestId").unwrap(),
        reply.header("x-amz-request-id")
    );
    assert_eq!(reply.element("HostId").unwrap(), reply.header("x-amz-id-2"));
    assert_eq!(reply.element("Key").unwrap(), "&lt;missing&gt;");
    let head = s3.call("HEAD", "/bucket/missing", &[], "").await;
    assert_eq!((head.status.as_u16(), head.body.len()), (404, 0));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &s3.registry).unwrap();
    assert!(
        text.contains("s3_requests_total{operation=\"GetObject\",status=\"404\"} 1"),
        "{text}"
    );
    assert!(text.contains("s3_requests_in_flight 0"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// No signed request of an owner makes the server fail.
    #[test]
    fn no_request_is_an_internal_error(
        method in prop::sample::select(vec!["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"]),
        path in "/(bucket(/[a-z/. ]{0,5})?)?",
        query in "((acl|delete|policy|policyStatus|publicAccessBlock|ownershipControls|requestPayment|tagging|uploads|uploadId|partNumber|cors|list-type|max-keys|prefix|versionId|attributes|encoding-type|x)(=[a-z0-9-]{0,4})?&){0,3}",
        header in prop::sample::select(vec![
            "range", "if-match", "if-none-match", "x-amz-copy-source", "x-amz-checksum-crc32", "content-md5",
            "x-amz-trailer", "x-amz-content-sha256", "origin", "x-amz-copy-source-range", "x-amz-object-attributes",
            "x-amz-acl", "x-amz-object-ownership", "x-amz-expected-bucket-owner",
        ]),
        value in "[a-zA-Z0-9=/*\"-]{0,12}",
        body in "((<(AccessControlPolicy|OwnershipControls|PublicAccessBlockConfiguration|Delete|Tagging|CORSConfiguration|CompleteMultipartUpload)>)?[a-zA-Z<>/&;]{0,20})|([{]\"Statement\": [{\\[][a-zA-Z\":{}]{0,20})",
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let s3 = Endpoint::open().await;
            let path = format!("{path}?{query}");
            let reply = s3.call(method, &path, &[(header, &value)], body).await;
            prop_assert!(reply.status.as_u16() < 500 || reply.status == 501, "{}", reply.text());
            Ok(())
        })?;
    }
}

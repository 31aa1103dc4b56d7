use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use super::client::{Endpoint, Reply, presigned, presigned_with};

/// SHA-256 of `new`, in base64.
const NEW_SHA256: &str = "EVB6Di9eadXfpApiob17buV+a82FxnybhDGzb/8hxDc=";

impl Endpoint {
    /// Sends a request that is presigned with these parameters.
    async fn presigned(&self, method: &str, path: &str, body: &'static str) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(presigned(&self.key, method, path))
            .header("host", "127.0.0.1")
            .header("content-length", body.len());
        let body = Full::new(Bytes::from_static(body.as_bytes()));
        self.send(request.body(body).unwrap()).await
    }
}

async fn endpoint_with_kept() -> Endpoint {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "kept").await.ok();
    s3
}

#[tokio::test]
async fn copy_source_in_a_presigned_query_copies() {
    let s3 = endpoint_with_kept().await;
    for (name, target) in [("x-amz-copy-source", "one"), ("X-Amz-Copy-Source", "two")] {
        let path = format!("/bucket/{target}?{name}=bucket%2Fk");
        let reply = s3.presigned("PUT", &path, "").await.ok();
        assert!(
            reply.text().contains("<CopyObjectResult"),
            "{}",
            reply.text()
        );
        let copied = s3.get(&format!("/bucket/{target}")).await;
        assert_eq!(copied.text(), "kept");
    }
}

#[tokio::test]
async fn part_is_copied_by_a_presigned_query() {
    let s3 = endpoint_with_kept().await;
    let begun = s3.call("POST", "/bucket/m?uploads", &[], "").await.ok();
    let id = begun.element("UploadId").unwrap();
    let path = format!(
        "/bucket/m?uploadId={id}&partNumber=1&x-amz-copy-source=bucket%2Fk\
         &x-amz-copy-source-range=bytes%3D1-2"
    );
    let reply = s3.presigned("PUT", &path, "").await.ok();
    assert!(reply.text().contains("<CopyPartResult"), "{}", reply.text());
    let parts = s3.get(&format!("/bucket/m?uploadId={id}")).await.ok();
    assert_eq!(parts.element("Size").unwrap(), "2");
}

#[tokio::test]
async fn metadata_and_class_in_a_presigned_query_are_kept() {
    let s3 = endpoint_with_kept().await;
    let path = "/bucket/k?X-Amz-Meta-Colour=blue+green&x-amz-storage-class=STANDARD_IA";
    s3.presigned("PUT", path, "new").await.ok();
    let head = s3.call("HEAD", "/bucket/k", &[], "").await.ok();
    assert_eq!(head.header("x-amz-meta-colour"), "blue green");
    assert_eq!(head.header("x-amz-storage-class"), "STANDARD_IA");
    let path = "/bucket/k?x-amz-storage-class=NONE";
    s3.presigned("PUT", path, "new")
        .await
        .is(400, "InvalidStorageClass");
}

#[tokio::test]
async fn checksum_in_a_presigned_query_must_match_the_body() {
    let s3 = endpoint_with_kept().await;
    let path = format!("/bucket/k?X-Amz-Checksum-Sha256={}", encoded(NEW_SHA256));
    s3.presigned("PUT", &path, "bad").await.is(400, "BadDigest");
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
    s3.presigned("PUT", &path, "new").await.ok();
    let mode = "/bucket/k?x-amz-checksum-mode=ENABLED";
    let got = s3.presigned("GET", mode, "").await.ok();
    assert_eq!(
        (got.text().as_str(), got.header("x-amz-checksum-sha256")),
        ("new", NEW_SHA256)
    );
}

/// The JavaScript SDK presigns an upload whose body it does not know with the CRC of no bytes.
#[tokio::test]
async fn checksum_of_nothing_in_a_presigned_query_is_no_claim() {
    let s3 = endpoint_with_kept().await;
    let path = "/bucket/k?x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32\
                &x-id=PutObject&x-amz-user-agent=sdk";
    s3.presigned("PUT", path, "new").await.ok();
    assert_eq!(s3.get("/bucket/k").await.text(), "new");
}

#[tokio::test]
async fn presigned_query_is_refused_as_the_header_is() {
    let s3 = endpoint_with_kept().await;
    for list in [
        "x-amz-acl=public-read",
        "X-Amz-Acl=public-read",
        "x-amz-grant-read-acp=uri%3Dhttp%3A%2F%2Facs.amazonaws.com%2Fgroups%2Fglobal%2FAllUsers",
    ] {
        let reply = s3
            .presigned("PUT", &format!("/bucket/k?{list}"), "new")
            .await;
        reply.is(400, "AccessControlListNotSupported");
    }
    for refused in [
        "x-amz-server-side-encryption=aws:kms",
        "x-amz-bypass-governance-retention=true",
        "x-amz-write-offset-bytes=5",
    ] {
        let path = format!("/bucket/k?{refused}");
        let reply = s3.presigned("PUT", &path, "new").await;
        reply.is(501, "NotImplemented");
        s3.call("PUT", &path, &[], "new")
            .await
            .is(501, "NotImplemented");
    }
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
    let private = "/bucket/k?x-amz-acl=private&x-amz-tagging=";
    s3.presigned("PUT", private, "new").await.ok();
}

#[tokio::test]
async fn owner_in_a_presigned_query_is_checked() {
    let s3 = endpoint_with_kept().await;
    let no_owner = "/bucket/k?x-amz-expected-bucket-owner=nobody";
    s3.presigned("GET", no_owner, "")
        .await
        .is(400, "InvalidBucketOwnerAWSAccountID");
    let path = "/bucket/k?x-amz-expected-bucket-owner=123456789012";
    s3.presigned("GET", path, "").await.is(403, "AccessDenied");
    s3.presigned("PUT", path, "new")
        .await
        .is(403, "AccessDenied");
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
}

#[tokio::test]
async fn header_and_query_that_differ_are_refused() {
    let s3 = endpoint_with_kept().await;
    let path = "/bucket/k?x-amz-meta-a=1";
    let same = [("x-amz-meta-a", "1")];
    s3.call("PUT", path, &same, "new").await.ok();
    let other = [("x-amz-meta-a", "2")];
    let refused = s3.call("PUT", path, &other, "newer").await;
    refused.is(400, "InvalidRequest");
    assert_eq!(refused.element("ArgumentName").unwrap(), "x-amz-meta-a");
    let why = "Conflicting values provided in HTTP headers and query parameters.";
    assert_eq!(refused.element("Message").unwrap(), why);
    let twice = "/bucket/k?x-amz-meta-a=1&X-Amz-Meta-A=2";
    s3.presigned("PUT", twice, "newer")
        .await
        .is(400, "InvalidRequest");
    assert_eq!(s3.get("/bucket/k").await.text(), "new");
}

#[tokio::test]
async fn parameters_that_no_header_can_carry_are_refused() {
    let s3 = endpoint_with_kept().await;
    for bad in [
        "x-amz-meta-a=1%0D%0Ax-b:2",
        "x-amz-meta-%C3%BC=1",
        "x-amz-meta-a%20b=1",
    ] {
        let path = format!("/bucket/k?{bad}");
        s3.presigned("PUT", &path, "new")
            .await
            .is(400, "InvalidArgument");
    }
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
}

/// The signature's own parameters are read by name, in any case.
#[tokio::test]
async fn payload_hash_and_token_count_in_any_case() {
    let s3 = endpoint_with_kept().await;
    for name in ["X-Amz-Security-Token", "x-amz-security-token"] {
        let path = format!("/bucket/k?{name}=t");
        s3.presigned("GET", &path, "").await.is(400, "InvalidToken");
    }
    let path = format!("/bucket/k?x-amz-content-sha256={}", "0".repeat(64));
    s3.presigned("PUT", &path, "new")
        .await
        .is(403, "SignatureDoesNotMatch");
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
}

#[tokio::test]
async fn payload_hashes_and_tokens_that_differ_are_refused() {
    let s3 = endpoint_with_kept().await;
    let send = |name: &'static str, path: &str, sent: &'static str| {
        let uri = presigned_with(&s3.key, "PUT", path, &[(name, sent)]);
        let request = Request::put(uri)
            .header("host", "127.0.0.1")
            .header("content-length", 3)
            .header(name, sent);
        s3.send(request.body(Full::from("new")).unwrap())
    };
    let hash = "x-amz-content-sha256";
    let path = format!("/bucket/k?{hash}={}", "0".repeat(64));
    let refused = send(hash, &path, "UNSIGNED-PAYLOAD").await;
    refused.is(400, "InvalidRequest");
    let token = "x-amz-security-token";
    let refused = send(token, &format!("/bucket/k?{token}=a"), "b").await;
    refused.is(400, "InvalidRequest");
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
}

/// Nothing is read from a query that nobody signed.
#[tokio::test]
async fn parameters_added_to_a_presigned_url_do_nothing() {
    let s3 = endpoint_with_kept().await;
    let url = presigned(&s3.key, "PUT", "/bucket/new");
    for added in [
        "x-amz-copy-source=bucket%2Fk",
        "x-amz-meta-%C3%BC=1",
        "x-amz-acl=public-read",
    ] {
        let request = Request::put(format!("{url}&{added}"))
            .header("host", "127.0.0.1")
            .header("content-length", 0);
        let reply = s3.send(request.body(Full::default()).unwrap()).await;
        reply.is(403, "SignatureDoesNotMatch");
    }
    s3.get("/bucket/new").await.is(404, "NoSuchKey");
}

fn encoded(text: &str) -> String {
    crate::s3::uri::encode(text)
}

/// The old SDK for JavaScript signs headers and puts them into the query as well. The request may
/// have them or not.
#[tokio::test]
async fn a_signed_header_may_be_in_the_query_alone() {
    let s3 = Endpoint::open().await;
    let name = "x-amz-meta-q";
    let send = |query: &str, signed: &str, sent: &[&str]| {
        let path = format!("/bucket/k?{query}");
        let uri = presigned_with(&s3.key, "PUT", &path, &[(name, signed)]);
        let mut request = Request::put(uri)
            .header("host", "127.0.0.1")
            .header("content-length", 1);
        for value in sent {
            request = request.header(name, *value);
        }
        s3.send(request.body(Full::from("x")).unwrap())
    };
    let signed = "x-amz-meta-q=one";
    send(signed, "one", &[]).await.ok();
    let head = s3.call("HEAD", "/bucket/k", &[], "").await.ok();
    assert_eq!(head.header(name), "one");
    send(signed, "one", &["one"]).await.ok();
    for (query, signed, sent) in [
        (signed, "two", &[][..]),
        (signed, "one", &["two"]),
        ("", "one", &[]),
        ("", "", &[]),
        ("x-amz-meta-q=one&x-amz-meta-q=one", "one", &[]),
    ] {
        let reply = send(query, signed, sent).await;
        assert_eq!(reply.status, 403, "{query} {signed} {sent:?}");
    }
}

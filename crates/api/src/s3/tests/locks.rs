//! Object lock on buckets that have none.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use super::client::Endpoint;

const HOLD: (&str, &str) = ("x-amz-object-lock-legal-hold", "ON");
/// The MD5 of the content `x`.
const MD5_OF_X: (&str, &str) = ("content-md5", "ndTkYSaMgDT1yFZOFVxnpg==");

#[tokio::test]
async fn a_bucket_without_object_lock_protects_nothing_and_says_so() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "x").await.ok();
    s3.get("/bucket?object-lock")
        .await
        .is(404, "ObjectLockConfigurationNotFoundError");
    for path in ["/bucket/k?retention", "/bucket/k?legal-hold"] {
        s3.get(path).await.is(400, "InvalidRequest");
        let put = s3.call("PUT", path, &[], "<LegalHold/>").await;
        put.is(400, "InvalidRequest");
    }
    for headers in [&[HOLD][..], &[HOLD, MD5_OF_X]] {
        let put = s3.call("PUT", "/bucket/new", headers, "x").await;
        put.is(400, "InvalidRequest");
    }
    let begun = s3.call("POST", "/bucket/new?uploads", &[HOLD], "").await;
    begun.is(400, "InvalidRequest");
    s3.get("/bucket/new").await.is(404, "NoSuchKey");
}

/// Headers that protect data are never accepted and ignored.
#[tokio::test]
async fn headers_about_object_lock_are_refused_where_they_mean_nothing() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "x").await.ok();
    let bypass = ("x-amz-bypass-governance-retention", "true");
    let enabled = ("x-amz-bucket-object-lock-enabled", "true");
    for (method, path, header) in [
        ("GET", "/bucket/k", HOLD),
        ("DELETE", "/bucket/k", HOLD),
        ("PUT", "/bucket/k", bypass),
        ("PUT", "/bucket/k", enabled),
        ("GET", "/bucket", bypass),
    ] {
        let reply = s3.call(method, path, &[header], "").await;
        reply.is(501, "NotImplemented");
    }
    // A bypass that nothing needs changes nothing.
    let deleted = s3.call("DELETE", "/bucket/k", &[bypass], "").await;
    assert_eq!(deleted.status, 204);
}

/// Object lock stays for good, so an empty document must not enable it.
#[tokio::test]
async fn a_document_that_does_not_name_object_lock_is_refused() {
    let s3 = Endpoint::open().await;
    let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    s3.call("PUT", "/bucket?versioning", &[], on).await.ok();
    for document in [
        "<ObjectLockConfiguration/>",
        "<ObjectLockConfiguration><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days>\
         </DefaultRetention></Rule></ObjectLockConfiguration>",
    ] {
        let md5 = STANDARD.encode(Md5::digest(document));
        let md5 = [("content-md5", md5.as_str())];
        let set = s3.call("PUT", "/bucket?object-lock", &md5, document).await;
        set.is(400, "MalformedXML");
    }
    let lock = s3.get("/bucket?object-lock").await;
    lock.is(404, "ObjectLockConfigurationNotFoundError");
}

/// As PutObject: what is protected for long must be what the client meant.
#[tokio::test]
async fn parts_of_protected_objects_need_a_checksum() {
    let s3 = Endpoint::open().await;
    let enabled = [("x-amz-bucket-object-lock-enabled", "true")];
    s3.call("PUT", "/locked", &enabled, "").await.ok();
    let begin = async |headers: &[(&str, &str)]| {
        let begun = s3.call("POST", "/locked/k?uploads", headers, "").await;
        let id = begun.ok().element("UploadId").unwrap();
        format!("/locked/k?partNumber=1&uploadId={id}")
    };
    let check = async |path: &str| {
        let refused = s3.put(path, "x").await;
        refused.is(400, "InvalidRequest");
        let why = "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Part requests \
                   with Object Lock parameters";
        assert_eq!(refused.element("Message").unwrap(), why);
        s3.call("PUT", path, &[MD5_OF_X], "x").await.ok();
        let crc = [("x-amz-checksum-crc32", "jNwWgw==")];
        s3.call("PUT", path, &crc, "x").await.ok();
        let trailer = [
            ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
            ("x-amz-decoded-content-length", "1"),
            ("x-amz-trailer", "x-amz-checksum-crc32"),
        ];
        let body = "1\r\nx\r\n0\r\nx-amz-checksum-crc32:jNwWgw==\r\n\r\n";
        s3.call("PUT", path, &trailer, body).await.ok();
    };
    s3.put(&begin(&[]).await, "x").await.ok();
    check(&begin(&[HOLD]).await).await;
    let rule = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>\
        <Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>\
        </ObjectLockConfiguration>";
    let md5 = STANDARD.encode(Md5::digest(rule));
    let md5 = [("content-md5", md5.as_str())];
    s3.call("PUT", "/locked?object-lock", &md5, rule).await.ok();
    check(&begin(&[]).await).await;
}

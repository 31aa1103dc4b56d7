use archipel_model::Permissions;
use bytes::Bytes;

use super::client::{Endpoint, signed};

type Headers<'a> = &'a [(&'a str, &'a str)];

/// SHA-256 of `x`.
const X_SHA256: &str = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

/// An access key's id is half of a credential: a client that may read a bucket does not learn it.
#[tokio::test]
async fn documents_name_owners_by_an_opaque_id() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "x").await.ok();
    let begun = s3.call("POST", "/bucket/m?uploads", &[], "").await.ok();
    let id = begun.element("UploadId").unwrap();
    let reader = s3
        .key_with(Permissions {
            read: true,
            write: true,
            owner: false,
        })
        .await;
    let parts = format!("/bucket/m?uploadId={id}");
    let mut owners = Vec::new();
    for path in [
        "/bucket",
        "/bucket?list-type=2&fetch-owner=true",
        "/bucket?uploads",
        &parts,
    ] {
        let request = signed(&reader, "GET", path, &[], Bytes::new());
        let reply = s3.send(request).await.ok();
        let text = reply.text();
        assert!(!text.contains(&s3.key.id), "{text}");
        assert!(!text.contains(&s3.key.name), "{text}");
        owners.push(reply.element("ID").unwrap());
        assert_eq!(reply.element("DisplayName"), reply.element("ID"));
    }
    owners.push(s3.get("/").await.ok().element("ID").unwrap());
    let is_canonical = |id: &String| id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(
        owners.iter().all(|id| is_canonical(id) && *id == owners[0]),
        "{owners:?}"
    );
    let readers = signed(&reader, "GET", "/", &[], Bytes::new());
    let of_reader = s3.send(readers).await.ok().element("ID").unwrap();
    assert_ne!(of_reader, owners[0]);

    for (expected, status) in [(&owners[0], 200), (&s3.key.id, 200), (&of_reader, 403)] {
        let owner = [("x-amz-expected-bucket-owner", expected.as_str())];
        let reply = s3.call("GET", "/bucket/k", &owner, "").await;
        assert_eq!(reply.status, status, "{expected}");
    }
}

#[tokio::test]
async fn signed_hash_is_checked_for_requests_without_a_body() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "kept").await.ok();
    let of_x = [("x-amz-content-sha256", X_SHA256)];
    let copy = [of_x[0], ("x-amz-copy-source", "bucket/k")];
    let table: [(&str, &str, Headers<'_>); 8] = [
        ("GET", "/", &of_x),
        ("GET", "/bucket?list-type=2", &of_x),
        ("GET", "/bucket/k", &of_x),
        ("DELETE", "/bucket/k", &of_x),
        ("DELETE", "/bucket", &of_x),
        ("DELETE", "/bucket?cors", &of_x),
        ("POST", "/bucket/k?uploads", &of_x),
        ("PUT", "/bucket/copy", &copy),
    ];
    for (method, path, headers) in table {
        let reply = s3.call(method, path, headers, "").await;
        reply.is(400, "XAmzContentSHA256Mismatch");
    }
    let head = s3.call("HEAD", "/bucket/k", &of_x, "").await;
    assert_eq!(head.status, 400);
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
    s3.get("/bucket/copy").await.is(404, "NoSuchKey");
    let uploads = s3.get("/bucket?uploads").await.ok();
    assert!(!uploads.text().contains("<Upload>"), "{}", uploads.text());
}

#[tokio::test]
async fn body_that_no_operation_reads_must_match_its_hash_too() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "kept").await.ok();
    s3.call("GET", "/bucket/k", &[], "x").await.ok();
    let mut swapped = signed(&s3.key, "DELETE", "/bucket/k", &[], "x".into());
    *swapped.body_mut() = Bytes::from_static(b"y").into();
    s3.send(swapped).await.is(400, "XAmzContentSHA256Mismatch");
    let large = vec![0; 65 << 10];
    s3.call("DELETE", "/bucket/k", &[], large)
        .await
        .is(400, "MaxMessageLengthExceeded");
    assert_eq!(s3.get("/bucket/k").await.text(), "kept");
    let unsigned = [("x-amz-content-sha256", "UNSIGNED-PAYLOAD")];
    s3.call("DELETE", "/bucket/k", &unsigned, "x").await.ok();
}

/// Browsers must not guess at documents that hold names from clients. An object always has a type;
/// `nosniff` would keep browsers from running scripts that were stored without one.
#[tokio::test]
async fn documents_forbid_sniffing_and_objects_do_not() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "x").await.ok();
    let name = "x-content-type-options";
    for path in ["/", "/bucket", "/bucket?list-type=2", "/bucket/missing"] {
        assert_eq!(s3.get(path).await.header(name), "nosniff", "{path}");
    }
    let object = s3.get("/bucket/k").await.ok();
    assert_eq!(
        (object.header(name), object.header("content-type")),
        ("", "binary/octet-stream")
    );
}

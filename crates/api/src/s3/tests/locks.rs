//! Object lock on buckets that have none.

use super::client::Door;

const HOLD: (&str, &str) = ("x-amz-object-lock-legal-hold", "ON");
/// The MD5 of the content `x`.
const MD5_OF_X: (&str, &str) = ("content-md5", "ndTkYSaMgDT1yFZOFVxnpg==");

#[tokio::test]
async fn a_bucket_without_object_lock_protects_nothing_and_says_so() {
    let door = Door::open().await;
    door.put("/bucket/k", "x").await.ok();
    door.get("/bucket?object-lock")
        .await
        .is(404, "ObjectLockConfigurationNotFoundError");
    for path in ["/bucket/k?retention", "/bucket/k?legal-hold"] {
        door.get(path).await.is(400, "InvalidRequest");
        let put = door.call("PUT", path, &[], "<LegalHold/>").await;
        put.is(400, "InvalidRequest");
    }
    for headers in [&[HOLD][..], &[HOLD, MD5_OF_X]] {
        let put = door.call("PUT", "/bucket/new", headers, "x").await;
        put.is(400, "InvalidRequest");
    }
    let begun = door.call("POST", "/bucket/new?uploads", &[HOLD], "").await;
    begun.is(400, "InvalidRequest");
    door.get("/bucket/new").await.is(404, "NoSuchKey");
}

/// What carries safety is never accepted and ignored.
#[tokio::test]
async fn headers_about_object_lock_are_refused_where_they_mean_nothing() {
    let door = Door::open().await;
    door.put("/bucket/k", "x").await.ok();
    let bypass = ("x-amz-bypass-governance-retention", "true");
    let enabled = ("x-amz-bucket-object-lock-enabled", "true");
    for (method, path, header) in [
        ("GET", "/bucket/k", HOLD),
        ("DELETE", "/bucket/k", HOLD),
        ("PUT", "/bucket/k", bypass),
        ("PUT", "/bucket/k", enabled),
        ("GET", "/bucket", bypass),
    ] {
        let reply = door.call(method, path, &[header], "").await;
        reply.is(501, "NotImplemented");
    }
    // A bypass that nothing needs changes nothing.
    let deleted = door.call("DELETE", "/bucket/k", &[bypass], "").await;
    assert_eq!(deleted.status, 204);
}

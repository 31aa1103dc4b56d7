//! Access control lists and the settings of buckets about access, through the endpoint.

use archipel_access::{ACCOUNT, PublicAccessBlock};
use archipel_model::Permissions;
use bytes::Bytes;

use super::client::{Endpoint, signed};

const WRITER: &str = "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership>\
    </Rule></OwnershipControls>";

#[tokio::test]
async fn access_control_lists_take_effect_or_are_refused() {
    let s3 = Endpoint::open().await;
    let public = [("x-amz-acl", "public-read")];
    let put = |headers: &'static [(&'static str, &'static str)]| async {
        s3.call("PUT", "/bucket/k", headers, "new").await
    };
    static PUBLIC_READ: [(&str, &str); 1] = [("x-amz-acl", "public-read")];
    static PRIVATE: [(&str, &str); 1] = [("x-amz-acl", "private")];
    static FULL: [(&str, &str); 1] = [("x-amz-acl", "bucket-owner-full-control")];
    static UNKNOWN: [(&str, &str); 1] = [("x-amz-acl", "public")];
    put(&PRIVATE).await.ok();
    put(&FULL).await.ok();
    put(&UNKNOWN).await.is(400, "InvalidArgument");
    put(&PUBLIC_READ)
        .await
        .is(400, "AccessControlListNotSupported");
    let bucket = s3.call("PUT", "/bucket?acl", &public, "").await;
    bucket.is(400, "AccessControlListNotSupported");
    // Lists count from here on, and are blocked.
    s3.call("PUT", "/bucket?ownershipControls", &[], WRITER)
        .await
        .ok();
    put(&PUBLIC_READ).await.is(403, "AccessDenied");
    s3.lift_block().await;
    put(&PUBLIC_READ).await.ok();
    s3.put("/bucket/private", "private").await.ok();
    assert_eq!(
        s3.anonymous("GET", "/bucket/k", "").await.ok().text(),
        "new"
    );
    let denied = s3.anonymous("GET", "/bucket/private", "").await;
    denied.is(403, "AccessDenied");
    s3.anonymous("GET", "/bucket/missing", "")
        .await
        .is(403, "AccessDenied");
    s3.anonymous("GET", "/bucket", "")
        .await
        .is(403, "AccessDenied");
    let acl = s3.get("/bucket/k?acl").await.ok();
    assert!(acl.text().contains("AllUsers</URI>"), "{}", acl.text());
    // The list goes with the object: neither headers nor a copy carry it.
    assert_eq!(s3.get("/bucket/k").await.header("x-amz-acl"), "");
    let copy = [("x-amz-copy-source", "bucket/k")];
    s3.call("PUT", "/bucket/copy", &copy, "").await.ok();
    let denied = s3.anonymous("GET", "/bucket/copy", "").await;
    denied.is(403, "AccessDenied");
    // Lists of objects are changed by themselves, and by documents.
    let document = acl.text().replace("AllUsers", "AuthenticatedUsers");
    s3.call("PUT", "/bucket/k?acl", &[], document).await.ok();
    let denied = s3.anonymous("GET", "/bucket/k", "").await;
    denied.is(403, "AccessDenied");
    let stranger = s3.stranger().await;
    let reply = s3.by(&stranger, "GET", "/bucket/k", "").await.ok();
    assert_eq!(reply.text(), "new");
    s3.call("PUT", "/bucket/k?acl", &PUBLIC_READ, "").await.ok();
    s3.call("PUT", "/bucket?acl", &PUBLIC_READ, "").await.ok();
    let listed = s3.anonymous("GET", "/bucket", "").await.ok();
    assert!(listed.text().contains("<Key>k</Key>"));
    // They who may list learn that a key is missing.
    s3.anonymous("GET", "/bucket/missing", "")
        .await
        .is(404, "NoSuchKey");
    // A writer may not open what it writes.
    let writer = s3
        .key_with(Permissions {
            write: true,
            ..Permissions::default()
        })
        .await;
    let request = signed(&writer, "PUT", "/bucket/w", &public, Bytes::new());
    s3.send(request).await.is(403, "AccessDenied");
    let request = signed(&writer, "PUT", "/bucket/w", &PRIVATE, Bytes::new());
    s3.send(request).await.ok();
    // Ignored lists have no effect, and disabled ones cannot grant anything.
    let enforced = WRITER.replace("ObjectWriter", "BucketOwnerEnforced");
    let refused = s3
        .call("PUT", "/bucket?ownershipControls", &[], enforced.clone())
        .await;
    refused.is(400, "InvalidBucketAclWithObjectOwnership");
    let block = PublicAccessBlock {
        ignore_public_acls: true,
        ..PublicAccessBlock::default()
    };
    let bucket = s3.model.bucket("bucket").unwrap().unwrap();
    let set = s3.model.set_public_access_block(&bucket, Some(block));
    set.await.unwrap();
    s3.anonymous("GET", "/bucket/k", "")
        .await
        .is(403, "AccessDenied");
    s3.anonymous("GET", "/bucket", "")
        .await
        .is(403, "AccessDenied");
    s3.lift_block().await;
    s3.call("PUT", "/bucket?acl", &PRIVATE, "").await.ok();
    let shared = s3.get("/bucket/k?acl").await.ok().text();
    assert!(shared.contains("</URI>"), "{shared}");
    s3.call("PUT", "/bucket?ownershipControls", &[], enforced)
        .await
        .ok();
    s3.anonymous("GET", "/bucket/k", "")
        .await
        .is(403, "AccessDenied");
    // The list does not count, and is not shown.
    let list = s3.get("/bucket/k?acl").await.ok().text();
    assert!(!list.contains("</URI>"), "{list}");
}

#[tokio::test]
async fn settings_of_a_bucket_are_as_in_aws() {
    let s3 = Endpoint::open().await;
    let block = s3.get("/bucket?publicAccessBlock").await.ok();
    assert_eq!(block.text().matches("true").count(), 4, "{}", block.text());
    s3.lift_block().await;
    let none = s3.get("/bucket?publicAccessBlock").await;
    none.is(404, "NoSuchPublicAccessBlockConfiguration");
    let ownership = s3.get("/bucket?ownershipControls").await.ok();
    assert_eq!(
        ownership.element("ObjectOwnership").unwrap(),
        "BucketOwnerEnforced"
    );
    let bad = WRITER.replace("ObjectWriter", "Nobody");
    let refused = s3.call("PUT", "/bucket?ownershipControls", &[], bad).await;
    refused.is(400, "MalformedXML");
    s3.call("DELETE", "/bucket?ownershipControls", &[], "")
        .await
        .ok();
    let none = s3.get("/bucket?ownershipControls").await;
    none.is(404, "OwnershipControlsNotFoundError");
    let payer = s3.get("/bucket?requestPayment").await.ok();
    assert_eq!(payer.element("Payer").unwrap(), "BucketOwner");
    let document = |who: &str| {
        format!("<RequestPaymentConfiguration><Payer>{who}</Payer></RequestPaymentConfiguration>")
    };
    let set = |who: &str| s3.call("PUT", "/bucket?requestPayment", &[], document(who));
    set("BucketOwner").await.ok();
    set("Requester").await.is(501, "NotImplemented");
    // The header of those who would pay changes nothing in a bucket whose owner pays.
    s3.put("/bucket/k", "x").await.ok();
    let pays = [("x-amz-request-payer", "requester")];
    s3.call("GET", "/bucket/k", &pays, "").await.ok();
    for (expected, status) in [(ACCOUNT, 200), ("123456789012", 403)] {
        let owner = [("x-amz-expected-bucket-owner", expected)];
        let reply = s3.call("GET", "/bucket/k", &owner, "").await;
        assert_eq!(reply.status, status);
    }
    for (ownership, acl, code) in [
        ("ObjectWriter", "private", ""),
        (
            "BucketOwnerEnforced",
            "public-read",
            "InvalidBucketAclWithObjectOwnership",
        ),
        (
            "ObjectWriter",
            "public-read",
            "InvalidBucketAclWithBlockPublicAccessError",
        ),
        ("Else", "private", "InvalidArgument"),
    ] {
        let headers = [("x-amz-object-ownership", ownership), ("x-amz-acl", acl)];
        let reply = s3.call("PUT", "/second", &headers, "").await;
        let found = reply.element("Code").unwrap_or_default();
        assert_eq!(found, code, "{ownership} {acl}");
        if code.is_empty() {
            let found = s3.get("/second?ownershipControls").await.ok();
            assert_eq!(found.element("ObjectOwnership").unwrap(), ownership);
            s3.call("DELETE", "/second", &[], "").await.ok();
        }
    }
}

/// Without lists, only the owner's full control may be asked for, however it is asked.
#[tokio::test]
async fn disabled_lists_have_one_error() {
    let s3 = Endpoint::open().await;
    let foreign = format!("id={}", "0".repeat(64));
    let asked: [(&str, &str); 5] = [
        ("x-amz-acl", "aws-exec-read"),
        ("x-amz-acl", "log-delivery-write"),
        ("x-amz-acl", "bucket-owner-read"),
        ("x-amz-grant-read", &foreign),
        ("x-amz-grant-full-control", &foreign),
    ];
    for header in asked {
        let put = s3.call("PUT", "/bucket/k", &[header], "new").await;
        put.is(400, "AccessControlListNotSupported");
        let put = s3.call("PUT", "/bucket?acl", &[header], "").await;
        put.is(400, "AccessControlListNotSupported");
        let create = s3.call("PUT", "/other", &[header], "").await;
        create.is(400, "InvalidBucketAclWithObjectOwnership");
    }
    s3.get("/bucket/k").await.is(404, "NoSuchKey");
    s3.get("/other").await.is(404, "NoSuchBucket");
}

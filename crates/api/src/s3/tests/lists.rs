//! Access control lists and the settings of buckets about access, through the door.

use archipel_access::{ACCOUNT, PublicAccessBlock};
use archipel_model::Permissions;
use bytes::Bytes;

use super::client::{Door, signed};

const WRITER: &str = "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership>\
    </Rule></OwnershipControls>";

#[tokio::test]
async fn access_control_lists_take_effect_or_are_refused() {
    let door = Door::open().await;
    let public = [("x-amz-acl", "public-read")];
    let put = |headers: &'static [(&'static str, &'static str)]| async {
        door.call("PUT", "/bucket/k", headers, "new").await
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
    let bucket = door.call("PUT", "/bucket?acl", &public, "").await;
    bucket.is(400, "AccessControlListNotSupported");
    // Lists count from here on, and are blocked.
    door.call("PUT", "/bucket?ownershipControls", &[], WRITER)
        .await
        .ok();
    put(&PUBLIC_READ).await.is(403, "AccessDenied");
    door.lift_block().await;
    put(&PUBLIC_READ).await.ok();
    door.put("/bucket/private", "private").await.ok();
    assert_eq!(
        door.anonymous("GET", "/bucket/k", "").await.ok().text(),
        "new"
    );
    let denied = door.anonymous("GET", "/bucket/private", "").await;
    denied.is(403, "AccessDenied");
    door.anonymous("GET", "/bucket/missing", "")
        .await
        .is(403, "AccessDenied");
    door.anonymous("GET", "/bucket", "")
        .await
        .is(403, "AccessDenied");
    let acl = door.get("/bucket/k?acl").await.ok();
    assert!(acl.text().contains("AllUsers</URI>"), "{}", acl.text());
    // The list goes with the object: neither headers nor a copy carry it.
    assert_eq!(door.get("/bucket/k").await.header("x-amz-acl"), "");
    let copy = [("x-amz-copy-source", "bucket/k")];
    door.call("PUT", "/bucket/copy", &copy, "").await.ok();
    let denied = door.anonymous("GET", "/bucket/copy", "").await;
    denied.is(403, "AccessDenied");
    // Lists of objects are changed by themselves, and by documents.
    let document = acl.text().replace("AllUsers", "AuthenticatedUsers");
    door.call("PUT", "/bucket/k?acl", &[], document).await.ok();
    let denied = door.anonymous("GET", "/bucket/k", "").await;
    denied.is(403, "AccessDenied");
    let stranger = door.stranger().await;
    let reply = door.by(&stranger, "GET", "/bucket/k", "").await.ok();
    assert_eq!(reply.text(), "new");
    door.call("PUT", "/bucket/k?acl", &PUBLIC_READ, "")
        .await
        .ok();
    door.call("PUT", "/bucket?acl", &PUBLIC_READ, "").await.ok();
    let listed = door.anonymous("GET", "/bucket", "").await.ok();
    assert!(listed.text().contains("<Key>k</Key>"));
    // They who may list learn that a key is missing.
    door.anonymous("GET", "/bucket/missing", "")
        .await
        .is(404, "NoSuchKey");
    // A writer may not open what it writes.
    let writer = door
        .key_with(Permissions {
            write: true,
            ..Permissions::default()
        })
        .await;
    let request = signed(&writer, "PUT", "/bucket/w", &public, Bytes::new());
    door.send(request).await.is(403, "AccessDenied");
    let request = signed(&writer, "PUT", "/bucket/w", &PRIVATE, Bytes::new());
    door.send(request).await.ok();
    // Ignored lists have no effect, and disabled ones cannot grant anything.
    let enforced = WRITER.replace("ObjectWriter", "BucketOwnerEnforced");
    let refused = door
        .call("PUT", "/bucket?ownershipControls", &[], enforced.clone())
        .await;
    refused.is(400, "InvalidBucketAclWithObjectOwnership");
    let block = PublicAccessBlock {
        ignore_public_acls: true,
        ..PublicAccessBlock::default()
    };
    let bucket = door.model.bucket("bucket").unwrap().unwrap();
    let set = door.model.set_public_access_block(&bucket, Some(block));
    set.await.unwrap();
    door.anonymous("GET", "/bucket/k", "")
        .await
        .is(403, "AccessDenied");
    door.anonymous("GET", "/bucket", "")
        .await
        .is(403, "AccessDenied");
    door.lift_block().await;
    door.call("PUT", "/bucket?acl", &PRIVATE, "").await.ok();
    let shared = door.get("/bucket/k?acl").await.ok().text();
    assert!(shared.contains("</URI>"), "{shared}");
    door.call("PUT", "/bucket?ownershipControls", &[], enforced)
        .await
        .ok();
    door.anonymous("GET", "/bucket/k", "")
        .await
        .is(403, "AccessDenied");
    // The list does not count, and is not shown.
    let list = door.get("/bucket/k?acl").await.ok().text();
    assert!(!list.contains("</URI>"), "{list}");
}

#[tokio::test]
async fn settings_of_a_bucket_are_as_in_aws() {
    let door = Door::open().await;
    let block = door.get("/bucket?publicAccessBlock").await.ok();
    assert_eq!(block.text().matches("true").count(), 4, "{}", block.text());
    door.lift_block().await;
    let none = door.get("/bucket?publicAccessBlock").await;
    none.is(404, "NoSuchPublicAccessBlockConfiguration");
    let ownership = door.get("/bucket?ownershipControls").await.ok();
    assert_eq!(
        ownership.element("ObjectOwnership").unwrap(),
        "BucketOwnerEnforced"
    );
    let bad = WRITER.replace("ObjectWriter", "Nobody");
    let refused = door
        .call("PUT", "/bucket?ownershipControls", &[], bad)
        .await;
    refused.is(400, "MalformedXML");
    door.call("DELETE", "/bucket?ownershipControls", &[], "")
        .await
        .ok();
    let none = door.get("/bucket?ownershipControls").await;
    none.is(404, "OwnershipControlsNotFoundError");
    let payer = door.get("/bucket?requestPayment").await.ok();
    assert_eq!(payer.element("Payer").unwrap(), "BucketOwner");
    let document = |who: &str| {
        format!("<RequestPaymentConfiguration><Payer>{who}</Payer></RequestPaymentConfiguration>")
    };
    let set = |who: &str| door.call("PUT", "/bucket?requestPayment", &[], document(who));
    set("BucketOwner").await.ok();
    set("Requester").await.is(501, "NotImplemented");
    // The header of those who would pay changes nothing in a bucket whose owner pays.
    door.put("/bucket/k", "x").await.ok();
    let pays = [("x-amz-request-payer", "requester")];
    door.call("GET", "/bucket/k", &pays, "").await.ok();
    for (expected, status) in [(ACCOUNT, 200), ("123456789012", 403)] {
        let owner = [("x-amz-expected-bucket-owner", expected)];
        let reply = door.call("GET", "/bucket/k", &owner, "").await;
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
        let reply = door.call("PUT", "/second", &headers, "").await;
        let found = reply.element("Code").unwrap_or_default();
        assert_eq!(found, code, "{ownership} {acl}");
        if code.is_empty() {
            let found = door.get("/second?ownershipControls").await.ok();
            assert_eq!(found.element("ObjectOwnership").unwrap(), ownership);
            door.call("DELETE", "/second", &[], "").await.ok();
        }
    }
}

/// Without lists, only the owner's full control may be asked for, however it is asked.
#[tokio::test]
async fn disabled_lists_have_one_error() {
    let door = Door::open().await;
    let foreign = format!("id={}", "0".repeat(64));
    let asked: [(&str, &str); 5] = [
        ("x-amz-acl", "aws-exec-read"),
        ("x-amz-acl", "log-delivery-write"),
        ("x-amz-acl", "bucket-owner-read"),
        ("x-amz-grant-read", &foreign),
        ("x-amz-grant-full-control", &foreign),
    ];
    for header in asked {
        let put = door.call("PUT", "/bucket/k", &[header], "new").await;
        put.is(400, "AccessControlListNotSupported");
        let put = door.call("PUT", "/bucket?acl", &[header], "").await;
        put.is(400, "AccessControlListNotSupported");
        let create = door.call("PUT", "/other", &[header], "").await;
        create.is(400, "InvalidBucketAclWithObjectOwnership");
    }
    door.get("/bucket/k").await.is(404, "NoSuchKey");
    door.get("/other").await.is(404, "NoSuchBucket");
}

//! Requests that were permitted, and whose body comes only after what they are about has changed.

use std::convert::Infallible;
use std::sync::{Arc, mpsc};

use archipel_model::{AccessKey, Bucket, Condition, Model, ObjectMeta, Versioning};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use md5::{Digest, Md5};

use super::client::{Endpoint, Reply, signed};

/// Sends a request whose body comes once `meanwhile` is over. An operation reads the body after its
/// decision.
async fn send_late(
    s3: &Endpoint,
    key: &AccessKey,
    path: &str,
    body: &str,
    meanwhile: impl Future<Output = ()> + Send + 'static,
) -> Reply {
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    let digest = STANDARD.encode(Md5::digest(&bytes));
    let headers = [("content-md5", digest.as_str())];
    let (parts, _) = signed(key, "PUT", path, &headers, bytes.clone()).into_parts();
    let late = async move {
        meanwhile.await;
        Ok::<_, Infallible>(Frame::data(bytes))
    };
    let body = StreamBody::new(stream::once(late));
    let answer = s3
        .service
        .handle(http::Request::from_parts(parts, body))
        .await;
    let (parts, body) = answer.into_parts();
    Reply {
        status: parts.status,
        headers: parts.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}

/// Deletes `bucket` and creates it again for another owner. Returns the new one.
async fn replace(model: Model, owner: String) -> Arc<Bucket> {
    let bucket = model.bucket("bucket").unwrap().unwrap();
    model.delete_bucket(&bucket).await.unwrap();
    model.create_bucket("bucket", Some(&owner)).await.unwrap();
    model.bucket("bucket").unwrap().unwrap()
}

/// The owner of a bucket deletes it, and another client creates one of that name.
#[tokio::test]
async fn settings_of_a_bucket_do_not_reach_another_one_of_its_name() {
    let s3 = Endpoint::open().await;
    let other = s3.stranger().await;
    let list = s3.get("/bucket?acl").await.ok().text();
    let settings = [
        (
            "policy",
            r#"{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*"}}"#,
        ),
        (
            "publicAccessBlock",
            "<PublicAccessBlockConfiguration><BlockPublicAcls>false</BlockPublicAcls>\
             </PublicAccessBlockConfiguration>",
        ),
        (
            "ownershipControls",
            "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule>\
             </OwnershipControls>",
        ),
        ("acl", list.as_str()),
        (
            "cors",
            "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin>\
             <AllowedMethod>PUT</AllowedMethod></CORSRule></CORSConfiguration>",
        ),
        (
            "lifecycle",
            "<LifecycleConfiguration><Rule><Filter/><Status>Enabled</Status>\
             <Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>",
        ),
        (
            "website",
            "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument>\
             </WebsiteConfiguration>",
        ),
        (
            "tagging",
            "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>",
        ),
        ("notification", "<NotificationConfiguration/>"),
        (
            "encryption",
            "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>\
             <SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>\
             </ServerSideEncryptionConfiguration>",
        ),
        (
            "versioning",
            "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
        ),
        (
            "object-lock",
            "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>\
             </ObjectLockConfiguration>",
        ),
    ];
    for (setting, body) in settings {
        let path = format!("/bucket?{setting}");
        let (model, owner) = (s3.model.clone(), other.id.clone());
        let (made, new) = mpsc::channel();
        let replaced = async move { made.send(replace(model, owner).await).unwrap() };
        let late = send_late(&s3, &s3.key, &path, body, replaced).await;
        let code = late.element("Code").unwrap_or_default();
        assert_eq!(
            (late.status.as_u16(), &*code),
            (404, "NoSuchBucket"),
            "{setting}"
        );
        let now = s3.model.bucket("bucket").unwrap().unwrap();
        let new = new.recv().unwrap();
        assert_eq!(format!("{now:?}"), format!("{new:?}"), "{setting}");
        // The same request changes a bucket that stays.
        let own = replace(s3.model.clone(), s3.key.id.clone()).await;
        if setting == "object-lock" {
            let enabled = s3.model.set_versioning(&own, Versioning::Enabled);
            enabled.await.unwrap();
        }
        let set = send_late(&s3, &s3.key, &path, body, async {}).await;
        assert!(set.status.is_success(), "{setting}: {}", set.text());
        replace(s3.model.clone(), s3.key.id.clone()).await;
    }
}

/// A client may change its own objects, by their tags. While it sends a request, another one
/// replaces the object.
#[tokio::test]
async fn tags_are_judged_of_the_object_that_is_changed() {
    let s3 = Endpoint::open().await;
    let alice = s3.stranger().await;
    let policy = format!(
        r#"{{"Statement": {{"Effect": "Allow", "Principal": {{"AWS": "{}"}},
            "Action": ["s3:PutObjectTagging", "s3:PutObjectAcl"], "Resource": "arn:aws:s3:::bucket/*",
            "Condition": {{"StringEquals": {{"s3:ExistingObjectTag/owner": "alice"}}}}}}}}"#,
        alice.id
    );
    s3.call("PUT", "/bucket?policy", &[], policy).await.ok();
    let enforced = "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership>\
        </Rule></OwnershipControls>";
    s3.put("/bucket?ownershipControls", enforced).await.ok();
    s3.lift_block().await;
    s3.put("/bucket/k", "first").await.ok();
    let tags =
        "<Tagging><TagSet><Tag><Key>owner</Key><Value>alice</Value></Tag></TagSet></Tagging>";
    for versions in [false, true] {
        if versions {
            let enabled =
                "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
            s3.put("/bucket?versioning", enabled).await.ok();
        }
        let hers = [
            ("x-amz-tagging", "owner=alice"),
            ("x-amz-acl", "public-read"),
        ];
        s3.call("PUT", "/bucket/k", &hers, "hers").await.ok();
        let list = s3.get("/bucket/k?acl").await.ok().text();
        for (change, body) in [("tagging", tags), ("acl", list.as_str())] {
            let path = format!("/bucket/k?{change}");
            s3.call("PUT", "/bucket/k", &hers, "hers").await.ok();
            let own = send_late(&s3, &alice, &path, body, async {}).await;
            assert!(own.status.is_success(), "{change}: {}", own.text());

            let bucket = s3.model.bucket("bucket").unwrap().unwrap();
            let writer = s3.model.begin_object(&bucket, "k").unwrap();
            let meta = ObjectMeta {
                tags: vec![("owner".into(), "bob".into())],
                ..ObjectMeta::default()
            };
            let replaced = async move {
                writer.finish(meta, Condition::Always).await.unwrap();
            };
            let late = send_late(&s3, &alice, &path, body, replaced).await;
            late.is(403, "AccessDenied");
            let head = s3.model.head_object(&bucket, "k").await.unwrap();
            assert_eq!(head.tags, [("owner".to_owned(), "bob".to_owned())]);
            assert!(head.acl.is_private(), "{change}");
        }
    }
}

/// A key that holds nothing has no tags, so that only statements without a condition on them allow
/// it.
#[tokio::test]
async fn a_new_key_is_decided_without_an_object() {
    let s3 = Endpoint::open().await;
    let (one, other) = (s3.stranger().await, s3.stranger().await);
    let allow = |key: &AccessKey, action: &str, condition: &str| {
        format!(
            r#"{{"Effect": "Allow", "Principal": {{"AWS": "{}"}}, "Action": "s3:{action}",
            "Resource": "arn:aws:s3:::bucket/*"{condition}}}"#,
            key.id
        )
    };
    let mine = r#", "Condition": {"StringEqualsIfExists": {"s3:ExistingObjectTag/owner": "mine"}}"#;
    let of_tag = r#", "Condition": {"StringEquals": {"s3:ExistingObjectTag/owner": "mine"}}"#;
    let statements = [
        allow(&one, "PutObject", ""),
        allow(&one, "PutObjectTagging", mine),
        allow(&other, "PutObject", ""),
        allow(&other, "PutObjectTagging", of_tag),
    ];
    let policy = format!(r#"{{"Statement": [{}]}}"#, statements.join(","));
    s3.call("PUT", "/bucket?policy", &[], policy).await.ok();
    let put = |key: &AccessKey, tags: &str| {
        let tags = [("x-amz-tagging", tags)];
        s3.send(signed(key, "PUT", "/bucket/new", &tags, Bytes::new()))
    };
    put(&other, "owner=mine").await.is(403, "AccessDenied");
    put(&one, "owner=theirs").await.ok();
    put(&one, "owner=mine").await.is(403, "AccessDenied");
    // A delete marker is no object either.
    let enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    s3.put("/bucket?versioning", enabled).await.ok();
    s3.call("DELETE", "/bucket/new", &[], "").await.ok();
    put(&other, "owner=mine").await.is(403, "AccessDenied");
    put(&one, "owner=mine").await.ok();
}

//! Writes that are refused: what the refusal tells, and when it comes.

use std::sync::Arc;
use std::time::Duration;

use archipel_cluster::World;
use archipel_model::{AccessKey, HOOKS, Model};
use bytes::Bytes;

use super::client::{Endpoint, signed};
use super::objects::form;

const HOLD: (&str, &str) = ("x-amz-object-lock-legal-hold", "ON");

/// Makes a key that may get and put the objects of the bucket, and may not list them.
async fn limited(s3: &Endpoint) -> Arc<AccessKey> {
    let key = s3.model.create_access_key("limited").await.unwrap();
    let policy = format!(
        r#"{{"Statement": {{"Effect": "Allow", "Principal": {{"AWS": "{}"}},
            "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::bucket/*"}}}}"#,
        key.id
    );
    s3.put("/bucket?policy", policy).await.ok();
    key
}

/// Large content is not read if its condition fails already, and copies test theirs first, too.
#[tokio::test]
async fn an_early_look_at_a_condition_does_not_tell_that_a_key_is_missing() {
    let s3 = Endpoint::open().await;
    let limited = limited(&s3).await;
    for key in ["there", "source"] {
        s3.put(&format!("/bucket/{key}"), "x").await.ok();
    }
    let large = Bytes::from(vec![0; (1 << 20) + 1]);
    let other = ("if-match", "\"0\"");
    let copied = ("x-amz-copy-source", "bucket/source");
    for (headers, body) in [(vec![other], large), (vec![other, copied], Bytes::new())] {
        let put = |key: &AccessKey, path: &str| {
            let request = signed(key, "PUT", path, &headers, body.clone());
            s3.send(request)
        };
        let refused = put(&limited, "/bucket/gone").await;
        refused.is(403, "AccessDenied");
        let refused = put(&limited, "/bucket/there").await;
        refused.is(412, "PreconditionFailed");
        // The owner may list the keys.
        let refused = put(&s3.key, "/bucket/gone").await;
        refused.is(404, "NoSuchKey");
    }
}

/// The condition held when the copy looked first, and no longer when it wrote. The target is
/// deleted a little later each time.
#[tokio::test(start_paused = true)]
async fn a_copy_does_not_tell_that_its_target_was_deleted_meanwhile() {
    let latency = Duration::from_millis(5);
    let world = World::new(3, 3, latency, 1, HOOKS).await.unwrap();
    let mut models = Vec::new();
    for node in &world.nodes {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    let model = models[0].clone();
    let owner = model.create_owner_key("tester").await.unwrap();
    model
        .create_bucket("bucket", Some(&owner.id))
        .await
        .unwrap();
    let s3 = Endpoint::to(model, owner);
    let limited = limited(&s3).await;
    s3.put("/bucket/source", "x").await.ok();
    let (mut delay, mut refused, mut done) = (Duration::ZERO, 0, 0);
    // By then it is deleted behind the copy for sure.
    while done < 5 {
        let target = s3.put("/bucket/target", "old").await.ok();
        let headers = [
            ("x-amz-copy-source", "bucket/source"),
            ("if-match", target.header("etag")),
        ];
        let request = signed(&limited, "PUT", "/bucket/target", &headers, Bytes::new());
        let delete = async {
            tokio::time::sleep(delay).await;
            let deleted = s3.call("DELETE", "/bucket/target", &[], "").await;
            deleted.ok();
        };
        let (copied, ()) = tokio::join!(s3.send(request), delete);
        let code = copied.element("Code").unwrap_or_default();
        match (copied.status.as_u16(), code.as_str()) {
            (200, "") => done += 1,
            (403, "AccessDenied") => refused += 1,
            // Both changed the row at once.
            (409, _) => {}
            other => panic!("after {delay:?}: {other:?}"),
        }
        delay += Duration::from_millis(1);
        assert!(delay < Duration::from_secs(5), "no copy succeeds");
    }
    assert!(refused > 0, "no target is deleted in time");
}

/// A bucket without object lock takes no object with a lock, whatever its content and its
/// condition.
#[tokio::test]
async fn a_lock_is_refused_before_copies_and_forms_if_the_bucket_has_none() {
    let s3 = Endpoint::open().await;
    for key in ["source", "up/k"] {
        s3.put(&format!("/bucket/{key}"), "x").await.ok();
    }
    let headers = [
        HOLD,
        ("x-amz-copy-source", "bucket/source"),
        ("if-match", "\"0\""),
    ];
    let copied = s3.call("PUT", "/bucket/up/k", &headers, "").await;
    copied.is(400, "InvalidRequest");
    // The digest is known only behind the content.
    let digest = ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==");
    let fields = [("key", "up/k"), HOLD, digest];
    let of_digest = ",[\"starts-with\",\"$content-md5\",\"\"]";
    let of_both = format!("{of_digest},[\"starts-with\",\"${}\",\"\"]", HOLD.0);
    let posted = s3.send(form(&s3, &fields, &of_both, "other")).await;
    posted.is(400, "InvalidRequest");
    let plain = [("key", "up/k"), digest];
    let posted = s3.send(form(&s3, &plain, of_digest, "other")).await;
    posted.is(400, "BadDigest");
    assert_eq!(s3.get("/bucket/up/k").await.text(), "x");
}

#[tokio::test]
async fn a_form_does_not_say_which_version_it_makes() {
    let s3 = Endpoint::open().await;
    let mut request = form(&s3, &[("key", "up/k")], "", "x");
    *request.uri_mut() = "/bucket?versionId=null".parse().unwrap();
    s3.send(request).await.is(400, "InvalidArgument");
    s3.get("/bucket/up/k").await.is(404, "NoSuchKey");
}

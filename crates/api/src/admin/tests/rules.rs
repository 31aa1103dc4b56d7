//! Settings of buckets that the S3 API has, too: notifications, CORS, encryption, public access,
//! ownership.

use std::sync::Arc;

use archipel_model::{BlockedEncryption, DefaultEncryption, DeliverEvent, Event, EventTarget};
use async_trait::async_trait;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{OK, admin, ask, get, make_bucket};

/// A target that takes test messages, or refuses them.
struct Target(Result<(), String>);

#[async_trait]
impl DeliverEvent for Target {
    async fn deliver(&self, _: &Event) -> Result<(), String> {
        Ok(())
    }

    async fn test(&self, _: &str, _: &str, _: u64) -> Result<(), String> {
        self.0.clone()
    }
}

/// Returns a target of events that takes test messages, or refuses them.
pub(super) fn target(
    name: &str,
    takes: Result<(), String>,
) -> (EventTarget, Arc<dyn DeliverEvent>) {
    let target = EventTarget {
        name: name.into(),
        kind: "webhook".into(),
        backlog: 10,
        refuses: false,
    };
    (target, Arc::new(Target(takes)))
}

#[tokio::test]
async fn notifications_go_to_declared_targets_that_take_a_test_message() {
    let admin = admin().await;
    let refuses = Err("connection refused".to_owned());
    let targets = vec![target("good", Ok(())), target("bad", refuses)];
    admin.model.set_event_targets(targets);
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/notifications";
    assert_eq!(get(&admin, path).await, (OK, json!({"rules": []})));
    let put = async |path: &str, rules: Value| {
        ask(&admin, Method::PUT, path, json!({ "rules": rules })).await
    };
    let rules = json!([
        {"id": "new", "target": "good", "events": ["s3:ObjectCreated:*"], "prefix": "a/",
         "suffix": ".jpg", "style": "topic"},
        {"id": "gone", "target": "good", "events": ["s3:ObjectRemoved:Delete"], "style": "queue"},
    ]);
    let shown = json!({ "rules": rules });
    assert_eq!(put(path, rules).await, (OK, shown.clone()));
    assert_eq!(get(&admin, path).await.1, shown);
    let created = json!(["s3:ObjectCreated:*"]);
    for bad in [
        json!([]),
        json!([{"target": "none", "events": created}]),
        json!([{"target": "good", "events": []}]),
        json!([{"target": "good", "events": ["s3:Nothing"]}]),
        json!([{"target": "good", "events": created, "prefix": "a".repeat(1025)}]),
        json!([{"id": "a", "target": "good", "events": created},
               {"id": "b", "target": "good", "events": created}]),
        json!([{"target": "good", "events": created, "style": "letter"}]),
        json!([{"target": "good", "events": created, "prefix": "\u{1}"}]),
        json!([{"id": "\u{1}", "target": "good", "events": created}]),
    ] {
        let (status, refused) = put(path, bad.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}: {refused}");
    }
    let none = json!([{"target": "good", "events": []}]);
    let (_, refused) = put(path, none).await;
    assert_eq!(refused["detail"], "each rule needs at least one of events");
    let to_bad = json!([{"id": "bad", "target": "bad", "events": created, "style": "queue"}]);
    let (status, refused) = put(path, to_bad.clone()).await;
    let code = (status, &refused["code"]);
    assert_eq!(code, (StatusCode::CONFLICT, &json!("EventTargetFails")));
    assert_eq!(get(&admin, path).await.1, shown);
    let skips = format!("{path}?skip_test=true");
    let set = put(&skips, to_bad.clone()).await;
    assert_eq!(set, (OK, json!({ "rules": to_bad })));
    let (status, _) = ask(&admin, Method::DELETE, path, Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(get(&admin, path).await.1, json!({"rules": []}));
}

#[tokio::test]
async fn cors_rules_are_checked_as_the_s3_api_checks_them() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/cors";
    let put = async |rules: Value| ask(&admin, Method::PUT, path, json!({"rules": rules})).await;
    assert_eq!(get(&admin, path).await, (OK, json!({"rules": []})));
    let rules = json!([
        {"id": "app", "origins": ["https://*.example.com"], "methods": ["GET", "PUT"],
         "headers": ["*"], "expose_headers": ["ETag"], "max_age_seconds": 60},
        {"origins": ["*"], "methods": ["HEAD"]},
    ]);
    let shown = json!({ "rules": rules });
    assert_eq!(put(rules).await, (OK, shown.clone()));
    let many = vec![json!({"origins": ["*"], "methods": ["GET"]}); 101];
    for bad in [
        json!([]),
        json!(many),
        json!([{"origins": [], "methods": ["GET"]}]),
        json!([{"origins": ["*"], "methods": []}]),
        json!([{"origins": ["*"], "methods": ["PATCH"]}]),
        json!([{"origins": ["*.*"], "methods": ["GET"]}]),
        json!([{"origins": ["a\nb"], "methods": ["GET"]}]),
        json!([{"id": "\u{1}", "origins": ["*"], "methods": ["GET"]}]),
    ] {
        let (status, refused) = put(bad.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}: {refused}");
    }
    let long = json!([{"id": "i".repeat(256), "origins": ["*"], "methods": ["GET"]}]);
    let (status, refused) = put(long).await;
    let told = (status, refused["detail"].as_str().unwrap());
    let why = "id: a rule's id has at most 255 bytes";
    assert_eq!(told, (StatusCode::BAD_REQUEST, why));
    assert_eq!(get(&admin, path).await.1, shown);
    let (status, _) = ask(&admin, Method::DELETE, path, Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(get(&admin, path).await.1, json!({"rules": []}));
}

#[tokio::test]
async fn encryption_is_set_and_shown() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/encryption";
    let put = async |body: Value| ask(&admin, Method::PUT, path, body).await;
    let off = json!({"enabled": false, "bucket_key": false});
    assert_eq!(get(&admin, path).await, (OK, off.clone()));
    let on = json!({"enabled": true, "bucket_key": true});
    for set in [on, off.clone()] {
        assert_eq!(put(set.clone()).await, (OK, set.clone()));
        assert_eq!(get(&admin, path).await.1, set);
    }
    let (status, _) = put(json!({"enabled": false, "bucket_key": true})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    // Only the S3 API blocks an encryption. Here a block is shown.
    let bucket = admin.model.bucket("photos").unwrap().unwrap();
    let block = async |blocked: BlockedEncryption| {
        let default = DefaultEncryption {
            blocked: Some(blocked),
            ..DefaultEncryption::default()
        };
        let set = admin.model.set_default_encryption(&bucket, default);
        set.await.unwrap();
    };
    let blocks = json!({"enabled": false, "bucket_key": false, "blocked": "SSE-C"});
    block(BlockedEncryption::Customer).await;
    assert_eq!(get(&admin, path).await.1, blocks);
    for set in [off.clone(), blocks.clone()] {
        assert_eq!(put(set).await, (OK, blocks.clone()));
    }
    block(BlockedEncryption::Nothing).await;
    assert_eq!(get(&admin, path).await.1, off);
    assert_eq!(put(blocks).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(get(&admin, path).await.1, off);
}

#[tokio::test]
async fn public_access_is_set_changed_and_shown() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/public-access";
    let put = async |body: Value| ask(&admin, Method::PUT, path, body).await;
    let block = |policy: bool| {
        json!({"block_public_acls": true, "ignore_public_acls": true,
               "block_public_policy": policy, "restrict_public_buckets": true})
    };
    assert_eq!(get(&admin, path).await.1, block(true));
    let set = put(block(false)).await;
    assert_eq!(set, (OK, block(false)));
    assert_eq!(get(&admin, path).await.1, block(false));
    let (status, _) = put(json!({"block_public_acls": true})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);

    let change = async |body: Value| ask(&admin, Method::PATCH, path, body).await;
    let one = json!({"restrict_public_buckets": false});
    let changed = json!({"block_public_acls": true, "ignore_public_acls": true,
                         "block_public_policy": false, "restrict_public_buckets": false});
    assert_eq!(change(one).await, (OK, changed.clone()));
    assert_eq!(change(json!({})).await, (OK, changed.clone()));
    assert_eq!(get(&admin, path).await.1, changed);
    let (status, _) = change(json!({"block_everything": true})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let missing = "/v1/buckets/none/public-access";
    let (status, _) = ask(&admin, Method::PATCH, missing, json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn ownership_is_set_and_shown() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let at = |setting: &str| format!("/v1/buckets/photos/{setting}");
    let put = async |setting: &str, body: Value| ask(&admin, Method::PUT, &at(setting), body).await;
    let owner = |rule: &str| json!({ "ownership": rule });
    let enforced = owner("BucketOwnerEnforced");
    assert_eq!(get(&admin, &at("ownership")).await.1, enforced);
    for rule in ["ObjectWriter", "BucketOwnerPreferred"] {
        assert_eq!(put("ownership", owner(rule)).await, (OK, owner(rule)));
    }
    let open = json!({"block_public_acls": false, "ignore_public_acls": false,
                      "block_public_policy": true, "restrict_public_buckets": true});
    put("public-access", open).await;
    let model = &admin.model;
    let public = archipel_access::Acl {
        public_read: true,
        ..Default::default()
    };
    let bucket = model.bucket("photos").unwrap().unwrap();
    model.set_bucket_acl(&bucket, public).await.unwrap();
    let (status, refused) = put("ownership", enforced).await;
    let code = (status, &refused["code"]);
    assert_eq!(code, (StatusCode::CONFLICT, &json!("AclGrantsOthers")));
    let (status, _) = put("ownership", owner("Nobody")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn rules_of_no_bucket_are_refused() {
    let admin = admin().await;
    for setting in [
        "encryption",
        "public-access",
        "ownership",
        "cors",
        "notifications",
    ] {
        let none = get(&admin, &format!("/v1/buckets/none/{setting}")).await;
        assert_eq!(none.1["code"], json!("NoSuchBucket"), "{setting}");
    }
}

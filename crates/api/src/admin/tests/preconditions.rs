//! Changes of a document only while it is the one that the client saw.

use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::rules::target;
use super::{OK, admin, client, get, make_bucket, post};
use crate::admin::{Admin, Trust};

const CHANGED: StatusCode = StatusCode::PRECONDITION_FAILED;
const READ: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"}]}"#;
const WRITE: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::photos/*"}]}"#;

/// Sends a request with a condition. Returns the status, the tag and the code of the refusal.
async fn ask_if(
    admin: &Admin,
    method: Method,
    path: &str,
    condition: Option<(&str, &str)>,
    body: Value,
) -> (StatusCode, Option<String>, Value) {
    let mut request = Request::builder().method(method).uri(path);
    if let Some((name, value)) = condition {
        request = request.header(name, value);
    }
    let request = request.body(client::body(&body)).unwrap();
    let (parts, body) = client::exchange(admin, Trust::Peer, request).await;
    let tag = parts.headers.get("etag");
    let tag = tag.map(|tag| tag.to_str().unwrap().to_owned());
    (parts.status, tag, body["code"].clone())
}

async fn tag_of(admin: &Admin, path: &str) -> Option<String> {
    ask_if(admin, Method::GET, path, None, Value::Null).await.1
}

fn refused() -> (StatusCode, Option<String>, Value) {
    (CHANGED, None, json!("Changed"))
}

/// Changes a document as many do at once that saw the same of it: one of them changes it. Returns the tag that it
/// has then.
async fn is_changed_once(
    admin: &Admin,
    method: Method,
    path: &str,
    seen: &str,
    body: &Value,
) -> String {
    let change = async || {
        let condition = Some(("if-match", seen));
        ask_if(admin, method.clone(), path, condition, body.clone()).await
    };
    let done = futures_util::future::join_all((0..8).map(|_| change())).await;
    let changed: Vec<_> = done.iter().filter(|(status, ..)| *status == OK).collect();
    assert_eq!(changed.len(), 1, "{path}: {done:?}");
    let now = changed[0].1.clone().unwrap();
    assert_ne!(now, seen);
    assert_eq!(change().await, refused(), "{path}");
    assert_eq!(tag_of(admin, path).await, Some(now.clone()), "{path}");
    now
}

/// Changes a document in all ways. `first` and `second` are two values of it. It is deleted, or replaced by `nothing`.
async fn is_guarded(
    admin: &Admin,
    path: &str,
    first: Value,
    second: Value,
    nothing: Option<Value>,
) {
    let put = async |condition: (&str, &str), body: &Value| {
        let condition = Some(condition);
        ask_if(admin, Method::PUT, path, condition, body.clone()).await
    };
    let delete = async |condition: (&str, &str)| {
        let method = match nothing {
            Some(_) => Method::PUT,
            None => Method::DELETE,
        };
        let body = nothing.clone().unwrap_or_default();
        ask_if(admin, method, path, Some(condition), body).await
    };
    assert_eq!(tag_of(admin, path).await, None, "{path}");
    let refused = refused();
    // There is nothing that it could be.
    assert_eq!(put(("if-match", "\"x\""), &first).await, refused);
    assert_eq!(put(("if-match", "*"), &first).await, refused);
    let made = put(("if-none-match", "*"), &first).await;
    let seen = made.1.unwrap();
    assert_eq!(
        (made.0, tag_of(admin, path).await),
        (OK, Some(seen.clone()))
    );
    assert_eq!(put(("if-none-match", "*"), &second).await, refused);
    assert_eq!(tag_of(admin, path).await, Some(seen.clone()), "{path}");

    let now = is_changed_once(admin, Method::PUT, path, &seen, &second).await;
    assert_eq!(put(("if-match", &*seen), &first).await, refused);
    assert_eq!(delete(("if-match", &*seen)).await, refused);
    assert_eq!(tag_of(admin, path).await, Some(now.clone()), "{path}");

    let both = format!("{seen}, {now}");
    let deleted = delete(("if-match", &*both)).await;
    assert!(deleted.0.is_success(), "{path}");
    assert_eq!(deleted.1, None, "{path}");
    assert_eq!(tag_of(admin, path).await, None, "{path}");
    assert_eq!(delete(("if-match", &*now)).await, refused);
    let odd = put(("if-none-match", "\"x\""), &first).await;
    assert_eq!(odd.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn rules_of_a_bucket_that_were_changed_meanwhile_are_not_replaced() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let rules = |days: u32| json!({"rules": [{"id": "one", "expire_days": days}]});
    let path = "/v1/buckets/photos/lifecycle";
    is_guarded(&admin, path, rules(1), rules(2), None).await;
    assert_eq!(get(&admin, path).await.1, json!({"rules": []}));
}

/// The S3 API sets more of the rules than this one shows.
#[tokio::test]
async fn tag_of_rules_is_that_of_all_that_is_stored() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/lifecycle";
    let rule = json!({"id": "one", "disabled": false, "prefix": "a/", "expire_days": 1});
    let rules = json!({ "rules": [rule] });
    let put = ask_if(&admin, Method::PUT, path, None, rules.clone()).await;
    let seen = put.1.unwrap();
    let bucket = admin.model.bucket("photos").unwrap().unwrap();
    let stored = bucket.lifecycle.clone().unwrap();
    let mut varies = stored.clone();
    varies.minimum_size_varies = !stored.minimum_size_varies;
    let mut other_form = stored.clone();
    other_form.rules[0].filter.old_form = !stored.rules[0].filter.old_form;
    for changed in [varies, other_form] {
        let set = admin.model.set_lifecycle(&bucket, Some(changed)).await;
        set.unwrap();
        assert_eq!(get(&admin, path).await.1, rules);
        let condition = Some(("if-match", &*seen));
        let put = ask_if(&admin, Method::PUT, path, condition, rules.clone()).await;
        assert_eq!(put, refused());
    }
}

#[tokio::test]
async fn other_settings_of_a_bucket_that_were_changed_meanwhile_are_not_replaced() {
    let admin = admin().await;
    let targets = vec![target("log", Ok(()))];
    admin.model.set_event_targets(targets);
    make_bucket(&admin, "photos").await;
    let path = |part: &str| format!("/v1/buckets/photos/{part}");
    let tags = |team: &str| json!({"tags": [{"name": "team", "value": team}]});
    let none = Some(json!({"tags": []}));
    is_guarded(&admin, &path("tags"), tags("a"), tags("b"), none).await;
    let cors = |origin: &str| json!({"rules": [{"origins": [origin], "methods": ["GET"]}]});
    is_guarded(&admin, &path("cors"), cors("https://a"), cors("*"), None).await;
    let events = |prefix: &str| {
        json!({"rules": [{"id": "one", "target": "log", "events": ["s3:ObjectCreated:*"],
                          "prefix": prefix}]})
    };
    let (first, second) = (events("a/"), events("b/"));
    is_guarded(&admin, &path("notifications"), first, second, None).await;
}

#[tokio::test]
async fn managed_policies_and_roles_that_were_changed_meanwhile_are_not_replaced() {
    let admin = admin().await;
    post(&admin, "/v1/users", json!({"name": "anna"})).await;
    let change = async |path: &str, body: Value| {
        let changed = ask_if(&admin, Method::PATCH, path, None, body).await;
        assert_eq!(changed.0, OK, "{path}: {changed:?}");
    };
    let new = json!({"name": "own", "document": READ});
    post(&admin, "/v1/policies", new).await;
    let path = "/v1/policies/own";
    let seen = tag_of(&admin, path).await.unwrap();
    let other = json!({"document": WRITE});
    let now = is_changed_once(&admin, Method::PUT, path, &seen, &other).await;
    assert_eq!(get(&admin, path).await.1["version"], json!(2));
    // The tag says nothing of the users that have the policy.
    change("/v1/users/anna", json!({"attach": ["own"]})).await;
    assert_eq!(tag_of(&admin, path).await, Some(now));
    let free = Some(("if-none-match", "*"));
    let put = ask_if(&admin, Method::PUT, path, free, other).await;
    assert_eq!(put, refused());

    let new = json!({"name": "backup", "trust": super::TRUST});
    post(&admin, "/v1/roles", new).await;
    let path = "/v1/roles/backup";
    let seen = tag_of(&admin, path).await.unwrap();
    let other = json!({"description": "nightly"});
    let now = is_changed_once(&admin, Method::PATCH, path, &seen, &other).await;
    change(path, json!({"max_session_seconds": 7200})).await;
    let late = Some(("if-match", &*now));
    let patched = ask_if(&admin, Method::PATCH, path, late, other).await;
    assert_eq!(patched, refused());
    assert_eq!(get(&admin, path).await.1["max_session_seconds"], 7200);
}

#[tokio::test]
async fn policies_that_were_changed_meanwhile_are_not_replaced() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let (read, write) = (json!({"document": READ}), json!({"document": WRITE}));
    for (kind, trust) in [
        ("users", None),
        ("groups", None),
        ("roles", Some(super::TRUST)),
    ] {
        let mut new = json!({"name": "anna"});
        if let Some(trust) = trust {
            new["trust"] = json!(trust);
        }
        post(&admin, &format!("/v1/{kind}"), new).await;
        let path = format!("/v1/inline-policies/{kind}/anna/own");
        is_guarded(&admin, &path, read.clone(), write.clone(), None).await;
    }
    // Of a bucket, they say for whom.
    let whom = r#""Principal": {"AWS": "arn:aws:iam::000000000000:user/anna"}, "Action""#;
    let of = |policy: &str| json!({"document": policy.replace("\"Action\"", whom)});
    let path = "/v1/buckets/photos/policy";
    is_guarded(&admin, path, of(READ), of(WRITE), None).await;
}

/// A condition that is ignored would let a client undo the change of another one.
#[tokio::test]
async fn conditions_are_refused_where_they_are_not_known() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let refused = (StatusCode::BAD_REQUEST, None, json!("InvalidRequest"));
    for (name, value) in [("if-match", "\"x\""), ("if-none-match", "*")] {
        for (method, path, body) in [
            (
                Method::PUT,
                "/v1/buckets/photos/quota",
                json!({"objects": 1}),
            ),
            (Method::DELETE, "/v1/policies/own", Value::Null),
            (Method::DELETE, "/v1/roles/backup", Value::Null),
        ] {
            let condition = Some((name, value));
            let answer = ask_if(&admin, method, path, condition, body).await;
            assert_eq!(answer, refused, "{path} with {name}");
        }
        let shown = ask_if(
            &admin,
            Method::GET,
            "/v1/buckets/photos/quota",
            Some((name, value)),
            Value::Null,
        );
        assert_eq!(shown.await.0, OK, "{name}");
    }
}

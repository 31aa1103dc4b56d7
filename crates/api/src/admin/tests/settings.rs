use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{admin, ask, get, make_bucket};

#[tokio::test]
async fn versions_are_enabled_and_suspended_and_never_end() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/versioning";
    assert_eq!(get(&admin, path).await.1, json!({"state": "never"}));
    for state in ["enabled", "suspended", "enabled"] {
        let set = json!({ "state": state });
        let shown = ask(&admin, Method::PUT, path, set.clone()).await;
        assert_eq!(shown, (StatusCode::OK, set.clone()));
        assert_eq!(get(&admin, path).await.1, set);
    }
    for bad in [json!({"state": "never"}), json!({"state": "on"}), json!({})] {
        let (status, _) = ask(&admin, Method::PUT, path, bad).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
    let none = get(&admin, "/v1/buckets/none/versioning").await;
    assert_eq!(none.1["code"], json!("NoSuchBucket"));
}

#[tokio::test]
async fn a_lock_needs_versions_and_keeps_them() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/lock";
    assert_eq!(get(&admin, path).await.1, json!({"enabled": false}));
    let put = async |body: Value| ask(&admin, Method::PUT, path, body).await;
    let (status, refused) = put(json!({"enabled": true})).await;
    let code = (status, &refused["code"]);
    assert_eq!(code, (StatusCode::CONFLICT, &json!("LockNeedsVersions")));
    let versioning = "/v1/buckets/photos/versioning";
    ask(&admin, Method::PUT, versioning, json!({"state": "enabled"})).await;
    for set in [
        json!({"enabled": true}),
        json!({"enabled": true, "mode": "governance", "days": 30}),
        json!({"enabled": true, "mode": "compliance", "years": 2}),
    ] {
        assert_eq!(put(set.clone()).await, (StatusCode::OK, set.clone()));
        assert_eq!(get(&admin, path).await.1, set);
    }
    for bad in [
        json!({"enabled": false}),
        json!({"enabled": true, "mode": "governance"}),
        json!({"enabled": true, "days": 1}),
        json!({"enabled": true, "mode": "compliance", "days": 0}),
        json!({"enabled": true, "mode": "compliance", "years": 101}),
        json!({"enabled": true, "mode": "compliance", "years": 1, "days": 1}),
        json!({"enabled": true, "mode": "strict", "days": 1}),
    ] {
        let (status, _) = put(bad.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}");
    }
    let suspend = json!({"state": "suspended"});
    let (status, refused) = ask(&admin, Method::PUT, versioning, suspend).await;
    let code = (status, &refused["code"]);
    assert_eq!(code, (StatusCode::CONFLICT, &json!("LockKeepsVersions")));
}

#[tokio::test]
async fn tags_are_replaced_within_the_limits_of_s3() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/tags";
    assert_eq!(get(&admin, path).await.1, json!({"tags": []}));
    let tag = |name: &str, value: &str| json!({"name": name, "value": value});
    let set = json!({"tags": [tag("team", "a b+c=d@e"), tag("cost", "")]});
    let shown = ask(&admin, Method::PUT, path, set.clone()).await;
    assert_eq!(shown, (StatusCode::OK, set.clone()));
    let many: Vec<Value> = (0..51).map(|n| tag(&n.to_string(), "")).collect();
    for bad in [
        json!([tag("", "x")]),
        json!([tag("a", "1"), tag("a", "2")]),
        json!(many),
    ] {
        let (status, _) = ask(&admin, Method::PUT, path, json!({"tags": bad})).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}");
    }
    assert_eq!(get(&admin, path).await.1, set);
    ask(&admin, Method::PUT, path, json!({"tags": []})).await;
    assert_eq!(get(&admin, path).await.1, json!({"tags": []}));
}

#[tokio::test]
async fn rules_are_checked_as_the_s3_api_checks_them() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/lifecycle";
    assert_eq!(get(&admin, path).await.1, json!({"rules": []}));
    let put = async |rules: Value| ask(&admin, Method::PUT, path, json!({"rules": rules})).await;
    let rules = json!([
        {"id": "logs", "disabled": false, "prefix": "logs/", "expire_days": 30, "abort_days": 7},
        {"id": "old", "disabled": true, "tags": [{"name": "a", "value": "b"}], "larger_than": 10,
         "smaller_than": 100, "noncurrent_days": 5, "noncurrent_keep": 3},
        {"id": "markers", "disabled": false, "expire_markers": true},
        {"id": "date", "disabled": false, "expire_at_ms": 1_767_225_600_000_u64},
    ]);
    let shown = json!({ "rules": rules });
    assert_eq!(put(rules).await, (StatusCode::OK, shown.clone()));
    for bad in [
        json!([]),
        json!([{"id": "nothing"}]),
        json!([{"expire_days": 0}]),
        json!([{"expire_days": 1, "expire_markers": true}]),
        json!([{"expire_at_ms": 1}]),
        json!([{"noncurrent_keep": 1}]),
        json!([{"noncurrent_days": 1, "noncurrent_keep": 101}]),
        json!([{"id": "a", "expire_days": 1}, {"id": "a", "expire_days": 2}]),
        json!([{"abort_days": 1, "tags": [{"name": "a", "value": "b"}]}]),
        json!([{"expire_days": 1, "larger_than": 9, "smaller_than": 9}]),
        json!([{"expire_days": 1, "days": 1}]),
    ] {
        let (status, refused) = put(bad.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}: {refused}");
    }
    assert_eq!(get(&admin, path).await.1, shown);
    let (_, named) = put(json!([{"expire_days": 1}])).await;
    assert_eq!(named["rules"][0]["id"].as_str().unwrap().len(), 32);
    let (status, _) = ask(&admin, Method::DELETE, path, Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(get(&admin, path).await.1, json!({"rules": []}));
}

#[tokio::test]
async fn as_many_rules_are_set_as_the_s3_api_takes() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/lifecycle";
    let prefix = "p".repeat(100);
    let rule = |n: u32| {
        json!({"id": format!("rule-{n}"), "disabled": false, "prefix": format!("{prefix}{n}"),
               "expire_days": 1})
    };
    let rules = json!({"rules": (0..1000).map(rule).collect::<Vec<_>>()});
    assert!(rules.to_string().len() > 64 << 10);
    let set = ask(&admin, Method::PUT, path, rules.clone()).await;
    assert_eq!(set, (StatusCode::OK, rules));
    let more = json!({"rules": (0..1001).map(rule).collect::<Vec<_>>()});
    let (status, refused) = ask(&admin, Method::PUT, path, more).await;
    let told = (status, refused["detail"].as_str().unwrap());
    let why = "rules: give 1 to 1000, or delete them";
    assert_eq!(told, (StatusCode::BAD_REQUEST, why));
    // Other bodies are short.
    let long = json!({"tags": [{"name": "a", "value": "v".repeat(64 << 10)}]});
    let (status, refused) = ask(&admin, Method::PUT, "/v1/buckets/photos/tags", long).await;
    let code = (status, &refused["code"]);
    assert_eq!(code, (StatusCode::PAYLOAD_TOO_LARGE, &json!("TooLarge")));
}

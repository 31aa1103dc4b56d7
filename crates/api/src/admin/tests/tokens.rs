//! Tokens of the cluster, and what their scopes open.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{METRICS_TOKEN, Trust, admin, ask, get, make_bucket, post, send};
use crate::admin::Admin;

/// Creates a token over the local socket. Returns its secret and its id.
async fn token(admin: &Admin, scopes: &[&str]) -> (String, String) {
    let body = json!({"name": "ci", "scopes": scopes});
    let (status, made) = ask(admin, Method::POST, "/v1/tokens", body).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("secret"), text("id"))
}

/// Sends a request over TCP with a token.
async fn with(admin: &Admin, token: &str, method: Method, path: &str, body: Value) -> StatusCode {
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header("authorization", format!("Bearer {token}"));
    let request = request.body(Full::new(body)).unwrap();
    send(admin, Trust::Token, request).await.0
}

async fn sees(admin: &Admin, token: &str, path: &str) -> StatusCode {
    with(admin, token, Method::GET, path, Value::Null).await
}

const FORBIDDEN: StatusCode = StatusCode::FORBIDDEN;
const OK: StatusCode = StatusCode::OK;

#[tokio::test]
async fn a_right_to_read_shows_everything_but_secrets_and_changes_nothing() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let (_, key) = ask(&admin, Method::POST, "/v1/keys", json!({"name": "k"})).await;
    let key = format!("/v1/keys/{}", key["id"].as_str().unwrap());
    let (secret, _) = token(&admin, &["all:read"]).await;
    for path in [
        "/v1/status",
        "/v1/buckets",
        "/v1/buckets/photos",
        "/metrics",
        "/v1/tokens",
        &key,
    ] {
        assert_eq!(sees(&admin, &secret, path).await, OK, "{path}");
    }
    assert_eq!(
        sees(&admin, &secret, &format!("{key}/secret")).await,
        FORBIDDEN
    );
    let bucket = json!({"name": "other"});
    for (method, path, body) in [
        (Method::POST, "/v1/buckets", bucket),
        (Method::DELETE, "/v1/buckets/photos", Value::Null),
        (Method::DELETE, &*key, Value::Null),
        (
            Method::POST,
            "/v1/tokens",
            json!({"name": "x", "scopes": ["all:write"]}),
        ),
        (Method::POST, "/v1/scrub/start", json!({})),
    ] {
        let status = with(&admin, &secret, method, path, body).await;
        assert_eq!(status, FORBIDDEN, "{path}");
    }
    assert_eq!(get(&admin, "/v1/buckets/photos").await.0, OK);
    let explain = json!({"key": "anonymous", "action": "s3:GetObject", "resource": "photos/a"});
    let explained = with(&admin, &secret, Method::POST, "/v1/access/explain", explain).await;
    assert_eq!(explained, OK);
}

#[tokio::test]
async fn a_scope_opens_its_resource_and_its_bucket_only() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    make_bucket(&admin, "letters").await;
    let (keys, _) = token(&admin, &["keys:write"]).await;
    assert_eq!(sees(&admin, &keys, "/v1/keys").await, OK);
    assert_eq!(sees(&admin, &keys, "/v1/buckets").await, FORBIDDEN);
    assert_eq!(sees(&admin, &keys, "/v1/openapi.json").await, OK);
    let new = json!({"name": "k"});
    let made = with(&admin, &keys, Method::POST, "/v1/keys", new).await;
    assert_eq!(made, StatusCode::CREATED);

    let (photos, _) = token(&admin, &["buckets/photos:write"]).await;
    assert_eq!(sees(&admin, &photos, "/v1/buckets/photos").await, OK);
    assert_eq!(
        sees(&admin, &photos, "/v1/buckets/letters").await,
        FORBIDDEN
    );
    assert_eq!(
        sees(&admin, &photos, "/v1/buckets/%6cetters").await,
        FORBIDDEN
    );
    assert_eq!(sees(&admin, &photos, "/v1/buckets").await, FORBIDDEN);
    let website = json!({"index": "index.html"});
    let path = "/v1/buckets/photos/website";
    assert_eq!(
        with(&admin, &photos, Method::PUT, path, website.clone()).await,
        OK
    );
    let path = "/v1/buckets/letters/website";
    assert_eq!(
        with(&admin, &photos, Method::PUT, path, website).await,
        FORBIDDEN
    );
}

/// A name of a key alone comes before the names of buckets: it would take the key's requests elsewhere.
#[tokio::test]
async fn a_token_for_one_bucket_changes_no_names() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let (_, key) = ask(&admin, Method::POST, "/v1/keys", json!({"name": "k"})).await;
    let for_all = json!({"name": "letters"});
    let for_key = json!({"name": "letters", "key": key["id"]});
    let path = "/v1/buckets/photos/aliases";
    let add = async |scopes: &[&str], alias: &Value| {
        let (secret, _) = token(&admin, scopes).await;
        with(&admin, &secret, Method::POST, path, alias.clone()).await
    };
    let one = &["buckets/photos:write"];
    assert_eq!(add(one, &for_all).await, FORBIDDEN);
    assert_eq!(add(one, &for_key).await, FORBIDDEN);
    assert_eq!(add(&["buckets:write"], &for_key).await, FORBIDDEN);
    assert_eq!(add(&["buckets:write", "keys:write"], &for_key).await, OK);
    assert_eq!(add(&["buckets:write"], &for_all).await, OK);
    let (secret, _) = token(&admin, one).await;
    let path = format!("{path}/letters");
    let removed = with(&admin, &secret, Method::DELETE, &path, Value::Null).await;
    assert_eq!(removed, FORBIDDEN);
}

#[tokio::test]
async fn a_token_opens_nothing_once_it_is_revoked_or_expired() {
    let admin = admin().await;
    let (secret, id) = token(&admin, &["all:read"]).await;
    assert_eq!(sees(&admin, &secret, "/v1/status").await, OK);
    assert_eq!(
        sees(&admin, &format!("{secret}X"), "/v1/status").await,
        StatusCode::UNAUTHORIZED
    );
    let (_, current) = {
        let request = Request::builder().uri("/v1/tokens/self");
        let request = request.header("authorization", format!("Bearer {secret}"));
        send(&admin, Trust::Token, request.body(Full::default()).unwrap()).await
    };
    assert_eq!(
        (&current["id"], &current["secret"]),
        (&json!(id), &Value::Null)
    );
    let path = format!("/v1/tokens/{id}");
    let (status, _) = ask(&admin, Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(
        sees(&admin, &secret, "/v1/status").await,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(get(&admin, &path).await.1["code"], "NoSuchToken");

    let body = json!({"name": "short", "scopes": ["all:write"], "valid_seconds": 0});
    let (status, error) = ask(&admin, Method::POST, "/v1/tokens", body).await;
    let told = (status, &error["code"]);
    assert_eq!(told, (StatusCode::BAD_REQUEST, &json!("InvalidRequest")));
}

#[tokio::test]
async fn the_expiry_of_a_token_is_removed_by_0_alone() {
    let admin = admin().await;
    let body = json!({"name": "ci", "scopes": ["all:read"], "valid_seconds": 60});
    let made = post(&admin, "/v1/tokens", body).await;
    let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    for change in [json!({"name": "other"}), json!({"valid_seconds": null})] {
        let (status, token) = ask(&admin, Method::PATCH, &path, change).await;
        assert_eq!(status, OK, "{token}");
        assert_eq!(token["expires_ms"], made["expires_ms"]);
    }
    let never = json!({"valid_seconds": 0});
    let (status, token) = ask(&admin, Method::PATCH, &path, never).await;
    assert_eq!((status, token.get("expires_ms")), (OK, None), "{token}");
    assert_eq!(get(&admin, &path).await.1, token);
}

#[tokio::test]
async fn scopes_that_mean_nothing_are_refused() {
    let admin = admin().await;
    for scope in [
        "",
        "all",
        "all:",
        "all:admin",
        "cats:read",
        "keys/AK:read",
        "tokens:write",
    ] {
        let body = json!({"name": "ci", "scopes": [scope]});
        let (status, error) = ask(&admin, Method::POST, "/v1/tokens", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{scope}");
        assert!(
            error["detail"].as_str().unwrap().contains("scope"),
            "{error}"
        );
    }
    let none = json!({"name": "ci", "scopes": []});
    let (status, error) = ask(&admin, Method::POST, "/v1/tokens", none).await;
    let told = (status, &error["code"]);
    assert_eq!(told, (StatusCode::BAD_REQUEST, &json!("InvalidRequest")));
}

#[tokio::test]
async fn the_token_for_metrics_of_the_settings_opens_nothing_else() {
    let admin = admin().await;
    assert_eq!(sees(&admin, METRICS_TOKEN, "/metrics").await, OK);
    let refused = sees(&admin, METRICS_TOKEN, "/v1/metrics").await;
    assert_eq!(refused, StatusCode::UNAUTHORIZED);
    let (scoped, _) = token(&admin, &["metrics:read"]).await;
    for path in ["/metrics", "/v1/metrics"] {
        assert_eq!(sees(&admin, &scoped, path).await, OK, "{path}");
    }
}

#[tokio::test]
async fn only_a_token_that_may_start_lifecycle_rules_may_stop_them() {
    let admin = admin().await;
    let (writes, _) = token(&admin, &["lifecycle:write"]).await;
    let (reads, _) = token(&admin, &["lifecycle:read"]).await;
    let send = async |secret: &str, path: &str| {
        let path = format!("/v1/lifecycle/{path}");
        with(&admin, secret, Method::POST, &path, Value::Null).await
    };
    let waits = async || get(&admin, "/v1/lifecycle").await.1["waiting"].clone();
    assert_eq!(send(&writes, "start").await, StatusCode::ACCEPTED);
    // Nothing drives the walk in this test.
    assert_eq!(waits().await, json!(true));
    assert_eq!(sees(&admin, &reads, "/v1/lifecycle").await, OK);
    assert_eq!(send(&reads, "stop").await, FORBIDDEN);
    assert_eq!(waits().await, json!(true));
    assert_eq!(send(&writes, "stop").await, OK);
    assert_eq!(waits().await, json!(false));
    assert_eq!(send(&writes, "stop").await, OK, "nothing is under way");
}

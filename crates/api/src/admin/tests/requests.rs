//! Requests that are refused, and lists in pages.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{admin, ask, get, make_bucket, post};

#[tokio::test]
async fn unknown_requests_are_refused_in_json() {
    let admin = admin().await;
    for (method, path, body, expected) in [
        (Method::GET, "/", Value::Null, StatusCode::NOT_FOUND),
        (Method::GET, "/v1/other", Value::Null, StatusCode::NOT_FOUND),
        (
            Method::PUT,
            "/v1/buckets",
            Value::Null,
            StatusCode::METHOD_NOT_ALLOWED,
        ),
        (
            Method::POST,
            "/v1/buckets",
            Value::Null,
            StatusCode::BAD_REQUEST,
        ),
        (
            Method::POST,
            "/v1/buckets",
            json!({"nme": "x"}),
            StatusCode::BAD_REQUEST,
        ),
        // The order of fields is no part of the API.
        (
            Method::POST,
            "/v1/buckets",
            json!(["photos"]),
            StatusCode::BAD_REQUEST,
        ),
        (
            Method::POST,
            "/v1/keys",
            json!({"name": "x".repeat(70_000)}),
            StatusCode::PAYLOAD_TOO_LARGE,
        ),
        (
            Method::GET,
            "/v1/keys/%ff",
            Value::Null,
            StatusCode::BAD_REQUEST,
        ),
        (
            Method::GET,
            "/v1/keys?naem=x",
            Value::Null,
            StatusCode::BAD_REQUEST,
        ),
        (
            Method::GET,
            "/v1/keys?limit=0",
            Value::Null,
            StatusCode::BAD_REQUEST,
        ),
        (
            Method::DELETE,
            "/v1/buckets/photos?force=true",
            Value::Null,
            StatusCode::BAD_REQUEST,
        ),
    ] {
        let (status, error) = ask(&admin, method, path, body).await;
        assert_eq!(status, expected, "{path}");
        assert!(
            error["code"].is_string()
                && error["detail"].is_string()
                && error["status"] == expected.as_u16(),
            "{path}: {error}"
        );
    }
}

#[tokio::test]
async fn an_error_shows_only_the_beginning_of_a_wrong_value() {
    let admin = admin().await;
    let body = json!({"name": 1, "expires_ms": "x".repeat(20_000)});
    let (status, error) = ask(&admin, Method::POST, "/v1/keys", body).await;
    let detail = error["detail"].as_str().unwrap();
    assert!(
        status == StatusCode::BAD_REQUEST && detail.len() < 400,
        "{error}"
    );
    let body = json!({"expires_ms": "x".repeat(20_000)});
    let (_, error) = ask(&admin, Method::POST, "/v1/keys", body).await;
    let detail = error["detail"].as_str().unwrap();
    assert!(detail.ends_with("...") && detail.len() < 400, "{error}");
    // Here the path of the field is long, too.
    let long = "x".repeat(20_000);
    let (_, error) = ask(&admin, Method::POST, "/v1/keys", json!({ long: 1 })).await;
    let detail = error["detail"].as_str().unwrap();
    assert!(
        detail.contains("unknown field") && detail.len() < 500,
        "{error}"
    );
}

#[tokio::test]
async fn list_is_no_object_within_a_body_and_errors_name_the_field() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    for (of, body, why) in [
        (
            "lifecycle",
            json!({"rules": [["id", false]]}),
            "rules[0]: invalid type: sequence, expected an object",
        ),
        (
            "tags",
            json!({"tags": [["team", "a"]]}),
            "tags[0]: invalid type: sequence, expected an object",
        ),
        (
            "tags",
            json!({"tags": [{"name": "a", "value": "b", "vlaue": "c"}]}),
            "tags[0].vlaue: unknown field `vlaue`",
        ),
        (
            "website",
            json!({"redirect": ["example.com", null]}),
            "redirect: invalid type: sequence, expected an object",
        ),
        (
            "cors",
            json!({"rules": [{"methods": ["GET"], "origins": "*"}]}),
            "rules[0].origins: invalid type: string \"*\"",
        ),
        (
            "versioning",
            json!({"state": "on"}),
            "state: unknown variant `on`",
        ),
    ] {
        let path = format!("/v1/buckets/photos/{of}");
        let (status, error) = ask(&admin, Method::PUT, &path, body).await;
        let begin = format!("the body is not what is expected: {why}");
        let detail = error["detail"].as_str().unwrap();
        assert!(
            status == StatusCode::BAD_REQUEST && detail.starts_with(&begin),
            "{of}: {error}"
        );
    }
}

#[tokio::test]
async fn errors_name_the_bucket_or_the_access_key_that_is_missing() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let key = post(&admin, "/v1/keys", json!({"name": "k"})).await;
    let grant = format!("/v1/buckets/none/grants/{}", key["id"].as_str().unwrap());
    let explain = |key: &str, bucket: &str| {
        let action = "s3:ListBucket";
        json!({"key": key, "action": action, "resource": bucket})
    };
    for (method, path, body, name) in [
        (Method::GET, "/v1/buckets/none", Value::Null, "none"),
        (Method::DELETE, "/v1/buckets/none", Value::Null, "none"),
        (Method::PUT, "/v1/buckets/none/quota", json!({}), "none"),
        (
            Method::POST,
            "/v1/buckets/none/aliases",
            json!({"name": "other"}),
            "none",
        ),
        (
            Method::DELETE,
            "/v1/buckets/none/aliases/other",
            Value::Null,
            "none",
        ),
        (Method::PATCH, &*grant, json!({"read": true}), "none"),
        (
            Method::POST,
            "/v1/access/explain",
            explain("anonymous", "none"),
            "none",
        ),
        (
            Method::POST,
            "/v1/access/explain",
            explain("AKNONE", "photos"),
            "AKNONE",
        ),
        (
            Method::PATCH,
            "/v1/buckets/photos/grants/AKNONE",
            json!({"read": true}),
            "AKNONE",
        ),
        (
            Method::POST,
            "/v1/buckets/photos/aliases",
            json!({"name": "other", "key": "AKNONE"}),
            "AKNONE",
        ),
        (
            Method::POST,
            "/v1/buckets",
            json!({"name": "other", "owner": "AKNONE"}),
            "AKNONE",
        ),
        (Method::GET, "/v1/keys/AKNONE", Value::Null, "AKNONE"),
        (
            Method::PATCH,
            "/v1/keys/AKNONE",
            json!({"disabled": true}),
            "AKNONE",
        ),
        (Method::DELETE, "/v1/keys/AKNONE", Value::Null, "AKNONE"),
    ] {
        let (status, error) = ask(&admin, method.clone(), path, body).await;
        let told = error["detail"].as_str().unwrap();
        assert!(
            status == StatusCode::NOT_FOUND && told.contains(&format!(": {name:?}; fix: ")),
            "{method} {path}: {error}"
        );
    }
}

#[tokio::test]
async fn times_beyond_the_year_9999_are_refused() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let last = json!({"name": "k", "expires_ms": 253_402_300_799_999_u64});
    let key = post(&admin, "/v1/keys", last).await;
    let key = format!("/v1/keys/{}", key["id"].as_str().unwrap());
    let lifecycle = "/v1/buckets/photos/lifecycle";
    let token = json!({"name": "t", "scopes": ["all:read"], "valid_seconds": u64::MAX});
    for (method, path, body) in [
        (
            Method::POST,
            "/v1/keys",
            json!({"name": "k", "expires_ms": 253_402_300_800_000_u64}),
        ),
        (Method::PATCH, &*key, json!({"expires_ms": u64::MAX})),
        (Method::POST, "/v1/tokens", token),
        (
            Method::PUT,
            lifecycle,
            json!({"rules": [{"expire_at_ms": u64::MAX}]}),
        ),
    ] {
        let (status, error) = ask(&admin, method, path, body).await;
        let told = error["detail"].as_str().unwrap();
        assert!(
            status == StatusCode::BAD_REQUEST && told.contains("after the year 9999"),
            "{path}: {error}"
        );
    }
}

#[tokio::test]
async fn a_body_is_refused_where_none_is_read() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let public = "/v1/buckets/photos/public";
    for (method, path) in [
        (Method::GET, "/v1/buckets"),
        (Method::PUT, public),
        (Method::DELETE, "/v1/buckets/photos"),
        (Method::POST, "/v1/lifecycle/start"),
    ] {
        for body in [json!({"name": "x"}), json!([]), json!("text")] {
            let (status, error) = ask(&admin, method.clone(), path, body).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {error}");
            assert_eq!(error["detail"], "the body: this request takes none");
        }
    }
    assert_eq!(get(&admin, "/v1/buckets/photos").await.0, StatusCode::OK);
    for body in [Value::Null, json!({})] {
        let (status, started) = ask(&admin, Method::POST, "/v1/lifecycle/start", body).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{started}");
    }
}

/// A probe may add a parameter, so that no proxy answers for the node.
#[tokio::test]
async fn health_takes_any_parameter() {
    let admin = admin().await;
    assert_eq!(get(&admin, "/health/live?now=1").await.0, StatusCode::OK);
}

#[tokio::test]
async fn lists_come_in_pages_and_are_filtered() {
    let admin = admin().await;
    for name in ["aaa", "bbb-1", "bbb-2", "ccc"] {
        make_bucket(&admin, name).await;
    }
    let names = async |path: &str| {
        let (_, page) = get(&admin, path).await;
        let items = page["items"].as_array().unwrap().iter();
        let names: Vec<String> = items
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect();
        (names.join(" "), page["next"].clone())
    };
    let first = names("/v1/buckets?limit=3").await;
    assert_eq!(first, ("aaa bbb-1 bbb-2".into(), json!("bbb-2")));
    let second = names("/v1/buckets?limit=3&after=bbb-2").await;
    assert_eq!(second, ("ccc".into(), Value::Null));
    let some = names("/v1/buckets?prefix=bbb").await;
    assert_eq!(some, ("bbb-1 bbb-2".into(), Value::Null));
}

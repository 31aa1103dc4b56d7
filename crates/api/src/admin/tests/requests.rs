//! Requests that are refused, and lists in pages.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{admin, ask, get, make_bucket};

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

//! Long operations in one shape.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{admin, ask, get};

#[tokio::test]
async fn operations_tell_their_progress_and_are_found_by_id() {
    let admin = admin().await;
    let list = async |query: &str| -> Vec<Value> {
        let (status, page) = get(&admin, &format!("/v1/operations{query}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        page["items"].as_array().unwrap().clone()
    };
    let all = list("").await;
    let ids: Vec<&str> = all.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(ids.is_sorted() && ids.contains(&"verification"), "{ids:?}");
    let scrubs = list("?kind=scrub").await;
    assert_eq!(scrubs.len(), 1, "{scrubs:?}");
    let (_, verification) = get(&admin, "/v1/operations/verification").await;
    assert_eq!(verification["state"], "idle");
    assert_eq!(verification["began_ms"], Value::Null);

    let (status, _) = ask(&admin, Method::POST, "/v1/verify", json!({})).await;
    assert_eq!(status, StatusCode::OK);
    // It ends by itself: the loop does, too, or the test's time is over.
    loop {
        let (_, one) = get(&admin, "/v1/operations/verification").await;
        match one["state"].as_str().unwrap() {
            "running" => tokio::task::yield_now().await,
            state => {
                assert_eq!((state, &one["problems"]), ("done", &json!(0)));
                assert!(one["began_ms"].as_u64().is_some());
                break;
            }
        }
    }
    let (status, error) = get(&admin, "/v1/operations/none").await;
    assert_eq!(
        (status, &error["code"]),
        (StatusCode::NOT_FOUND, &json!("NoSuchOperation"))
    );
    let (status, _) = get(&admin, "/v1/operations?kind=dance").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

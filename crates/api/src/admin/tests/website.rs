use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{admin, ask, get, make_bucket};

#[tokio::test]
async fn websites_are_enabled_shown_and_disabled() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/website";
    let (status, error) = get(&admin, path).await;
    let code = (status.as_u16(), &error["code"]);
    assert_eq!(code, (404, &json!("NoSuchWebsite")));
    let bad = json!({"index": "a/b"});
    let (status, _) = ask(&admin, Method::PUT, path, bad).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let set = json!({"index": "index.html", "error": "404.html"});
    let (status, shown) = ask(&admin, Method::PUT, path, set).await;
    assert_eq!(
        (status, &shown["error"]),
        (StatusCode::OK, &json!("404.html"))
    );
    assert_eq!(get(&admin, path).await, (StatusCode::OK, shown));
    let (status, _) = ask(&admin, Method::POST, path, Value::Null).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    let (status, _) = ask(&admin, Method::DELETE, path, Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(get(&admin, path).await.0, StatusCode::NOT_FOUND);
    let none = ask(
        &admin,
        Method::DELETE,
        "/v1/buckets/none/website",
        Value::Null,
    )
    .await;
    assert_eq!(none.1["code"], json!("NoSuchBucket"));
}

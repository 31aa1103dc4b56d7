use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{admin, ask, get, make_bucket};

#[tokio::test]
async fn websites_have_rules_or_redirect_everything() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let path = "/v1/buckets/photos/website";
    let put = async |set: Value| ask(&admin, Method::PUT, path, set).await;
    let rules = json!([
        {"key_prefix": "old/", "replace_prefix": "new/", "status": 302},
        {"error_status": 404, "host": "example.com", "protocol": "https", "replace_key": "gone"},
    ]);
    let (status, shown) = put(json!({"index": "index.html", "rules": rules})).await;
    assert_eq!((status, &shown["rules"]), (StatusCode::OK, &rules));
    // Rules that are not named stay.
    let (_, shown) = put(json!({"index": "start.html"})).await;
    assert_eq!(
        (&shown["index"], &shown["rules"]),
        (&json!("start.html"), &rules)
    );
    for bad in [
        json!({}),
        json!({"rules": rules}),
        json!({"index": "i", "redirect": {"host": "example.com"}}),
        json!({"redirect": {"host": "example.com"}, "rules": []}),
        json!({"redirect": {"host": "a b"}}),
        json!({"redirect": {"host": "example.com", "protocol": "ftp"}}),
        json!({"index": "i", "rules": [{}]}),
        json!({"index": "i", "rules": [{"host": "a", "status": 200}]}),
        json!({"index": "i", "rules": [{"replace_key": "a", "replace_prefix": "b"}]}),
        json!({"index": "i", "rules": vec![json!({"host": "a"}); 51]}),
    ] {
        let (status, refused) = put(bad.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}: {refused}");
    }
    assert_eq!(get(&admin, path).await.1, shown);
    let (_, all) = put(json!({"redirect": {"host": "example.com", "protocol": "https"}})).await;
    assert_eq!(
        all,
        json!({"bucket": "photos", "rules": [],
               "redirect": {"host": "example.com", "protocol": "https"}})
    );
    let (_, shown) = put(json!({"index": "i", "rules": []})).await;
    assert_eq!(
        (&shown["rules"], &shown["redirect"]),
        (&json!([]), &Value::Null)
    );
}

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

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{admin, ask, get, make_bucket};

#[tokio::test]
async fn names_of_buckets_are_added_listed_and_removed() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let (_, key) = ask(&admin, Method::POST, "/v1/keys", json!({"name": "laptop"})).await;
    let id = key["id"].as_str().unwrap();
    let aliases = "/v1/buckets/photos/aliases";
    let add = async |body: Value| ask(&admin, Method::POST, aliases, body).await;
    let (status, info) = add(json!({"name": "www.example.org"})).await;
    assert_eq!(
        (status, &info["aliases"]),
        (StatusCode::OK, &json!(["www.example.org"]))
    );
    let (_, info) = add(json!({"name": "mine", "key": id})).await;
    assert_eq!(info["names_of_keys"], json!([{"key": id, "name": "mine"}]));
    let (status, shown) = get(&admin, "/v1/buckets/www.example.org").await;
    assert_eq!((status, shown), (StatusCode::OK, info));
    let (status, _) = add(json!({"name": "Not A Name"})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (_, error) = add(json!({"name": "mine", "key": "AKNONE"})).await;
    assert_eq!(error["code"], json!("NoSuchAccessKey"));
    let taken = make_bucket(&admin, "www.example.org").await;
    assert_eq!(taken.0, StatusCode::CONFLICT);

    let remove = async |name: &str| {
        ask(
            &admin,
            Method::DELETE,
            &format!("{aliases}/{name}"),
            Value::Null,
        )
        .await
    };
    assert_eq!(remove("photos").await.1["code"], json!("OwnName"));
    assert_eq!(remove("other").await.1["code"], json!("NoSuchAlias"));
    assert_eq!(remove("mine?ky=x").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(remove("www.example.org").await.0, StatusCode::NO_CONTENT);
    assert_eq!(
        remove(&format!("mine?key={id}")).await.0,
        StatusCode::NO_CONTENT
    );
    let (_, info) = get(&admin, "/v1/buckets/photos").await;
    assert_eq!(
        (&info["aliases"], &info["names_of_keys"]),
        (&json!([]), &json!([]))
    );
}

//! Incomplete uploads and single objects.

use archipel_model::{Condition, MAX_KEY_BYTES, ObjectMeta, UploadMeta, Versioning};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{OK, admin, ask, get, make_bucket};

#[tokio::test]
async fn uploads_are_listed_in_pages_counted_and_aborted() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let bucket = admin.model.bucket("photos").unwrap().unwrap();
    for key in ["a/1", "a/1", "b"] {
        let meta = UploadMeta::default();
        let begun = admin.model.create_upload(&bucket, key, None, meta).await;
        begun.unwrap();
    }
    let keys = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|one| one["key"].as_str().unwrap().into())
            .collect()
    };
    let (_, first) = get(&admin, "/v1/buckets/photos/uploads?limit=1").await;
    assert_eq!(keys(&first), ["a/1"]);
    let next = first["next"].as_str().unwrap().replace('/', "%2F");
    let (_, rest) = get(&admin, &format!("/v1/buckets/photos/uploads?after={next}")).await;
    assert_eq!(
        (keys(&rest), &rest["next"]),
        (vec!["a/1".into(), "b".into()], &Value::Null)
    );
    let (_, some) = get(&admin, "/v1/buckets/photos/uploads?prefix=b").await;
    assert_eq!(keys(&some), ["b"]);
    let (status, _) = get(&admin, "/v1/buckets/photos/uploads?after=x").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);

    let abort = async |body: Value| {
        let path = "/v1/buckets/photos/uploads/abort";
        ask(&admin, Method::POST, path, body).await.1
    };
    let old = abort(json!({"older_than_seconds": 3600})).await;
    assert_eq!(old["uploads"], 0);
    let dry = abort(json!({"older_than_seconds": 0, "dry_run": true})).await;
    assert_eq!((&dry["uploads"], &dry["done"]), (&json!(3), &json!(false)));
    let done = abort(json!({"older_than_seconds": 0})).await;
    assert_eq!((&done["uploads"], &done["done"]), (&json!(3), &json!(true)));
    let (_, none) = get(&admin, "/v1/buckets/photos/uploads").await;
    assert_eq!(none["items"], json!([]));
}

/// A page is asked for with two keys: that of the last upload, and the beginning of keys.
#[tokio::test]
async fn uploads_of_the_longest_keys_are_listed_in_pages() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let bucket = admin.model.bucket("photos").unwrap().unwrap();
    let key = "é".repeat(MAX_KEY_BYTES / 2);
    for _ in 0..2 {
        let meta = UploadMeta::default();
        let begun = admin.model.create_upload(&bucket, &key, None, meta).await;
        begun.unwrap();
    }
    let encoded = "%C3%A9".repeat(MAX_KEY_BYTES / 2);
    let path = format!("/v1/buckets/photos/uploads?limit=1&prefix={encoded}");
    let (_, first) = get(&admin, &path).await;
    let next = first["next"].as_str().unwrap();
    let (id, of) = next.split_once('/').unwrap();
    assert_eq!(of, key);
    let (status, second) = get(&admin, &format!("{path}&after={id}%2F{encoded}")).await;
    assert_eq!(status, OK, "{second}");
    let items = second["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["key"]), (1, &json!(key)));
    assert_ne!(items[0]["id"], json!(id));
}

#[tokio::test]
async fn an_object_is_inspected_without_its_content() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let bucket = admin.model.bucket("photos").unwrap().unwrap();
    let mut writer = admin.model.begin_object(&bucket, "a b").unwrap();
    writer.write("hello".into()).await.unwrap();
    let meta = ObjectMeta {
        etag: "tag".into(),
        tags: vec![("colour".into(), "red".into())],
        ..ObjectMeta::default()
    };
    writer.finish(meta, Condition::Always).await.unwrap();
    let (status, object) = get(&admin, "/v1/buckets/photos/object?key=a%20b").await;
    assert_eq!((status, &object["bytes"]), (OK, &json!(5)));
    assert_eq!(object["tags"], json!([{"name": "colour", "value": "red"}]));
    let (status, error) = get(&admin, "/v1/buckets/photos/object?key=none").await;
    assert_eq!(
        (status, &error["code"]),
        (StatusCode::NOT_FOUND, &json!("NoSuchKey"))
    );
    let (status, _) = get(&admin, "/v1/buckets/photos/object").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let model = &admin.model;
    let bucket = model.set_versioning(&bucket, Versioning::Enabled).await;
    let bucket = bucket.unwrap();
    let deleted = model.delete_object(&bucket, "a b", Condition::Always);
    deleted.await.unwrap();
    let (status, error) = get(&admin, "/v1/buckets/photos/object?key=a%20b").await;
    assert_eq!(
        (status, &error["code"]),
        (StatusCode::NOT_FOUND, &json!("NoSuchKey"))
    );
}

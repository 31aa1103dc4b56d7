//! Buckets by their further names.

use bytes::Bytes;

use super::client::{Endpoint, signed};

#[tokio::test]
async fn bucket_is_reached_by_all_of_its_names() {
    let s3 = Endpoint::open().await;
    let model = &s3.model;
    model.add_alias("bucket", "www.example.org").await.unwrap();
    model
        .add_name_of_key("bucket", &s3.key.id, "mine")
        .await
        .unwrap();
    s3.put("/bucket/k", "x").await.ok();
    for name in ["bucket", "www.example.org", "mine"] {
        assert_eq!(
            s3.get(&format!("/{name}/k")).await.ok().text(),
            "x",
            "{name}"
        );
        let host = format!("{name}.s3.example.com");
        let reply = s3.call("GET", "/k", &[("host", &host)], "").await;
        assert_eq!(reply.ok().text(), "x", "{name}");
        let from = format!("{name}/k");
        let copy = [("x-amz-copy-source", from.as_str())];
        s3.call("PUT", "/mine/copy", &copy, "").await.ok();
        s3.call("DELETE", "/bucket/copy", &[], "").await.ok();
        let listed = s3.get(&format!("/{name}?list-type=2")).await.ok().text();
        assert!(listed.contains("<Key>k</Key>"), "{listed}");
        let head = s3.call("HEAD", &format!("/{name}"), &[], "").await.ok();
        assert_eq!(head.header("x-amz-bucket-arn"), "arn:aws:s3:::bucket");
        assert_eq!(head.header("x-amz-access-point-alias"), "false");
    }
    for name in ["www.example.org", "mine"] {
        let created = s3.put(&format!("/{name}"), "").await;
        assert!(
            [200, 409].contains(&created.status.as_u16()),
            "{}",
            created.text()
        );
        let bucket = s3.model.bucket(name).unwrap();
        assert!(bucket.is_none_or(|bucket| bucket.name == "bucket"));
    }
    model
        .remove_alias("bucket", "www.example.org")
        .await
        .unwrap();
    s3.get("/www.example.org/k").await.is(404, "NoSuchBucket");
}

/// A name of one key gives no permission, and nobody else has it.
#[tokio::test]
async fn name_of_a_key_is_no_permission() {
    let s3 = Endpoint::open().await;
    let other = s3.model.create_access_key("other").await.unwrap();
    let name = s3.model.add_name_of_key("bucket", &other.id, "theirs");
    name.await.unwrap();
    s3.put("/bucket/k", "x").await.ok();
    let get = |key: &_| signed(key, "GET", "/theirs/k", &[], Bytes::new());
    let other = s3.model.access_key(&other.id).unwrap().unwrap();
    s3.send(get(&other)).await.is(403, "AccessDenied");
    s3.send(get(&s3.key)).await.is(404, "NoSuchBucket");
}

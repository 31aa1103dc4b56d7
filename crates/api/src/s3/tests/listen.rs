//! Clients that listen to events.

use archipel_model::{AccessKey, Permissions};
use bytes::Bytes;
use futures_util::FutureExt;
use http::Response;
use http_body_util::BodyExt;
use serde_json::Value;

use super::client::{Endpoint, signed};
use crate::serve::{Body, Endless};

const ALL: &str = "events=s3:ObjectCreated:*&events=s3:ObjectRemoved:*&ping=30";

async fn listen(s3: &Endpoint, key: &AccessKey, path: &str) -> Response<Body> {
    let request = signed(key, "GET", path, &[], Bytes::new());
    let answer = Box::pin(s3.service.handle(request)).await;
    assert_eq!(answer.status(), 200, "{path}");
    assert!(answer.extensions().get::<Endless>().is_some());
    answer
}

/// Returns the record on the next line; `None` at the end.
async fn next(answer: &mut Response<Body>) -> Option<Value> {
    let frame = answer.body_mut().frame().await?.unwrap();
    let line = frame.into_data().unwrap();
    let line = line.strip_suffix(b"\n").unwrap();
    let document: Value = serde_json::from_slice(line).unwrap();
    Some(document["Records"][0].clone())
}

fn reader() -> Permissions {
    Permissions {
        read: true,
        ..Permissions::default()
    }
}

#[tokio::test]
async fn events_are_told_until_the_right_is_taken_away() {
    let s3 = Endpoint::open().await;
    let key = s3.key_with(reader()).await;
    let mut one = listen(&s3, &key, &format!("/bucket?{ALL}")).await;
    let mut all = listen(&s3, &key, &format!("/?{ALL}")).await;
    let mut owner = listen(&s3, &s3.key, &format!("/bucket?{ALL}&prefix=k")).await;
    s3.put("/bucket/key", "123").await.ok();
    for answer in [&mut one, &mut all, &mut owner] {
        let record = next(answer).await.unwrap();
        assert_eq!(record["eventName"], "s3:ObjectCreated:Put");
        assert_eq!(record["s3"]["object"]["size"], 3);
    }
    let none = Permissions::default();
    s3.model.set_grant("bucket", &key.id, none).await.unwrap();
    s3.call("DELETE", "/bucket/key", &[], "").await.ok();
    assert_eq!(
        next(&mut owner).await.unwrap()["eventName"],
        "s3:ObjectRemoved:Delete"
    );
    assert_eq!(next(&mut one).await, None);
    // That of all buckets goes on, and shows nothing of this one.
    assert_eq!(next(&mut all).now_or_never(), None);
    assert_eq!(s3.model.event_listeners(), 2);
    s3.model
        .set_grant("bucket", &key.id, reader())
        .await
        .unwrap();
    s3.put("/bucket/again", "").await.ok();
    let record = next(&mut all).await.unwrap();
    assert_eq!(record["s3"]["object"]["key"], "again");
    assert_eq!(s3.model.event_listeners(), 2);
    s3.model.delete_access_key(&key.id).await.unwrap();
    s3.put("/bucket/key", "").await.ok();
    assert_eq!(next(&mut all).await, None);
    assert!(next(&mut owner).await.is_some());
}

#[tokio::test]
async fn bucket_of_the_same_name_is_another_one() {
    let s3 = Endpoint::open().await;
    let mut answer = listen(&s3, &s3.key, &format!("/bucket?{ALL}")).await;
    s3.call("DELETE", "/bucket", &[], "").await.ok();
    s3.put("/bucket", "").await.ok();
    s3.put("/bucket/key", "").await.ok();
    assert_eq!(next(&mut answer).await, None);
}

#[tokio::test]
async fn wrong_questions_are_refused_after_the_right_was_checked() {
    let s3 = Endpoint::open().await;
    let ask = |path: &'static str| s3.get(path);
    ask("/bucket?events=s3:Nothing")
        .await
        .is(400, "InvalidArgument");
    ask("/?events=").await.is(400, "InvalidArgument");
    ask("/none?events=s3:ObjectCreated:*")
        .await
        .is(404, "NoSuchBucket");
    let stranger = s3.key_with(Permissions::default()).await;
    let request = signed(
        &stranger,
        "GET",
        "/bucket?events=s3:Nothing",
        &[],
        Bytes::new(),
    );
    s3.send(request).await.is(403, "AccessDenied");
}

//! Buckets that are created while the other nodes go away.

use std::time::Duration;

use archipel_cluster::World;
use archipel_model::{HOOKS, Model};
use http::{Method, StatusCode};
use serde_json::json;
use tokio::time::Instant;

use super::{admin_of, ask, get, make_bucket, post};

/// A client that hears of a failure tries again, and then its bucket exists.
#[tokio::test(start_paused = true)]
async fn bucket_that_is_there_is_told_as_created_though_the_others_go_away() {
    let latency = Duration::from_millis(50);
    // The first node holds only some of the partitions with the counters of a bucket.
    let world = World::new(5, 3, latency, 1, HOOKS).await.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    // The first creation reads all control data.
    model.create_bucket("first", None).await.unwrap();
    let begun = Instant::now();
    model.create_bucket("second", None).await.unwrap();
    let takes = begun.elapsed();
    let admin = admin_of(model, &[]);
    let go_away = async {
        tokio::time::sleep(takes + latency / 2).await;
        world.isolate(0);
    };
    let (made, ()) = futures_util::join!(make_bucket(&admin, "third"), go_away);
    let (status, bucket) = made;
    assert_eq!(status, StatusCode::CREATED, "{bucket}");
    assert_eq!(bucket["name"], "third");
}

#[tokio::test]
async fn new_bucket_is_described_as_it_is_shown_then() {
    let admin = super::admin().await;
    let key = post(&admin, "/v1/keys", json!({"name": "laptop"})).await;
    let ask_for = json!({"name": "photos", "owner": key["id"]});
    let (status, made) = ask(&admin, Method::POST, "/v1/buckets", ask_for).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(made["grants"][0]["owner"], true);
    assert_eq!(get(&admin, "/v1/buckets/photos").await.1, made);
}

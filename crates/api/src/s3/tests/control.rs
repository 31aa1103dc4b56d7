//! A node that does not know the buckets and access keys.

use std::time::Duration;

use archipel_cluster::World;
use archipel_model::{HOOKS, Model};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use super::client::{Endpoint, Reply};

fn is_refused(reply: &Reply, asked: &str) {
    assert_eq!(reply.status.as_u16(), 503, "{asked}");
    assert_eq!(reply.header("retry-after"), "1", "{asked}");
    if !asked.starts_with("HEAD") {
        reply.is(503, "ServiceUnavailable");
        let message = reply.element("Message").unwrap();
        let named = message.contains("does not know the present buckets and access keys");
        assert!(named, "{asked}: {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_answered_before_buckets_and_keys_were_read() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, HOOKS).await.unwrap();
    let there = Model::open(world.nodes[1].clone()).await.unwrap();
    let key = there.create_owner_key("tester").await.unwrap();
    there.create_bucket("bucket", Some(&key.id)).await.unwrap();
    world.isolate(0);
    let here = Model::open(world.nodes[0].clone()).await.unwrap();
    let s3 = Endpoint::to(here.clone(), key);
    let asked = [
        ("GET", "/"),
        ("HEAD", "/bucket"),
        ("HEAD", "/none"),
        ("PUT", "/new"),
        ("GET", "/bucket/key"),
        ("PUT", "/bucket/key"),
        ("GET", "/bucket?list-type=2"),
        ("DELETE", "/bucket"),
    ];
    for (method, path) in asked {
        let reply = s3.call(method, path, &[], "").await;
        is_refused(&reply, &format!("{method} {path}"));
    }
    // A browser's preflight request is not signed.
    let preflight = Request::builder()
        .method("OPTIONS")
        .uri("/bucket/key")
        .header("host", "127.0.0.1")
        .header("origin", "https://example.org")
        .header("access-control-request-method", "GET");
    let preflight = preflight.body(Full::new(Bytes::new())).unwrap();
    is_refused(&s3.send(preflight).await, "OPTIONS /bucket/key");

    world.network.end_all_cuts();
    here.refresh_all().await.unwrap();
    let list = s3.get("/").await.ok();
    assert_eq!(list.element("Name").unwrap(), "bucket");
    s3.call("HEAD", "/bucket", &[], "").await.ok();
    assert_eq!(s3.get("/none").await.status.as_u16(), 404);
}

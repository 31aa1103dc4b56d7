//! The admin API, asked as a client asks it; and its listener.

use std::sync::Arc;
use std::time::Duration;

use archipel_cluster::Cluster;
use archipel_model::Model;
use futures_util::future::BoxFuture;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::listen::serve_connection;
use super::route::Service;
use super::types::{CertificateInfo, CertificateState, NodeInfo, NodeStatus};
use super::{Admin, Node, Trust, audited};

mod blocks;
mod client;
mod cluster;
mod content;
mod control;
mod creation;
mod dry_runs;
mod hangs;
mod identities;
mod names;
mod preconditions;
mod progress;
mod providers;
mod public;
mod recent;
mod requests;
mod rules;
mod settings;
mod strangers;
mod tokens;
mod website;
mod work;

use client::{ask, get, post, send};

const OK: StatusCode = StatusCode::OK;
const TOKEN: &str = "the-token-of-the-operator";
const METRICS_TOKEN: &str = "the-token-of-the-scraper";

/// The trust policy of a role that every identity of the account may assume.
const TRUST: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "000000000000"}}]}"#;

struct FakeNode(Vec<String>);

impl Node for FakeNode {
    fn status(&self) -> BoxFuture<'_, NodeStatus> {
        let status = NodeStatus {
            version: "1.2.3".into(),
            troubles: self.0.clone(),
            ..NodeStatus::default()
        };
        Box::pin(async { status })
    }

    fn nodes(&self) -> Vec<NodeInfo> {
        Vec::new()
    }

    fn join(&self, _: Vec<String>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Err("no".into()) })
    }

    fn certificates(&self) -> Vec<CertificateInfo> {
        let missing = CertificateInfo {
            domain: "a.example.com".into(),
            state: CertificateState::Missing,
            not_after_ms: None,
            failure: Some("the authority refused".into()),
            failed_orders: 3,
            next_order_ms: Some(5),
            trouble: None,
        };
        let valid = CertificateInfo {
            domain: "b.example.com".into(),
            state: CertificateState::Valid,
            not_after_ms: Some(7),
            failure: None,
            failed_orders: 0,
            next_order_ms: None,
            trouble: None,
        };
        vec![missing, valid]
    }
}

struct HangingNode;

impl Node for HangingNode {
    fn status(&self) -> BoxFuture<'_, NodeStatus> {
        Box::pin(std::future::pending())
    }

    fn nodes(&self) -> Vec<NodeInfo> {
        Vec::new()
    }

    fn join(&self, _: Vec<String>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Err("no".into()) })
    }
}

async fn admin_with(troubles: &[&str]) -> Admin {
    let model = Model::open(Cluster::in_memory(1, archipel_model::HOOKS).await.unwrap())
        .await
        .unwrap();
    admin_of(model, troubles)
}

fn admin_of(model: Model, troubles: &[&str]) -> Admin {
    let mut metrics = Registry::default();
    metrics.register("things", "Things", Counter::<u64>::default());
    let node = FakeNode(troubles.iter().map(|t| t.to_string()).collect());
    Admin::new(
        model,
        Arc::new(node),
        Arc::new(metrics),
        Some(TOKEN),
        Some(METRICS_TOKEN),
    )
}

async fn admin() -> Admin {
    admin_with(&[]).await
}

/// Creates a bucket.
async fn make_bucket(admin: &Admin, name: &str) -> (StatusCode, Value) {
    ask(admin, Method::POST, "/v1/buckets", json!({"name": name})).await
}

/// The status of a `GET` over TCP with this `Authorization`.
async fn status_with(admin: &Admin, path: &str, authorization: Option<&str>) -> StatusCode {
    let mut request = Request::builder().uri(path);
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    let request = request.body(Full::default()).unwrap();
    send(admin, Trust::Token, request).await.0
}

#[tokio::test]
async fn buckets_are_created_listed_shown_and_deleted() {
    let admin = admin().await;
    let (status, bucket) = make_bucket(&admin, "photos").await;
    assert_eq!(
        (status, &bucket["name"]),
        (StatusCode::CREATED, &json!("photos"))
    );
    let (status, error) = make_bucket(&admin, "photos").await;
    assert_eq!(
        (status, &error["code"]),
        (StatusCode::CONFLICT, &json!("BucketAlreadyExists"))
    );
    let (status, error) = make_bucket(&admin, "No").await;
    assert_eq!(
        (status, &error["code"]),
        (StatusCode::BAD_REQUEST, &json!("InvalidName"))
    );
    let (_, list) = get(&admin, "/v1/buckets").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let (_, info) = get(&admin, "/v1/buckets/photos").await;
    assert_eq!((&info["objects"], &info["bytes"]), (&json!(0), &json!(0)));
    let (status, _) = ask(&admin, Method::DELETE, "/v1/buckets/photos", Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, error) = get(&admin, "/v1/buckets/photos").await;
    assert_eq!(
        (status, &error["code"]),
        (StatusCode::NOT_FOUND, &json!("NoSuchBucket"))
    );
}

#[tokio::test]
async fn keys_show_their_secret_only_when_made_and_when_asked() {
    let admin = admin().await;
    let (status, made) = ask(&admin, Method::POST, "/v1/keys", json!({"name": "laptop"})).await;
    assert_eq!(status, StatusCode::CREATED);
    let id = made["id"].as_str().unwrap();
    assert!(made["secret"].as_str().unwrap().len() >= 32);
    let (_, info) = get(&admin, &format!("/v1/keys/{id}")).await;
    assert_eq!(
        (&info["secret"], &info["create_bucket"]),
        (&Value::Null, &json!(false))
    );
    let (_, list) = get(&admin, "/v1/keys").await;
    assert_eq!(list["items"][0]["secret"], Value::Null);
    let (_, shown) = get(&admin, &format!("/v1/keys/{id}/secret")).await;
    assert_eq!(shown["secret"], made["secret"]);
    let path = format!("/v1/keys/{id}");
    let (_, changed) = ask(&admin, Method::PATCH, &path, json!({"create_bucket": true})).await;
    assert_eq!(changed["create_bucket"], json!(true));
    let (status, _) = ask(&admin, Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(get(&admin, &path).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_key_is_imported_whole_or_not_at_all() {
    let admin = admin().await;
    let whole = json!({"name": "old", "id": "AKIDEXAMPLE", "secret": "wJalrXUtnFEMI/K7MDENG"});
    let (status, made) = ask(&admin, Method::POST, "/v1/keys", whole.clone()).await;
    assert_eq!(
        (status, &made["id"]),
        (StatusCode::CREATED, &json!("AKIDEXAMPLE"))
    );
    let (status, error) = ask(&admin, Method::POST, "/v1/keys", whole).await;
    assert_eq!(
        (status, &error["code"]),
        (StatusCode::CONFLICT, &json!("AccessKeyAlreadyExists"))
    );
    let half = json!({"name": "old", "id": "AKIDOTHER"});
    assert_eq!(
        ask(&admin, Method::POST, "/v1/keys", half).await.0,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn over_tcp_the_token_opens_everything_and_nothing_else_does() {
    let admin = admin().await;
    let (good, metrics) = (format!("Bearer {TOKEN}"), format!("bearer {METRICS_TOKEN}"));
    for path in ["/v1/status", "/v1/keys", "/v1/nothing", "/metrics"] {
        for bad in [
            None,
            Some("Bearer wrong"),
            Some("Bearer "),
            Some(TOKEN),
            Some("Basic x"),
        ] {
            let status = status_with(&admin, path, bad).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{path} {bad:?}");
        }
    }
    assert_eq!(
        status_with(&admin, "/v1/status", Some(&good)).await,
        StatusCode::OK
    );
    assert_eq!(
        status_with(&admin, "/metrics", Some(&good)).await,
        StatusCode::OK
    );
    assert_eq!(
        status_with(&admin, "/metrics", Some(&metrics)).await,
        StatusCode::OK
    );
    let refused = status_with(&admin, "/v1/status", Some(&metrics)).await;
    assert_eq!(refused, StatusCode::UNAUTHORIZED);
    assert_eq!(status_with(&admin, "/health", None).await, StatusCode::OK);
}

#[tokio::test]
async fn without_a_token_nothing_is_open_over_tcp() {
    let with_tokens = admin().await;
    let admin = Admin::new(
        with_tokens.model.clone(),
        with_tokens.node.clone(),
        with_tokens.metrics.clone(),
        None,
        None,
    );
    for authorization in [None, Some("Bearer "), Some("Bearer x")] {
        let status = status_with(&admin, "/v1/status", authorization).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn health_and_status_report_faults() {
    let admin = admin_with(&["disk /one failed"]).await;
    let (status, health) = get(&admin, "/health").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        health,
        json!({"healthy": false, "reasons": ["disk /one failed"]})
    );
    // The process lives, and the data of the cluster can be read and written.
    for path in ["/health/live", "/health/quorum"] {
        let health = get(&admin, path).await;
        assert_eq!(health, (OK, json!({"healthy": true, "reasons": []})));
    }
    let (_, node) = get(&admin, "/v1/status").await;
    assert_eq!(
        (&node["version"], &node["troubles"][0]),
        (&json!("1.2.3"), &json!("disk /one failed"))
    );
}

#[tokio::test]
async fn status_tells_how_many_tasks_garbage_collection_has() {
    let admin = admin().await;
    let tasks = async || get(&admin, "/v1/status").await.1["upkeep"]["gc"]["tasks"].clone();
    assert_eq!(tasks().await, 0);
    for name in ["one", "two"] {
        let bucket = admin.model.create_bucket(name, None).await.unwrap();
        admin.model.delete_bucket(&bucket).await.unwrap();
    }
    assert_eq!(tasks().await, 2);
    admin.model.run_all_gc_tasks().await.unwrap();
    assert_eq!(tasks().await, 0);
}

#[tokio::test]
async fn hanging_node_is_not_healthy() {
    let admin = admin().await;
    let admin = Admin {
        node: Arc::new(HangingNode),
        ..admin
    };
    tokio::time::pause();
    let (status, health) = get(&admin, "/health").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(health["reasons"], json!(["storage does not answer"]));
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn the_listener_serves_until_shutdown_and_then_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let admin = Arc::new(admin().await);
    let server = tokio::spawn(super::serve(listener, Trust::Token, admin, None, stopped));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("\"healthy\":true"),
        "{answer}"
    );
    // An open idle connection does not delay the end.
    let mut idle = TcpStream::connect(address).await.unwrap();
    let request = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n";
    idle.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}\n") {
        idle.read_buf(&mut answer).await.unwrap();
    }
    stop.send(true).unwrap();
    server.await.unwrap();
    assert_eq!(read_all(&mut idle).await, "");
}

#[tokio::test]
async fn client_that_reads_no_answer_is_disconnected() {
    let service = Service::new(Arc::new(admin().await));
    let (_stop, stopped) = watch::channel(false);
    let (mut client, server) = tokio::io::duplex(64);
    let request = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    client.write_all(request).await.unwrap();
    // The clock jumps to the next timer as soon as nothing else can go on.
    tokio::time::pause();
    let serving = serve_connection(server, Trust::Token, None, service, stopped);
    let ended = tokio::time::timeout(Duration::from_secs(3600), serving).await;
    assert!(ended.is_ok(), "it is still served");
}

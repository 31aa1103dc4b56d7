//! Requests as a client sends them.

use std::sync::Arc;

use bytes::Bytes;
use http::response::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use crate::admin::route::Service;
use crate::admin::{Admin, Trust, audited};

/// Sends a request. Returns the head of the answer, and its body if that is JSON.
pub async fn exchange(
    admin: &Admin,
    trust: Trust,
    request: Request<Full<Bytes>>,
) -> (Parts, Value) {
    let service = Service::new(Arc::new(admin.clone()));
    let answer = audited::handle(&service, trust, None, request).await;
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

pub async fn send(
    admin: &Admin,
    trust: Trust,
    request: Request<Full<Bytes>>,
) -> (StatusCode, Value) {
    let (parts, body) = exchange(admin, trust, request).await;
    (parts.status, body)
}

/// Returns a value as the body of a request: nothing if it is null.
pub fn body(value: &Value) -> Full<Bytes> {
    match value {
        Value::Null => Full::default(),
        value => Full::new(value.to_string().into()),
    }
}

pub async fn ask(admin: &Admin, method: Method, path: &str, value: Value) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(path);
    send(admin, Trust::Peer, request.body(body(&value)).unwrap()).await
}

/// Sends a request that makes something. Returns what was made.
pub async fn post(admin: &Admin, path: &str, value: Value) -> Value {
    let (status, made) = ask(admin, Method::POST, path, value).await;
    assert_eq!(status, StatusCode::CREATED, "{path}: {made}");
    made
}

pub async fn get(admin: &Admin, path: &str) -> (StatusCode, Value) {
    ask(admin, Method::GET, path, Value::Null).await
}

//! A client within the process: signs as AWS documents it.

use std::sync::Arc;

use archipel_base::NodeId;
use archipel_base::clock::{ManualClock, SystemClock, WallClock};
use archipel_base::random::{Random, SeededRandom};
use archipel_base::stamp::StampClock;
use archipel_cluster::{Cluster, ClusterOptions, memory_store};
use archipel_model::{AccessKey, Model, Permissions};
use archipel_storage::engine::Durability;
use archipel_storage::store::Threads;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use md5::{Digest, Md5};
use prometheus_client::registry::Registry;
use ring::{digest, hmac};

use crate::s3::uri::{Query, encode_path};
use crate::s3::{S3, S3Config};
use crate::serve::Metrics;

/// 2013-05-24T00:00:00Z.
pub const NOW_MS: u64 = 1_369_353_600_000;
const TIME: &str = "20130524T000000Z";
const SCOPE: &str = "20130524/us-east-1/s3/aws4_request";

/// The endpoint, its model, and a key that owns `bucket`.
pub struct Endpoint {
    pub service: S3,
    pub model: Model,
    pub key: Arc<AccessKey>,
    pub registry: Registry,
    pub clock: Arc<ManualClock>,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Endpoint {
    pub async fn open() -> Endpoint {
        let cluster = Cluster::in_memory(1, archipel_model::HOOKS).await.unwrap();
        let model = Model::open(cluster).await.unwrap();
        let key = model.create_owner_key("tester").await.unwrap();
        model.create_bucket("bucket", Some(&key.id)).await.unwrap();
        Endpoint::to(model, key)
    }

    /// Two endpoints that differ in their clocks: that of the first is ahead.
    pub async fn two_of_one_store() -> (Endpoint, Endpoint) {
        let wall = Arc::new(ManualClock::at(SystemClock.now_millis()));
        let random = |seed| -> Arc<dyn Random> { Arc::new(SeededRandom::new(seed)) };
        let store = memory_store(random(1), Threads::Own).unwrap();
        let cluster = |wall: Arc<dyn WallClock>, seed| {
            Cluster::open(ClusterOptions {
                stamps: StampClock::new(store.writer()),
                store: store.clone(),
                node: NodeId::default(),
                level: archipel_cluster::layout::LEVEL,
                wall,
                random: random(seed),
                durability: Durability::Fsync,
                sizes: archipel_cluster::Sizes::USUAL,
                times: archipel_cluster::Times::USUAL,
                hooks: archipel_model::HOOKS,
                network: None,
            })
        };
        let first = cluster(wall.clone(), 2).await.unwrap();
        first.found("here", 1 << 40).await.unwrap();
        let model = Model::open(first).await.unwrap();
        let key = model.create_owner_key("tester").await.unwrap();
        model.create_bucket("bucket", Some(&key.id)).await.unwrap();
        let second = cluster(Arc::new(SystemClock), 3).await.unwrap();
        let other = Model::open(second).await.unwrap();
        wall.advance(5000);
        (Endpoint::to(model, key.clone()), Endpoint::to(other, key))
    }

    /// The endpoint of a model, and a key that another node may have made.
    pub fn to(model: Model, key: Arc<AccessKey>) -> Endpoint {
        let mut registry = Registry::default();
        let config = S3Config {
            base_domains: vec!["s3.example.com".to_owned()],
            ..S3Config::default()
        };
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let metrics = Metrics::register(&mut registry, "s3");
        let random = SeededRandom::new(1);
        let service = S3::new(model.clone(), config, metrics, clock.clone(), &random);
        Endpoint {
            service,
            model,
            key,
            registry,
            clock,
        }
    }

    /// Another key with these permissions on `bucket`.
    pub async fn key_with(&self, permissions: Permissions) -> Arc<AccessKey> {
        let key = self.model.create_access_key("other").await.unwrap();
        self.model
            .set_grant("bucket", &key.id, permissions)
            .await
            .unwrap();
        key
    }

    /// Sends a request as it is.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Reply {
        // Boxed, because a test with many requests would have them all on its stack.
        let response: Response<_> = Box::pin(self.service.handle(request)).await;
        let (parts, body) = response.into_parts();
        Reply {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    /// A signed request by the owner. `path` is `/bucket/key?query`, the key not encoded.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let request = signed(&self.key, method, path, headers, body.into());
        self.send(request).await
    }

    pub async fn put(&self, path: &str, body: impl Into<Bytes>) -> Reply {
        self.call("PUT", path, &[], body).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, &[], "").await
    }
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The text of the first element of that name.
    pub fn element(&self, name: &str) -> Option<String> {
        let text = self.text();
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        let (value, _) = rest.split_once("</")?;
        Some(value.replace("&quot;", "\""))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Checks status and code.
    #[track_caller]
    pub fn is(&self, status: u16, code: &str) {
        let found = self.element("Code").unwrap_or_default();
        assert_eq!(
            (self.status.as_u16(), found.as_str()),
            (status, code),
            "{}",
            self.text()
        );
    }

    #[track_caller]
    pub fn ok(self) -> Reply {
        assert!(self.status.is_success(), "{} {}", self.status, self.text());
        self
    }
}

/// Signs a request; the body's hash is that of `body` unless a header says otherwise.
pub fn signed(
    key: &AccessKey,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Request<Full<Bytes>> {
    signed_for("s3", key, method, path, headers, body)
}

/// Signs a request to a service.
pub fn signed_for(
    service: &str,
    key: &AccessKey,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Request<Full<Bytes>> {
    let mut all: Vec<(String, String)> = vec![("x-amz-date".into(), TIME.into())];
    if !headers.iter().any(|(name, _)| *name == "host") {
        all.push(("host".into(), "127.0.0.1".into()));
    }
    all.extend(
        headers
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned())),
    );
    if method == "POST" && path.contains("?delete") {
        // As all clients do.
        let digest = STANDARD.encode(Md5::digest(&body));
        all.push(("content-md5".into(), digest));
    }
    let payload = match headers
        .iter()
        .find(|(name, _)| *name == "x-amz-content-sha256")
    {
        Some((_, payload)) => (*payload).to_owned(),
        None => {
            let hash = hex::encode(digest::digest(&digest::SHA256, &body));
            all.push(("x-amz-content-sha256".into(), hash.clone()));
            hash
        }
    };
    all.sort();
    let (plain, query) = path.split_once('?').unwrap_or((path, ""));
    let path = encode_path(plain);
    let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    let lines: String = all.iter().map(|(n, v)| format!("{n}:{v}\n")).collect();
    let canonical_query = Query::parse(query).unwrap().canonical(None);
    let canonical = format!("{method}\n{path}\n{canonical_query}\n{lines}\n{names}\n{payload}");
    let scope = SCOPE.replace("s3", service);
    let hash = hex::encode(digest::digest(&digest::SHA256, canonical.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{TIME}\n{scope}\n{hash}");
    let signature = hmac_hex_for(service, key, &text);
    let credential = format!("{}/{scope}", key.id);
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
    );
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{path}?{query}"))
        .header("authorization", authorization)
        .header("content-length", body.len());
    for (name, value) in &all {
        request = request.header(name, value);
    }
    request.body(Full::new(body)).unwrap()
}

fn sign(key: &AccessKey, canonical: &str) -> String {
    let hash = hex::encode(digest::digest(&digest::SHA256, canonical.as_bytes()));
    hmac_hex(key, &format!("AWS4-HMAC-SHA256\n{TIME}\n{SCOPE}\n{hash}"))
}

/// The signature of a text with the key of the day.
pub fn hmac_hex(key: &AccessKey, text: &str) -> String {
    hmac_hex_for("s3", key, text)
}

fn hmac_hex_for(service: &str, key: &AccessKey, text: &str) -> String {
    let mut bytes = format!("AWS4{}", key.secret.expose()).into_bytes();
    for step in ["20130524", "us-east-1", service, "aws4_request", text] {
        let step_key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        bytes = hmac::sign(&step_key, step.as_bytes()).as_ref().to_vec();
    }
    hex::encode(bytes)
}

/// Presigns `path`, whose query may carry further parameters.
pub fn presigned(key: &AccessKey, method: &str, path: &str) -> String {
    presigned_with(key, method, path, &[])
}

/// Presigns `path` and these headers, in order.
pub fn presigned_with(
    key: &AccessKey,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> String {
    let names = headers.iter().map(|(name, _)| *name);
    let names: Vec<&str> = std::iter::once("host").chain(names).collect();
    let names = names.join(";");
    let lines: String = headers.iter().map(|(n, v)| format!("{n}:{v}\n")).collect();
    let listed = names.replace(';', "%3B");
    let (path, more) = path.split_once('?').unwrap_or((path, ""));
    let credential = format!("{}%2F{}", key.id, SCOPE.replace('/', "%2F"));
    let query = format!(
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={TIME}\
         &X-Amz-Expires=60&X-Amz-SignedHeaders={listed}&{more}"
    );
    let query = Query::parse(&query).unwrap().canonical(None);
    let canonical =
        format!("{method}\n{path}\n{query}\nhost:127.0.0.1\n{lines}\n{names}\nUNSIGNED-PAYLOAD");
    format!("{path}?{query}&X-Amz-Signature={}", sign(key, &canonical))
}

/// The signature of a chunk of a chunked body, behind `previous`.
pub fn chunk_signature(key: &AccessKey, previous: &str, chunk: &[u8]) -> String {
    let empty = hex::encode(digest::digest(&digest::SHA256, b""));
    let hash = hex::encode(digest::digest(&digest::SHA256, chunk));
    let text = format!("AWS4-HMAC-SHA256-PAYLOAD\n{TIME}\n{SCOPE}\n{previous}\n{empty}\n{hash}");
    hmac_hex(key, &text)
}

//! The endpoints on a model in memory, and the requests that targets invent.

use std::cell::RefCell;
use std::sync::Arc;

use archipel_api::audit::Audit;
use archipel_api::k2v::{K2v, K2vConfig};
use archipel_api::s3::{S3, S3Config};
use archipel_api::serve::{Limits, Metrics, Rates};
use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;
use archipel_cluster::Cluster;
use archipel_model::{AccessKey, Model};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use prometheus_client::registry::Registry;
use ring::{digest, hmac};
use tokio::runtime::{Builder, Runtime};

/// 2013-05-24T00:00:00Z.
const NOW_MS: u64 = 1_369_353_600_000;
/// The same, as a signature has it.
pub const TIME: &str = "20130524T000000Z";
const DAY: &str = "20130524";
const REGION: &str = "us-east-1";

/// The host of all requests.
pub const HOST: &str = "127.0.0.1";

/// After so many inputs the model is made anew, so that what inputs leave behind stays small.
const INPUTS_A_MODEL: u32 = 500;

/// The endpoints, and a key that owns `bucket` and may do everything.
pub struct Endpoints {
    s3: S3,
    k2v: K2v,
    /// Signs the requests.
    pub key: Arc<AccessKey>,
    /// Answers the calls of other nodes.
    pub node: Arc<dyn archipel_net::rpc::Service>,
}

/// An answer.
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its whole body; empty if that broke off.
    pub body: Bytes,
}

/// The service that a request is signed for, and the endpoint that gets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// S3.
    S3,
    /// IAM, on the address of S3.
    Iam,
    /// STS, on the address of S3.
    Sts,
    /// K2V, on an address of its own.
    K2v,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Service::S3 => "s3",
            Service::Iam => "iam",
            Service::Sts => "sts",
            Service::K2v => "k2v",
        }
    }
}

/// A request before it is signed.
pub struct Unsigned {
    /// The service.
    pub service: Service,
    /// The method.
    pub method: String,
    /// The path as it is sent.
    pub path: String,
    /// The query as it is sent and, in the order of names, as it is signed.
    pub query: String,
    /// Headers by lower-case names, each once.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl Endpoints {
    async fn open() -> Endpoints {
        let hooks = archipel_model::HOOKS;
        let cluster = Cluster::in_memory(1, hooks).await.expect("a cluster");
        let node = cluster.service();
        let model = Model::open(cluster).await.expect("a model");
        let key = model.create_owner_key("tester").await.expect("a key");
        let bucket = model.create_bucket("bucket", Some(&key.id)).await;
        bucket.expect("a bucket");
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, "s3");
        let config = S3Config {
            base_domains: vec!["s3.example.com".to_owned()],
            ..S3Config::default()
        };
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let random = SeededRandom::new(1);
        let s3 = S3::new(model.clone(), config, metrics, clock.clone(), &random);
        let config = K2vConfig {
            region: REGION.into(),
            limits: Limits::default(),
            rates: Rates::default(),
            audit: Audit::default(),
        };
        let k2v = K2v::new(model, config, &mut registry, clock, &random);
        Endpoints { s3, k2v, key, node }
    }

    /// Signs a request by the key, and sends it.
    pub async fn send(&self, request: Unsigned) -> Option<Reply> {
        let service = request.service;
        Some(self.send_as_is(service, self.signed(request)?).await)
    }

    /// Sends a request.
    pub async fn send_as_is(&self, service: Service, request: Request<Full<Bytes>>) -> Reply {
        let (status, headers, body) = match service {
            Service::K2v => {
                let (parts, body) = Box::pin(self.k2v.handle(request)).await.into_parts();
                (parts.status, parts.headers, body.collect().await)
            }
            _ => {
                let (parts, body) = Box::pin(self.s3.handle(request)).await.into_parts();
                (parts.status, parts.headers, body.collect().await)
            }
        };
        Reply {
            status,
            headers,
            // A body that breaks off ends its connection.
            body: body.map_or_else(|_| Bytes::new(), |body| body.to_bytes()),
        }
    }

    /// Returns the signed request, or `None` if it cannot be one of HTTP.
    fn signed(&self, request: Unsigned) -> Option<Request<Full<Bytes>>> {
        let mut headers = request.headers;
        headers.push(("host".into(), HOST.into()));
        headers.push(("x-amz-date".into(), TIME.into()));
        let payload = headers
            .iter()
            .find(|(name, _)| name == "x-amz-content-sha256");
        let payload = match payload {
            Some((_, payload)) => payload.clone(),
            None => {
                let hash = hex::encode(digest::digest(&digest::SHA256, &request.body));
                headers.push(("x-amz-content-sha256".into(), hash.clone()));
                hash
            }
        };
        headers.sort();
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let lines = headers
            .iter()
            .map(|(name, value)| format!("{name}:{value}\n"));
        let lines: String = lines.collect();
        let (method, path, query) = (&request.method, &request.path, &request.query);
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}");
        let scope = format!("{DAY}/{REGION}/{}/aws4_request", request.service.name());
        let hash = hex::encode(digest::digest(&digest::SHA256, canonical.as_bytes()));
        let text = format!("AWS4-HMAC-SHA256\n{TIME}\n{scope}\n{hash}");
        let signature = self.signature(request.service, &text);
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.key.id
        );
        let mut built = Request::builder()
            .method(request.method.as_str())
            .uri(format!("{path}?{query}"))
            .header("authorization", authorization)
            .header("content-length", request.body.len());
        for (name, value) in &headers {
            built = built.header(name, value);
        }
        built.body(Full::new(request.body)).ok()
    }

    /// Returns the signature of a text by the key, in hexadecimal digits.
    pub fn signature(&self, service: Service, text: &str) -> String {
        let mut bytes = format!("AWS4{}", self.key.secret.expose()).into_bytes();
        for step in [DAY, REGION, service.name(), "aws4_request", text] {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
            bytes = hmac::sign(&key, step.as_bytes()).as_ref().to_vec();
        }
        hex::encode(bytes)
    }

    /// Returns the credential of the key, as forms and queries have it.
    pub fn credential(&self) -> String {
        format!("{}/{DAY}/{REGION}/s3/aws4_request", self.key.id)
    }
}

/// Checks that an answer is no 500, and a document of an error whole. A panic of the server ends the process, also one
/// that the server catches.
pub fn check(reply: &Reply) {
    assert_ne!(
        reply.status,
        StatusCode::INTERNAL_SERVER_ERROR,
        "{}",
        String::from_utf8_lossy(&reply.body)
    );
    let kind = reply
        .headers
        .get("content-type")
        .map(|kind| kind.as_bytes());
    let is_error = reply.status.is_client_error() || reply.status.is_server_error();
    // A document of the server is whole and in UTF-8, however odd the names in it.
    if is_error && kind == Some(b"application/xml") && !reply.body.is_empty() {
        let text = std::str::from_utf8(&reply.body).expect("an error in UTF-8");
        let mut reader = quick_xml::Reader::from_str(text);
        loop {
            match reader.read_event() {
                Ok(quick_xml::events::Event::Eof) => break,
                Ok(_) => {}
                Err(error) => panic!("{error}: {text}"),
            }
        }
    }
}

struct Kept {
    runtime: Runtime,
    endpoints: Option<Endpoints>,
    inputs: u32,
}

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// Runs a future on endpoints that earlier inputs may have used. Time passes at once where it waits.
pub fn on_endpoints(work: impl AsyncFnOnce(&Endpoints)) {
    KEPT.with_borrow_mut(|kept| {
        let kept = kept.get_or_insert_with(|| Kept {
            runtime: runtime(),
            endpoints: None,
            inputs: 0,
        });
        if kept.inputs == INPUTS_A_MODEL {
            // Its tasks end with it.
            kept.endpoints = None;
            kept.runtime = runtime();
            kept.inputs = 0;
        }
        kept.inputs += 1;
        let Kept {
            runtime, endpoints, ..
        } = kept;
        runtime.block_on(async {
            if endpoints.is_none() {
                *endpoints = Some(Endpoints::open().await);
            }
            if let Some(endpoints) = endpoints {
                work(endpoints).await;
            }
        });
    });
}

/// Returns a runtime of one thread whose time passes at once.
pub fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true);
    builder.build().expect("a runtime")
}

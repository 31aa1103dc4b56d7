//! The K2V API as an [`Endpoint`]: operation, signature, permission, handler.

mod permit;

use std::sync::Arc;

use archipel_base::boxed;
use archipel_base::clock::WallClock;
use archipel_base::random::Random;
use archipel_model::Model;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use super::route::{Operation, route};
use super::{answer, batch, index, items, range};
use crate::audit::Audit;
use crate::s3::auth::{self, Caller};
use crate::s3::body::RequestBody;
use crate::s3::call::Call;
use crate::s3::endpoint::{self, Endpoint, Frontend, Learned, RequestHead, Responded};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{Answer, add_headers_of, empty};
use crate::s3::sigv4::Verifier;
use crate::s3::target::Target;
use crate::serve::{Answering, Body, BoxError, Limits, Metrics, Rates, Service};

pub use permit::Permit;

/// One place in so many is left to requests that do not wait.
const LEFT_BY_POLLS: usize = 6;
/// The most requests with large bodies or answers at once: each may take some tens of megabytes.
const BATCHES: usize = 16;

/// The beginnings of headers about what objects have and items do not.
const OF_OBJECTS: [&str; 9] = [
    "x-amz-acl",
    "x-amz-copy-source",
    "x-amz-grant-",
    "x-amz-meta-",
    "x-amz-object-lock-",
    "x-amz-server-side-encryption",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-website-redirect-location",
];

/// Settings of the K2V server.
#[derive(Clone)]
pub struct K2vConfig {
    /// The region's name, which clients sign for.
    pub region: String,
    /// Limits on clients.
    pub limits: Limits,
    /// Requests a second of clients.
    pub rates: Rates,
    /// The audit log.
    pub audit: Audit,
}

/// The K2V API on a model. Cheap to clone.
#[derive(Clone)]
pub struct K2v(Arc<Shared>);

struct Shared {
    frontend: Frontend,
    region: String,
    verifier: Verifier,
    clock: Arc<dyn WallClock>,
    polling: Gauge,
    polls: Semaphore,
    batches: Semaphore,
}

impl K2v {
    /// Makes the K2V API on a model, with its counters in `registry`.
    pub fn new(
        model: Model,
        config: K2vConfig,
        registry: &mut Registry,
        clock: Arc<dyn WallClock>,
        random: &dyn Random,
    ) -> K2v {
        let metrics = Metrics::register(registry, "k2v");
        let polling = Gauge::default();
        let of_k2v = registry.sub_registry_with_prefix("k2v");
        of_k2v.register("polls", "Polls that wait for a change", polling.clone());
        let (limits, rates, audit) = (config.limits, config.rates, config.audit);
        K2v(Arc::new(Shared {
            frontend: Frontend::new(model, limits, rates, audit, metrics, random),
            verifier: Verifier::new(config.region.clone(), "k2v"),
            region: config.region,
            clock,
            polling,
            // A poll keeps its connection, or its place among the requests over HTTP/2, while it
            // waits.
            polls: Semaphore::new(limits.connections - limits.connections / LEFT_BY_POLLS),
            batches: Semaphore::new(BATCHES),
        }))
    }

    /// Answers a request. Never fails: an error is an answer.
    pub fn handle<B>(&self, request: Request<B>) -> impl Future<Output = Response<Body>> + Send
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        endpoint::handle(self, Request::from_parts(apart(parts), body))
    }
}

impl Endpoint for K2v {
    const NAME: &'static str = "k2v";
    const UNKNOWN: &'static str = "Unknown";
    const SHOWS_PATH: bool = true;

    fn frontend(&self) -> &Frontend {
        &self.0.frontend
    }

    #[boxed]
    async fn respond(
        &self,
        head: &RequestHead,
        body: Box<RequestBody>,
        learned: &mut Learned,
    ) -> Responded {
        let (shared, parts) = (&*self.0, &head.parts);
        let target = match Target::of(&parts.uri, &parts.headers, parts.version, &[]) {
            Ok(target) => target,
            Err(error) => return (Err(error), Some(*body)),
        };
        learned.bucket.clone_from(&target.bucket);
        if parts.method == Method::OPTIONS {
            learned.operation = "Preflight";
            let answer = shared.frontend.preflight(&target, &parts.headers);
            return (answer, Some(*body));
        }
        let mut call = Call::new(
            &shared.frontend.model,
            &shared.clock,
            &shared.region,
            &target,
            &parts.headers,
            *body,
            learned,
        );
        call.rates = shared.frontend.rates.clone();
        // Boxed, so that thousands of polls that wait hold no room for checking signatures.
        let result = match Box::pin(identify(shared, parts, &mut call)).await {
            Ok((caller, asked)) => permit_and_answer(shared, head, &mut call, caller, asked).await,
            Err(error) => Err(error),
        };
        (result, Some(call.body))
    }

    fn error_answer(&self, head: &RequestHead, error: &S3Error) -> Answer {
        let mut answer = match head.parts.method {
            Method::HEAD => empty(error.code().status()),
            _ => answer::error(error, &self.0.region, head.parts.uri.path(), &head.id),
        };
        add_headers_of(error, &mut answer);
        answer
    }

    fn add_headers(&self, head: &RequestHead, learned: &Learned, answer: &mut Answer) {
        self.0.frontend.add_cors_headers(head, learned, answer);
    }
}

impl Service for K2v {
    fn limits(&self) -> Limits {
        self.0.frontend.limits
    }

    fn metrics(&self) -> &Metrics {
        &self.0.frontend.metrics
    }

    fn answer(&self, request: Request<Incoming>) -> Answering<'_> {
        Box::pin(self.handle(request))
    }
}

/// Returns a copy of a request's address and headers. The original shares the buffer of its
/// connection, which thousands of polls that wait would keep.
fn apart(mut parts: Parts) -> Parts {
    if let Ok(uri) = parts.uri.to_string().parse() {
        parts.uri = uri;
    }
    for value in parts.headers.values_mut() {
        if let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) {
            *value = copy;
        }
    }
    parts
}

/// Returns who sends a request, and what it asks for.
async fn identify(
    shared: &Shared,
    parts: &Parts,
    call: &mut Call<'_>,
) -> S3Result<(Caller, Operation)> {
    // The error waits for the signature: without one, a client learns nothing else.
    let routed = route(&parts.method, call.target);
    if let Ok(routed) = &routed {
        call.learned.operation = routed.name();
    }
    let signed = call.identify(parts, &shared.verifier, false).await?;
    let (caller, signer) = signed.ok_or(Code::AccessDenied)?;
    let operation = routed?;
    refuse_headers(parts)?;
    call.accept(&signer).await?;
    Ok((caller, operation))
}

/// Refuses headers that have no effect on items: what is ignored would mislead. Tokens take the
/// place of conditions of writes.
fn refuse_headers(parts: &Parts) -> S3Result<()> {
    let is_read = parts.method == Method::GET || parts.method == Method::HEAD;
    let conditions = [
        header::IF_MATCH,
        header::IF_NONE_MATCH,
        header::IF_UNMODIFIED_SINCE,
        header::IF_MODIFIED_SINCE,
    ];
    let is_refused = |name: &&HeaderName| {
        let of_objects = OF_OBJECTS.iter().any(|of| name.as_str().starts_with(of));
        of_objects || !is_read && conditions.contains(name)
    };
    match parts.headers.keys().find(is_refused) {
        Some(name) => Err(S3Error::not_implemented(name.as_str())),
        None => Ok(()),
    }
}

async fn permit_and_answer(
    shared: &Shared,
    head: &RequestHead,
    call: &mut Call<'_>,
    caller: Caller,
    operation: Operation,
) -> S3Result<Answer> {
    // The route has checked that there is one.
    let name = call.target.bucket.as_deref().ok_or(Code::InvalidURI)?;
    let permit = Permit {
        shared,
        head,
        caller,
        operation,
        name,
    };
    let bucket = permit.bucket()?;
    auth::check_expected_owner(call, &bucket)?;
    // Boxed one by one: a poll that waits holds no room for other operations.
    let answering: BoxFuture<'_, S3Result<Answer>> = match operation {
        Operation::ReadItem => Box::pin(items::read(call, &bucket)),
        Operation::PollItem => Box::pin(items::poll(call, &bucket, &permit)),
        Operation::InsertItem => Box::pin(items::insert(call, &bucket)),
        Operation::DeleteItem => Box::pin(items::delete(call, &bucket)),
        Operation::ReadIndex => Box::pin(index::read(call, &bucket)),
        Operation::InsertBatch => Box::pin(batch::insert(call, &bucket, &permit)),
        Operation::ReadBatch => Box::pin(batch::read(call, &bucket, &permit)),
        Operation::DeleteBatch => Box::pin(batch::delete(call, &bucket, &permit)),
        Operation::PollRange => Box::pin(range::poll(call, &bucket, &permit)),
    };
    answering.await
}

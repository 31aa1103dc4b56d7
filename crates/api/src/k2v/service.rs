//! The way from a request to an answer: address, operation, signature, permission, handler.

mod permit;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::boxed;
use archipel_base::clock::WallClock;
use archipel_base::random::Random;
use archipel_model::Model;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::route::{Operation, route};
use super::{answer, batch, index, items, range};
use crate::audit::{Audit, Entry};
use crate::s3::auth::Caller;
use crate::s3::body::RequestBody;
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{Answer, empty};
use crate::s3::service::{counted, leave, log_cause, set_length};
use crate::s3::signed::{signed_with, token};
use crate::s3::sigv4::{Lookup, SignedParts, Verifier};
use crate::s3::target::Target;
use crate::serve::{Body, BoxError, Door, Limits, Metrics, Peer, Rates, spans};

pub use permit::Permit;

/// The most polls at once.
const POLLS: usize = 20_000;
/// The most requests with large bodies or answers at once: each may take some tens of megabytes.
const BATCHES: usize = 16;

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
    model: Model,
    config: K2vConfig,
    verifier: Verifier,
    clock: Arc<dyn WallClock>,
    request_ids: AtomicU64,
    metrics: Metrics,
    polling: Gauge,
    polls: Semaphore,
    batches: Semaphore,
}

impl Door for K2v {
    fn limits(&self) -> Limits {
        self.0.config.limits
    }

    fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send {
        self.handle(request)
    }
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
        K2v(Arc::new(Shared {
            model,
            verifier: Verifier::new(config.region.clone(), "k2v"),
            config,
            clock,
            request_ids: AtomicU64::new(random.next_u64()),
            metrics,
            polling,
            polls: Semaphore::new(POLLS),
            batches: Semaphore::new(BATCHES),
        }))
    }

    /// Answers a request. Never fails: an error is an answer.
    pub fn handle<B>(&self, request: Request<B>) -> impl Future<Output = Response<Body>> + Send
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (parts, inner) = request.into_parts();
        let inner: Body = inner.map_err(Into::into).boxed_unsync();
        self.answer_parts(Box::new(apart(parts)), inner)
    }

    #[boxed]
    async fn answer_parts(&self, parts: Box<Parts>, inner: Body) -> Response<Body> {
        let shared = &*self.0;
        let (started, guard) = (Instant::now(), shared.metrics.enter());
        let request_id = self.request_id();
        let mut entry = shared.config.audit.begin("k2v", &request_id, &parts);
        entry.path(parts.uri.path());
        let pool = shared.model.cluster().buffers();
        let body = Box::new(RequestBody::new(
            inner,
            shared.config.limits.body_idle,
            pool,
        ));
        let mut told = Told::default();
        // A defect must cost one request, not the connection's other streams. The future is boxed,
        // because thousands of polls wait in it.
        let answering = Box::pin(respond_to(shared, &parts, body, &mut told, &mut entry));
        let (result, body) = match AssertUnwindSafe(answering).catch_unwind().await {
            Ok((result, body)) => (result, body),
            Err(_) => (Err(Code::InternalError.into()), None),
        };
        let is_refused = |error: &S3Error| error.code().refuses_credentials();
        if result.as_ref().is_err_and(is_refused)
            && let Some(peer) = parts.extensions.get::<Peer>()
        {
            shared.config.rates.pace_refusal(peer.0).await;
        }
        let operation = told.operation.unwrap_or("Unknown");
        let (code, mut answer) = match result {
            Ok(answer) => ("", answer),
            Err(error) => {
                log_cause(&error, operation, &request_id);
                let answer = self.error(&error, &parts, &request_id);
                (error.code().as_str(), answer)
            }
        };
        set_length(&mut answer, &parts.method);
        let names = [("x-amz-request-id", &*request_id), ("server", "Archipel")];
        for (name, value) in names {
            if let Ok(value) = HeaderValue::from_str(value) {
                let name = HeaderName::from_static(name);
                answer.headers_mut().insert(name, value);
            }
        }
        let received = body.as_ref().map_or(0, RequestBody::received);
        leave(&parts, body, &mut answer);
        let (status, elapsed) = (answer.status().as_u16(), started.elapsed());
        let metrics = &shared.metrics;
        metrics.answered(operation, status, elapsed, received);
        let (bucket, user) = (told.bucket.as_deref(), told.user.as_deref());
        let sent = metrics.concerned(bucket, user, status, received);
        entry.action(operation);
        entry.answered(status, code, received);
        spans::describe(&spans::Outcome {
            endpoint: "k2v",
            operation,
            request_id: &request_id,
            bucket,
            code,
        });
        // No query, no headers: they carry signatures.
        tracing::info!(
            target: "archipel::access",
            request_id,
            operation,
            method = %parts.method,
            path = parts.uri.path(),
            status,
            received,
            milliseconds = elapsed.as_millis() as u64,
            "k2v request"
        );
        answer.map(|body| counted(body, sent, guard, entry))
    }

    fn request_id(&self) -> String {
        // A counter from a random start, mixed so that ids do not look alike.
        let n = self.0.request_ids.fetch_add(1, Ordering::Relaxed);
        format!("{:016X}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn error(&self, error: &S3Error, parts: &Parts, request_id: &str) -> Answer {
        let region = &self.0.config.region;
        let mut answer = match parts.method {
            Method::HEAD => empty(error.code().status()),
            _ => answer::error(error, region, parts.uri.path(), request_id),
        };
        if error.code().status() == StatusCode::SERVICE_UNAVAILABLE {
            let headers = answer.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
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

/// What a request tells on its way, for metrics.
#[derive(Default)]
struct Told {
    operation: Option<&'static str>,
    /// The name of the bucket, if it exists.
    bucket: Option<String>,
    /// The unique id of the user or role.
    user: Option<String>,
}

/// Returns the answer, and the body as far as it was read.
///
/// The body comes in a box: an argument keeps its room also after its value has moved.
async fn respond_to(
    shared: &Shared,
    parts: &Parts,
    body: Box<RequestBody>,
    told: &mut Told,
    entry: &mut Entry,
) -> (S3Result<Answer>, Option<RequestBody>) {
    let peer = parts.extensions.get::<Peer>();
    if peer.is_some_and(|peer| !shared.config.rates.admits_address(peer.0)) {
        return (Err(Code::SlowDown.into()), Some(*body));
    }
    let target = match Target::of(&parts.uri, &parts.headers, parts.version, &[]) {
        Ok(target) => target,
        Err(error) => return (Err(error), Some(*body)),
    };
    let mut call = Call::new(
        &shared.model,
        &shared.clock,
        &shared.config.region,
        &target,
        &parts.headers,
        *body,
    );
    // Boxed, so that thousands of polls that wait hold no room for checking signatures.
    let result = match Box::pin(identify(shared, parts, &mut call, &mut told.operation)).await {
        Ok((caller, asked)) => permit_and_answer(shared, parts, &mut call, caller, asked).await,
        Err(error) => Err(error),
    };
    entry.who(call.learned.who.as_deref());
    let name = target.bucket.as_deref();
    entry.resource(name, None);
    told.user = call.learned.user.take();
    let known = name.and_then(|name| shared.model.bucket(name).ok().flatten());
    told.bucket = known.map(|bucket| bucket.name.clone());
    (result, Some(call.body))
}

/// Returns who sends a request, and what it asks for.
async fn identify(
    shared: &Shared,
    parts: &Parts,
    call: &mut Call<'_>,
    name: &mut Option<&'static str>,
) -> S3Result<(Caller, Operation)> {
    // The error waits for the signature: without one, a client learns nothing else.
    let routed = route(&parts.method, call.target);
    if let Ok(routed) = &routed {
        *name = Some(routed.name());
    }
    let signed = SignedParts {
        method: &parts.method,
        path: &call.target.path,
        query: &call.target.query,
        headers: &parts.headers,
        host: &call.target.host,
    };
    let (model, now_ms) = (&shared.model, call.now_ms());
    let verify = |lookup: Lookup<'_>| shared.verifier.verify(&signed, now_ms, lookup);
    let session = token(&parts.headers, &call.target.query)?;
    let verified = signed_with(model, session, verify).await?;
    let verified = verified.ok_or(Code::AccessDenied)?;
    call.learned.who = Some(verified.key.id.clone());
    let (key, rates) = (&verified.key, &shared.config.rates);
    let caller = Caller::verified(model, rates, key, verified.credential).await?;
    call.learned.name(&caller);
    let operation = routed?;
    call.set_payload(verified.payload, Some(&verified.chunks))?;
    // The route has checked that there is one.
    let bucket = call.target.bucket.as_deref().ok_or(Code::InvalidURI)?;
    model.find_bucket_of_key(&verified.key, bucket).await?;
    Ok((caller, operation))
}

async fn permit_and_answer(
    shared: &Shared,
    parts: &Parts,
    call: &mut Call<'_>,
    caller: Caller,
    operation: Operation,
) -> S3Result<Answer> {
    let name = call.target.bucket.as_deref().ok_or(Code::InvalidURI)?;
    let permit = Permit {
        shared,
        parts,
        caller,
        operation,
        name,
    };
    let bucket = permit.bucket()?;
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

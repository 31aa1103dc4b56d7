//! The way from a request to an answer: address, route, signature, permission, handler; and the
//! headers that all answers share.

mod exchange;
mod leave;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::clock::WallClock;
use archipel_base::random::Random;
use archipel_model::Model;
use bytes::Bytes;
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::body::{Body, BoxError, RequestBody};
use super::call::Learned;
use super::config::S3Config;
use super::cors;
use super::error::{Code, S3Error};
use super::explain::{explain, failed_because};
use super::health::{self, Health, HealthSource};
use super::precondition;
use super::respond::{self, Answer};
use super::s3_control;
use super::sigv4::Verifier;
use super::slow;
use super::target::Target;
use crate::audit::Entry;
use crate::iam;
use crate::serve::metrics::{Guard, Sent};
use crate::serve::{Door, Limits, Metrics, Peer, spans};

use exchange::Exchange;
pub(crate) use leave::leave;

/// The S3 API on a model. Cheap to clone.
#[derive(Clone)]
pub struct S3(Arc<Shared>);

struct Shared {
    model: Model,
    config: S3Config,
    verifier: Verifier,
    iam: iam::service::Door,
    clock: Arc<dyn WallClock>,
    /// Names this process in answers without telling anything about the machine.
    host_id: String,
    request_ids: AtomicU64,
    metrics: Metrics,
    health: Health,
}

impl S3 {
    /// Makes the S3 API on a model.
    pub fn new(
        model: Model,
        config: S3Config,
        metrics: Metrics,
        clock: Arc<dyn WallClock>,
        random: &dyn Random,
    ) -> S3 {
        S3(Arc::new(Shared {
            model,
            verifier: Verifier::new(config.region.clone(), "s3"),
            iam: iam::service::Door::new(&config.region),
            config,
            clock,
            host_id: format!("{:016x}", random.next_u64()),
            request_ids: AtomicU64::new(random.next_u64()),
            metrics,
            health: Health::default(),
        }))
    }

    /// Sets the source of the health checks. Only the first call has an effect.
    pub fn set_health(&self, source: HealthSource) {
        self.0.health.set(source);
    }

    /// Answers a request. Never fails: an error is an answer.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let shared = &*self.0;
        let started = Instant::now();
        let guard = shared.metrics.enter();
        let (parts, inner) = request.into_parts();
        if let Some(check) = health::asked(&parts, &shared.config.base_domains) {
            archipel_traces::forget();
            return shared.health.answer(check, &parts.method).await;
        }
        let request_id = self.request_id();
        let mut entry = shared.config.audit.begin("s3", &request_id, &parts);
        let inner = inner.map_err(Into::into).boxed_unsync();
        let pool = shared.model.cluster().buffers();
        let body = RequestBody::new(inner, shared.config.limits.body_idle, pool);

        let mut exchange = Exchange {
            shared,
            parts: &parts,
            operation: "Unknown",
            target: None,
            learned: Learned::default(),
            request_id: &request_id,
        };
        // A defect must cost one request, not the connection's other streams.
        let answering = AssertUnwindSafe(exchange.answer(body)).catch_unwind().await;
        let (result, body) = match answering {
            Ok((result, body)) => (result, body),
            Err(_) => (Err(Code::InternalError.into()), None),
        };
        let (operation, target, learned) = (exchange.operation, exchange.target, exchange.learned);
        entry.who(learned.who.as_deref());
        let is_refused = match &result {
            Err(error) => error.code().refuses_credentials(),
            // IAM and STS tell errors in documents of their own.
            Ok(answer) => answer.status() == StatusCode::FORBIDDEN && learned.who.is_none(),
        };
        if let (true, Some(peer)) = (is_refused, parts.extensions.get::<Peer>()) {
            shared.config.rates.pace_refusal(peer.0).await;
        }
        let (status_code, mut answer) = match result {
            Ok(answer) => ("", self.await_end(answer, &parts, operation, &request_id)),
            Err(error) => {
                let error = explain(error, &parts, target.as_ref());
                log_cause(&error, operation, &request_id);
                let answer = self.error(&error, &parts, &request_id);
                (error.code().as_str(), answer)
            }
        };
        self.finish(&mut answer, &parts, target.as_ref(), &request_id);
        let received = body.as_ref().map_or(0, RequestBody::received);
        leave(&parts, body, &mut answer);
        let status = answer.status().as_u16();
        let elapsed = started.elapsed();
        shared
            .metrics
            .answered(operation, status, elapsed, received);
        let resource = target
            .as_ref()
            .map(|t| (t.bucket.as_deref(), t.key.as_deref()));
        let (bucket, key) = resource.unwrap_or_default();
        let known = bucket.and_then(|name| shared.model.bucket(name).ok().flatten());
        let known = known.as_ref().map(|bucket| bucket.name.as_str());
        let metrics = &shared.metrics;
        let sent = metrics.concerned(known, learned.user.as_deref(), status, received);
        entry.action(operation);
        entry.resource(bucket, key.or(learned.key.as_deref()));
        entry.answered(status, status_code, received);
        spans::describe(&spans::Outcome {
            endpoint: "s3",
            operation,
            request_id: &request_id,
            bucket,
            code: status_code,
        });
        // No query, no headers: they carry signatures.
        tracing::info!(
            target: "archipel::access",
            request_id,
            operation,
            method = %parts.method,
            bucket,
            key,
            status,
            code = status_code,
            received,
            milliseconds = elapsed.as_millis() as u64,
            "request"
        );
        answer.map(|body| counted(body, sent, guard, entry))
    }

    fn request_id(&self) -> String {
        // A counter from a random start, mixed so that ids do not look alike.
        let n = self.0.request_ids.fetch_add(1, Ordering::Relaxed);
        format!("{:016X}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Gives an unfinished answer the body that ends it; leaves others unchanged.
    fn await_end(
        &self,
        answer: Answer,
        parts: &Parts,
        operation: &'static str,
        request_id: &str,
    ) -> Answer {
        let resource = parts.uri.path().to_owned();
        let condition = precondition::of_write_name(&parts.headers);
        let (request_id, host_id) = (request_id.to_owned(), self.0.host_id.clone());
        slow::finish(answer, move |error| {
            log_cause(&error, operation, &request_id);
            let error = failed_because(error, condition);
            error.to_xml(&resource, &request_id, &host_id)
        })
    }

    fn error(&self, error: &S3Error, parts: &Parts, request_id: &str) -> Answer {
        let code = error.code();
        let bodiless = parts.method == Method::HEAD || code == Code::NotModified;
        let mut answer = if bodiless {
            respond::empty(code.status())
        } else {
            let (path, host_id) = (parts.uri.path(), &self.0.host_id);
            let document = match s3_control::is_asked(&parts.uri, &parts.headers) {
                true => error.to_control_xml(path, request_id, host_id),
                false => error.to_xml(path, request_id, host_id),
            };
            respond::xml_bytes(code.status(), document)
        };
        let headers = answer.headers_mut();
        if code.status() == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        for (name, value) in error.headers() {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        answer
    }

    /// Adds the headers that all answers share.
    fn finish(
        &self,
        answer: &mut Answer,
        parts: &Parts,
        target: Option<&Target>,
        request_id: &str,
    ) {
        let bucket = target.and_then(|target| target.bucket.as_deref());
        let is_preflight = parts.method == Method::OPTIONS;
        if let Some(bucket) = bucket.filter(|_| !is_preflight)
            && parts.headers.contains_key(header::ORIGIN)
            // Where the rules are not known, scripts see no answer: nobody learns more than was allowed.
            && let Ok(Some(bucket)) = self.0.model.bucket(bucket)
        {
            let added = cors::simple(&bucket.cors, &parts.method, &parts.headers);
            answer.headers_mut().extend(added);
        }
        set_length(answer, &parts.method);
        let is_bucket = target.is_some_and(|target| target.key.is_none());
        let tells_region = parts.method == Method::HEAD && answer.status() == StatusCode::FORBIDDEN;
        if bucket.is_some()
            && is_bucket
            && tells_region
            && let Ok(region) = HeaderValue::from_str(&self.0.config.region)
        {
            // Clients ask so for the region of a bucket that they may not see.
            answer.headers_mut().insert("x-amz-bucket-region", region);
        }
        let common = [
            ("x-amz-request-id", request_id),
            ("x-amz-id-2", &self.0.host_id),
            ("server", "Archipel"),
        ];
        for (name, value) in common {
            if let Ok(value) = HeaderValue::from_str(value) {
                answer
                    .headers_mut()
                    .insert(HeaderName::from_static(name), value);
            }
        }
    }
}

impl Door for S3 {
    fn limits(&self) -> Limits {
        self.0.config.limits
    }

    fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.handle(request).await
    }
}

/// Sets the length of an answer whose body is complete.
pub(crate) fn set_length(answer: &mut Answer, method: &Method) {
    let status = answer.status();
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    let known = answer.body().size_hint().exact();
    if let Some(length) = known.filter(|_| !bodiless && *method != Method::HEAD) {
        let headers = answer.headers_mut();
        headers
            .entry(header::CONTENT_LENGTH)
            .or_insert(length.into());
    }
}

/// Logs the details of an error that the client does not get.
pub(crate) fn log_cause(error: &S3Error, operation: &'static str, request_id: &str) {
    let code = error.code().as_str();
    match error.cause() {
        Some(cause) => tracing::error!(request_id, operation, code, cause, "a request failed"),
        None if error.code() == Code::InternalError => {
            tracing::error!(request_id, operation, code, "a request failed");
        }
        None => {}
    }
}

/// Counts sent bytes, and the request as in progress until all are sent. Then its entry of the audit
/// log ends.
pub(crate) fn counted(body: Body, sent: Sent, guard: Guard, mut entry: Entry) -> Body {
    body.map_frame(move |frame: Frame<Bytes>| {
        let _under_way = &guard;
        if let Some(bytes) = frame.data_ref() {
            sent.bytes(bytes.len() as u64);
            entry.sent(bytes.len() as u64);
        }
        frame
    })
    .boxed_unsync()
}

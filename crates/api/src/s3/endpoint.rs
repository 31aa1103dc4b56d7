//! The way of a request through an endpoint for users, from its arrival to the last byte of its
//! answer. It is the same for S3, K2V and websites; [`Endpoint`] is what differs.
//!
//! | module | what it holds |
//! |---|---|
//! | `leave` | the unread rest of a request's body |
//! | `ended` | the answered request, in logs and counters |

mod ended;
mod leave;

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::random::Random;
use archipel_model::Model;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::auth::Caller;
use super::body::{Body, BoxError, RequestBody};
use super::cors;
use super::error::{Code, S3Error, S3Result};
use super::respond::Answer;
use super::target::Target;
use crate::audit::{Audit, Entry};
use crate::serve::{Limits, Metrics, Peer, Rates, Secure};

use ended::{Ended, counted};

/// An endpoint for users: what differs between S3, K2V and websites.
pub(crate) trait Endpoint: Send + Sync {
    /// The name in the audit log, in spans and in the log.
    const NAME: &'static str;

    /// The operation of a request that is answered before its own is known.
    const UNKNOWN: &'static str;

    /// True if the logs show the path of a request, because bucket and key alone do not say what it
    /// is about.
    const SHOWS_PATH: bool;

    /// Returns what all endpoints have.
    fn frontend(&self) -> &Frontend;

    /// Answers a request, and returns its body as far as it was read. Notes in `learned` what it
    /// finds out.
    fn respond<'a>(
        &'a self,
        head: &'a RequestHead,
        body: Box<RequestBody>,
        learned: &'a mut Learned,
    ) -> BoxFuture<'a, Responded>;

    /// Returns the answer that is an error.
    fn error_answer(&self, head: &RequestHead, error: &S3Error) -> Answer;

    /// Adds the headers that answers of this endpoint share.
    fn add_headers(&self, head: &RequestHead, learned: &Learned, answer: &mut Answer);
}

/// An answer or an error, and the body of the request as far as it was read.
pub(crate) type Responded = (S3Result<Answer>, Option<RequestBody>);

/// The parts that all endpoints have.
pub(crate) struct Frontend {
    pub model: Model,
    pub limits: Limits,
    pub rates: Rates,
    pub audit: Audit,
    pub metrics: Metrics,
    /// Names this process in answers without telling anything about the machine.
    pub host_id: String,
    request_ids: AtomicU64,
}

/// A request without its body.
pub(crate) struct RequestHead {
    /// Boxed: thousands of polls wait with theirs.
    pub parts: Box<Parts>,
    /// The id in the answer and in the logs.
    pub id: String,
}

/// The facts that an endpoint finds out about a request, for logs and counters.
#[derive(Default)]
pub struct Learned {
    /// The operation's name.
    pub operation: &'static str,
    /// The bucket that the request names, whether it exists or not.
    pub bucket: Option<String>,
    /// The key that the address or a form gives.
    pub key: Option<String>,
    /// The access key whose signature was verified.
    pub who: Option<String>,
    /// The unique id of the user or role that it acts for.
    pub user: Option<String>,
    /// The ARN of the user or session that it acts for.
    pub principal: Option<String>,
    /// The ARN of what a request of IAM or STS is about.
    pub resource: Option<String>,
    /// The error that the answer tells.
    pub error: Option<S3Error>,
}

impl Frontend {
    pub fn new(
        model: Model,
        limits: Limits,
        rates: Rates,
        audit: Audit,
        metrics: Metrics,
        random: &dyn Random,
    ) -> Frontend {
        Frontend {
            model,
            limits,
            rates,
            audit,
            metrics,
            host_id: format!("{:016x}", random.next_u64()),
            request_ids: AtomicU64::new(random.next_u64()),
        }
    }

    fn request_id(&self) -> String {
        // A counter from a random start, mixed so that ids do not look alike.
        let n = self.request_ids.fetch_add(1, Ordering::Relaxed);
        format!("{:016X}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn admits(&self, head: &RequestHead) -> bool {
        let peer = head.peer();
        peer.is_none_or(|address| self.rates.admits_address(address))
    }

    /// Adds the headers that all answers about objects share: for scripts of other origins, and the
    /// host id.
    pub fn add_headers_of_objects(
        &self,
        head: &RequestHead,
        learned: &Learned,
        answer: &mut Answer,
    ) {
        self.add_cors_headers(head, learned, answer);
        if let Ok(host_id) = HeaderValue::from_str(&self.host_id) {
            answer.headers_mut().insert("x-amz-id-2", host_id);
        }
    }

    /// Adds the headers for scripts of other origins.
    pub fn add_cors_headers(&self, head: &RequestHead, learned: &Learned, answer: &mut Answer) {
        let (method, headers) = (&head.parts.method, &head.parts.headers);
        let bucket = learned.bucket.as_deref();
        if let Some(bucket) = bucket.filter(|_| *method != Method::OPTIONS)
            && headers.contains_key(header::ORIGIN)
            // Where the rules are not known, scripts see no answer: nobody learns more than was
            // allowed.
            && let Ok(Some(bucket)) = self.model.bucket(bucket)
        {
            let added = cors::simple(&bucket.cors, method, headers);
            answer.headers_mut().extend(added);
        }
    }

    /// Answers a browser's preflight. A bucket that does not exist gets the same answer as one
    /// without a configuration.
    ///
    /// # Errors
    /// As [`cors::answer_preflight`].
    pub fn preflight(&self, target: &Target, headers: &HeaderMap) -> S3Result<Answer> {
        let bucket = target.bucket.as_deref().map(|name| self.model.bucket(name));
        let bucket = bucket.transpose()?.flatten();
        let rules = bucket.as_ref().map_or(&[][..], |bucket| &bucket.cors);
        cors::answer_preflight(rules, headers)
    }
}

impl RequestHead {
    /// Returns the client's address, if it is known.
    pub fn peer(&self) -> Option<IpAddr> {
        self.parts.extensions.get::<Peer>().map(|peer| peer.0)
    }

    /// Returns true if the request came over TLS.
    pub fn is_secure(&self) -> bool {
        self.parts.extensions.get::<Secure>().is_some()
    }
}

impl Learned {
    /// Takes down who the client is.
    pub fn name(&mut self, caller: &Caller) {
        let subject = caller.subject();
        self.who = subject.map(|subject| subject.key().id.clone());
        self.user = subject.map(|subject| subject.id().to_owned());
        self.principal = subject.and_then(|subject| subject.principal(None).arn());
    }

    fn note(&self, entry: &mut Entry) {
        entry.who(self.who.as_deref());
        entry.action(self.operation);
        entry.principal(self.principal.as_deref());
        entry.object(self.bucket.as_deref(), self.key.as_deref());
        entry.resource(self.resource.as_deref());
    }
}

/// Answers a request. Never fails: an error is an answer.
pub(crate) fn handle<E, B>(
    endpoint: &E,
    request: Request<B>,
) -> impl Future<Output = Response<Body>> + Send
where
    E: Endpoint,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let body = body.map_err(Into::into).boxed_unsync();
    run(endpoint, Box::new(parts), body)
}

async fn run<E: Endpoint>(endpoint: &E, parts: Box<Parts>, body: Body) -> Response<Body> {
    let (started, frontend) = (Instant::now(), endpoint.frontend());
    let under_way = frontend.metrics.enter();
    let id = frontend.request_id();
    let head = RequestHead { parts, id };
    let mut entry = frontend.audit.begin(E::NAME, &head.id, &head.parts);
    let path = E::SHOWS_PATH.then(|| head.parts.uri.path());
    if let Some(path) = path {
        entry.path(path);
    }
    let mut learned = Learned {
        operation: E::UNKNOWN,
        ..Learned::default()
    };
    let pool = frontend.model.cluster().buffers();
    let body = Box::new(RequestBody::new(body, frontend.limits.body_idle, pool));
    let (result, body) = match frontend.admits(&head) {
        true => caught(endpoint.respond(&head, body, &mut learned)).await,
        false => (Err(Code::SlowDown.into()), Some(*body)),
    };
    let mut answer = result.unwrap_or_else(|error| {
        let answer = endpoint.error_answer(&head, &error);
        learned.error = Some(error);
        answer
    });
    if let Some(error) = &learned.error {
        log_cause(error, learned.operation, &head.id);
    }
    learned.note(&mut entry);
    let is_refused = refuses_credentials(&answer, &learned);
    if let Some(peer) = head.peer().filter(|_| is_refused) {
        frontend.rates.pace_refusal(peer).await;
    }
    endpoint.add_headers(&head, &learned, &mut answer);
    add_headers(&head, &learned, &mut answer);
    let received = body.as_ref().map_or(0, RequestBody::received);
    leave::leave(&head.parts, body, &mut answer);
    let ended = Ended {
        endpoint: E::NAME,
        head: &head,
        path,
        learned: &learned,
        status: answer.status().as_u16(),
        received,
        elapsed: started.elapsed(),
    };
    let sent = ended.count(frontend);
    entry.answered(ended.status, ended.code(), received);
    ended.describe_span();
    ended.log();
    answer.map(|body| counted(body, sent, under_way, entry))
}

/// Waits for an answer. A defect must cost one request, not the connection's other streams.
async fn caught(answering: BoxFuture<'_, Responded>) -> Responded {
    let caught = AssertUnwindSafe(answering).catch_unwind().await;
    caught.unwrap_or_else(|_| (Err(Code::InternalError.into()), None))
}

/// Returns true if an answer says that the credentials of the request do not count.
fn refuses_credentials(answer: &Answer, learned: &Learned) -> bool {
    match &learned.error {
        Some(error) => error.code().refuses_credentials(),
        // IAM and STS tell errors in documents of their own.
        None => answer.status() == StatusCode::FORBIDDEN && learned.who.is_none(),
    }
}

/// Adds the headers that the answers of all endpoints share.
fn add_headers(head: &RequestHead, learned: &Learned, answer: &mut Answer) {
    set_length(answer, &head.parts.method);
    let is_unavailable = answer.status() == StatusCode::SERVICE_UNAVAILABLE;
    let headers = answer.headers_mut();
    if learned.error.is_some() && is_unavailable {
        let soon = HeaderValue::from_static("1");
        headers.entry(header::RETRY_AFTER).or_insert(soon);
    }
    headers.insert(header::SERVER, HeaderValue::from_static("Archipel"));
    if let Ok(id) = HeaderValue::from_str(&head.id) {
        headers.insert("x-amz-request-id", id);
    }
}

/// Sets the length of an answer whose body is complete.
fn set_length(answer: &mut Answer, method: &Method) {
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

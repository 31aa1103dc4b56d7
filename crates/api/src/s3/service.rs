//! The S3 API as an [`Endpoint`]: health checks, errors as documents, and the headers that its
//! answers share.

mod exchange;

use std::sync::Arc;

use archipel_base::boxed;
use archipel_base::clock::WallClock;
use archipel_base::random::Random;
use archipel_model::Model;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::body::{Body, BoxError, RequestBody};
use super::config::S3Config;
use super::endpoint::{self, Endpoint, Frontend, Learned, RequestHead, Responded, log_cause};
use super::error::{Code, S3Error};
use super::explain::{explain, failed_because};
use super::health::{self, Health, HealthSource};
use super::precondition;
use super::respond::{self, Answer};
use super::s3_control;
use super::sigv4::Verifier;
use super::slow;
use crate::iam;
use crate::serve::{Answering, Limits, Metrics, Service};

use exchange::Exchange;

/// The S3 API on a model. Cheap to clone.
#[derive(Clone)]
pub struct S3(Arc<Shared>);

struct Shared {
    frontend: Frontend,
    config: S3Config,
    verifier: Verifier,
    iam: iam::service::Apis,
    clock: Arc<dyn WallClock>,
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
        let (rates, audit) = (config.rates.clone(), config.audit.clone());
        S3(Arc::new(Shared {
            frontend: Frontend::new(model, config.limits, rates, audit, metrics, random),
            verifier: Verifier::new(config.region.clone(), "s3"),
            iam: iam::service::Apis::new(&config.region),
            config,
            clock,
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
        let (parts, body) = request.into_parts();
        if let Some(check) = health::asked(&parts, &shared.config.base_domains) {
            let _under_way = shared.frontend.metrics.enter();
            archipel_traces::forget();
            return shared.health.answer(check, &parts.method).await;
        }
        endpoint::handle(self, Request::from_parts(parts, body)).await
    }

    /// Gives an unfinished answer the body that ends it; leaves others unchanged.
    fn await_end(&self, answer: Answer, head: &RequestHead, operation: &'static str) -> Answer {
        let resource = head.parts.uri.path().to_owned();
        let condition = precondition::of_write_name(&head.parts.headers);
        let (request_id, host_id) = (head.id.clone(), self.0.frontend.host_id.clone());
        slow::finish(answer, move |error| {
            log_cause(&error, operation, &request_id);
            let error = failed_because(error, condition);
            error.to_xml(&resource, &request_id, &host_id)
        })
    }
}

impl Endpoint for S3 {
    const NAME: &'static str = "s3";
    const UNKNOWN: &'static str = "Unknown";
    const SHOWS_PATH: bool = false;

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
        let mut exchange = Exchange {
            shared: &self.0,
            head,
            target: None,
            learned,
        };
        let (result, body) = exchange.answer(body).await;
        let Exchange {
            target, learned, ..
        } = exchange;
        let result = match result {
            Ok(answer) => Ok(self.await_end(answer, head, learned.operation)),
            Err(error) => Err(explain(error, &head.parts, target.as_ref())),
        };
        (result, body)
    }

    fn error_answer(&self, head: &RequestHead, error: &S3Error) -> Answer {
        let (code, parts) = (error.code(), &head.parts);
        let bodiless = parts.method == Method::HEAD || code == Code::NotModified;
        let mut answer = if bodiless {
            respond::empty(code.status())
        } else {
            let (path, host_id) = (parts.uri.path(), &self.0.frontend.host_id);
            let document = match s3_control::is_asked(&parts.uri, &parts.headers) {
                true => error.to_control_xml(path, &head.id, host_id),
                false => error.to_xml(path, &head.id, host_id),
            };
            respond::xml_bytes(code.status(), document)
        };
        respond::add_headers_of(error, &mut answer);
        answer
    }

    fn add_headers(&self, head: &RequestHead, learned: &Learned, answer: &mut Answer) {
        let frontend = &self.0.frontend;
        frontend.add_headers_of_objects(head, learned, answer);
        let is_of_bucket = learned.bucket.is_some() && learned.key.is_none();
        let is_refused_head =
            head.parts.method == Method::HEAD && answer.status() == StatusCode::FORBIDDEN;
        if is_of_bucket
            && is_refused_head
            && let Ok(region) = HeaderValue::from_str(&self.0.config.region)
        {
            // Clients ask so for the region of a bucket that they may not see.
            answer.headers_mut().insert("x-amz-bucket-region", region);
        }
    }
}

impl Service for S3 {
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

//! The listener for plain HTTP: it answers the authority (http-01), and sends everybody else on to
//! `https`.

use archipel_api::serve::{Answering, Body, Limits, Metrics, Service};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, LOCATION};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use super::Acme;

/// The path at which an authority looks for an answer (RFC 8555, section 8.3).
const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// The service. A clone is the same.
#[derive(Clone)]
pub struct PlainService {
    acme: Acme,
    limits: Limits,
    metrics: Metrics,
}

impl PlainService {
    /// Answers for the domains of `acme`.
    pub fn new(acme: Acme, limits: Limits, metrics: Metrics) -> PlainService {
        PlainService {
            acme,
            limits,
            metrics,
        }
    }
}

impl Service for PlainService {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn answer(&self, request: Request<Incoming>) -> Answering<'_> {
        Box::pin(self.answer_plainly(request))
    }
}

impl PlainService {
    async fn answer_plainly(&self, request: Request<Incoming>) -> Response<Body> {
        let Some(domain) = domain_of(&request) else {
            return text(StatusCode::BAD_REQUEST, "The request names no host.\n");
        };
        if let Some(token) = request.uri().path().strip_prefix(CHALLENGES) {
            let challenge = self.acme.challenge(&domain).await;
            return match challenge.filter(|challenge| challenge.token == token) {
                Some(challenge) => text(StatusCode::OK, challenge.answer),
                None => text(StatusCode::NOT_FOUND, "No such challenge.\n"),
            };
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let refusal = "Use https. This request was not encrypted.\n";
            return text(StatusCode::FORBIDDEN, refusal);
        }
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str());
        let Ok(location) = HeaderValue::try_from(format!("https://{domain}{path}")) else {
            return text(StatusCode::BAD_REQUEST, "The request names no page.\n");
        };
        let mut moved = text(StatusCode::MOVED_PERMANENTLY, "Use https.\n");
        moved.headers_mut().insert(LOCATION, location);
        moved
    }
}

/// Returns the host that a request names, in lower case and without a port.
fn domain_of<B>(request: &Request<B>) -> Option<String> {
    let named = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let authority = named?.parse::<http::uri::Authority>().ok()?;
    let is_plain = !authority.as_str().contains('@') && !authority.host().is_empty();
    is_plain.then(|| authority.host().to_ascii_lowercase())
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(text.into())
        .map_err(|never| match never {})
        .boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, plain);
    answer
}

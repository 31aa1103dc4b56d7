//! The spans of requests: what a collector of traces learns of them.
//!
//! The names of attributes are OpenTelemetry's, and for what only Archipel has, they begin with
//! `archipel`.
//!
//! # Invariants
//! - A span holds no secret and nothing that the audit log does not show: no query, which carries
//!   signatures, no header but the host, no content.

use std::pin::Pin;
use std::task::{Context, Poll};

use archipel_traces::{Received, Record, Span, Tracer};
use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, Method, Request, Response, Version, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;

use super::{Body, BoxError, Peer};

/// The header with the client's span. `tracestate` is dropped: it is for other vendors' systems,
/// and nothing behind this one is such a system.
const TRACEPARENT: &str = "traceparent";

/// Begins the span of a request.
pub(crate) fn begin<B>(tracer: &Tracer, request: &Request<B>) -> Span {
    let received = || received(request.headers());
    let span = tracer.begin_request(method(request.method()), received);
    span.describe(|record| about(record, request));
    span
}

/// Returns the client's context. Two of them are none.
fn received(headers: &HeaderMap) -> Option<Received> {
    let mut sent = headers.get_all(TRACEPARENT).iter();
    match (sent.next(), sent.next()) {
        (Some(only), None) => Received::parse(only.as_bytes()),
        _ => None,
    }
}

/// Returns the method. Clients may invent others, and each would be a name of its own.
fn method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "PUT" => "PUT",
        "POST" => "POST",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        "PATCH" => "PATCH",
        _ => "_OTHER",
    }
}

fn about<B>(record: &mut Record, request: &Request<B>) {
    record.set("http.request.method", method(request.method()));
    record.set("url.path", request.uri().path());
    if let Some(peer) = request.extensions().get::<Peer>() {
        record.set("client.address", peer.0.to_canonical().to_string());
    }
    let version = match request.version() {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    record.set("network.protocol.version", version);
    let host = || request.headers().get(header::HOST)?.to_str().ok();
    let named = || host()?.parse::<Authority>().ok();
    if let Some(server) = request.uri().authority().cloned().or_else(named) {
        // Without a name and a password in it.
        record.set("server.address", server.host());
        if let Some(port) = server.port_u16() {
            record.set("server.port", port);
        }
    }
}

/// The attributes of a request that only its endpoint knows.
pub(crate) struct Outcome<'a> {
    pub endpoint: &'static str,
    pub operation: &'a str,
    pub request_id: &'a str,
    pub bucket: Option<&'a str>,
    /// The error's code, or nothing.
    pub code: &'a str,
}

/// Adds these attributes to the span of the request that this task works for.
pub(crate) fn describe(outcome: &Outcome<'_>) {
    archipel_traces::describe(|record| {
        record.rename(outcome.operation);
        record.set("archipel.operation", outcome.operation);
        let others = [
            ("archipel.endpoint", outcome.endpoint),
            ("archipel.request_id", outcome.request_id),
            ("archipel.bucket", outcome.bucket.unwrap_or_default()),
            ("archipel.error_code", outcome.code),
        ];
        for (name, value) in others.into_iter().filter(|(_, value)| !value.is_empty()) {
            record.set(name, value);
        }
    });
}

/// Notes the status of the answer.
pub(crate) fn answered<B>(span: &Span, answer: &Response<B>) {
    span.describe(|record| {
        let status = answer.status();
        record.set("http.response.status_code", status.as_u16());
        if status.is_server_error() {
            record.fail(status.as_str());
        }
    });
}

/// Lets the span of a request end when the answer is sent.
pub(crate) fn until_sent(answer: Response<Body>, span: Span) -> Response<Body> {
    match span.is_recorded() {
        true => answer.map(|body| Sent { body, span }.boxed_unsync()),
        false => answer,
    }
}

/// A body with a recorded span. Some answers work on while they are sent.
struct Sent {
    body: Body,
    span: Span,
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Sent { body, span } = &mut *self;
        let polled = span.enter(|| Pin::new(body).poll_frame(context));
        if let Poll::Ready(Some(Err(_))) = &polled {
            span.describe(|record| record.fail("broken"));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;

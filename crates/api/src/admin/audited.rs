//! Writes each request of an operator down in the audit log, and makes its span. Probes and scrapes
//! of metrics are left out: they change nothing, and there are many.

use std::net::IpAddr;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Body;

use super::Trust;
use super::answer::Answer;
use super::auth::{Caller, identify};
use super::route::Service;
use crate::serve::{Peer, spans};

/// The paths that are left out.
const QUIET: [&str; 4] = ["/health", "/health/live", "/health/quorum", "/metrics"];

/// The attributes that all spans of this endpoint have.
const AS_ADMIN: spans::Outcome<'static> = spans::Outcome {
    endpoint: "admin",
    operation: "Admin",
    request_id: "",
    bucket: None,
    code: "",
};

/// Answers a request that came from `peer`, or over the local socket.
pub(super) async fn handle<B>(
    service: &Service,
    trust: Trust,
    peer: Option<IpAddr>,
    request: Request<B>,
) -> Answer
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    let (path, headers) = (request.uri().path(), request.headers());
    let caller = identify(service.admin(), trust, peer, path, headers).await;
    if let (Err(refusal), Some(peer)) = (&caller, peer)
        && refusal.status == StatusCode::UNAUTHORIZED
    {
        service.admin().rates.pace_refusal(peer).await;
    }
    if QUIET.contains(&path) {
        return service.handle(caller, request).await;
    }
    let (mut parts, body) = request.into_parts();
    if let Some(peer) = peer {
        parts.extensions.insert(Peer(peer));
    }
    let mut entry = service.admin().audit.begin("admin", "", &parts);
    entry.path(parts.uri.path());
    entry.action(match is_secret_of_key(parts.uri.path()) {
        true => "ReadSecret",
        false => "Admin",
    });
    entry.who(caller.as_ref().ok().and_then(Caller::name));
    let request = Request::from_parts(parts, body);
    let span = spans::begin(&service.admin().tracer, &request);
    let answer = span.within(service.handle(caller, request)).await;
    spans::answered(&span, &answer);
    span.enter(|| spans::describe(&AS_ADMIN));
    entry.answered(answer.status().as_u16(), "", 0);
    if let Some(bytes) = answer.body().size_hint().exact() {
        entry.sent(bytes);
    }
    answer
}

/// Returns true for the path of the secret of an access key. Buckets, users and the like may have the name `secret`.
fn is_secret_of_key(path: &str) -> bool {
    let id = path.strip_prefix("/v1/keys/");
    let id = id.and_then(|rest| rest.strip_suffix("/secret"));
    id.is_some_and(|id| !id.is_empty() && !id.contains('/'))
}

//! Writes each request of an operator down in the audit log. Probes and scrapes of metrics are left
//! out: they change nothing, and there are many.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body::Body;

use super::answer::Answer;
use super::route::Door;
use super::{Admin, Trust};
use crate::serve::Peer;

/// The paths that are left out.
const QUIET: [&str; 2] = ["/health", "/metrics"];

/// Answers a request that came from `peer`, or over the local socket.
pub(super) async fn handle<B>(
    door: &Door,
    trust: Trust,
    peer: Option<IpAddr>,
    request: Request<B>,
) -> Answer
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    if QUIET.contains(&request.uri().path()) {
        return door.handle(trust, request).await;
    }
    let admin = door.admin();
    let (mut parts, body) = request.into_parts();
    if let Some(peer) = peer {
        parts.extensions.insert(Peer(peer));
    }
    let mut entry = admin.audit.begin("admin", "", &parts);
    entry.path(parts.uri.path());
    let shows_secret = parts.uri.path().ends_with("/secret");
    entry.action(if shows_secret { "ReadSecret" } else { "Admin" });
    entry.who(who(admin, trust, &parts.headers));
    let answer = door.handle(trust, Request::from_parts(parts, body)).await;
    entry.answered(answer.status().as_u16(), "", 0);
    if let Some(bytes) = answer.body().size_hint().exact() {
        entry.sent(bytes);
    }
    answer
}

/// Returns what opened the door for a request.
fn who(admin: &Admin, trust: Trust, headers: &HeaderMap) -> Option<&'static str> {
    match trust {
        Trust::Peer => Some("socket"),
        Trust::Token if admin.tokens.open_all(headers) => Some("token"),
        Trust::Token => None,
    }
}

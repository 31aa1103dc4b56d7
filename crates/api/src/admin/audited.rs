//! Writes each request of an operator down in the audit log. Probes and scrapes of metrics are left
//! out: they change nothing, and there are many.

use std::net::IpAddr;

use http::{HeaderMap, Request};
use http_body::Body;

use super::answer::Answer;
use super::{Admin, Trust, route};
use crate::serve::Peer;

/// The paths that are left out.
const QUIET: [&str; 2] = ["/health", "/metrics"];

/// Answers a request that came from `peer`, or over the local socket.
pub(super) async fn handle<B>(
    admin: &Admin,
    trust: Trust,
    peer: Option<IpAddr>,
    request: Request<B>,
) -> Answer
where
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if QUIET.contains(&request.uri().path()) {
        return route::handle(admin, trust, request).await;
    }
    let (mut parts, body) = request.into_parts();
    if let Some(peer) = peer {
        parts.extensions.insert(Peer(peer));
    }
    let mut entry = admin.audit.begin("admin", "", &parts);
    entry.path(parts.uri.path());
    entry.action(match parts.uri.query() {
        Some(query) if query.contains("secret=true") => "ReadSecret",
        _ => "Admin",
    });
    entry.who(who(admin, trust, &parts.headers));
    let answer = route::handle(admin, trust, Request::from_parts(parts, body)).await;
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

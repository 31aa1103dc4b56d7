//! Authentication and authorisation: tokens of the settings and of the cluster, and their scopes.
//!
//! Secrets are compared by their digests, in a time that does not depend on where they differ.

use std::net::IpAddr;
use std::sync::Arc;

use archipel_model::{AdminToken, Error, TokenScope};
use http::{HeaderMap, StatusCode, header};
use ring::digest::{SHA256, digest};

use super::answer::Refusal;
use super::operations::Operation;
use super::{Admin, Trust};

/// The resource of a scope for all resources.
pub(super) const ALL: &str = "all";

/// The tokens of the settings.
#[derive(Clone)]
pub(super) struct Tokens {
    all: Option<[u8; 32]>,
    metrics: Option<[u8; 32]>,
}

/// The caller of a request.
#[derive(Clone)]
pub(super) enum Caller {
    /// A caller without a token, who may see the health.
    Anybody,
    /// The server's user on the local socket, or a caller with the token of the settings.
    Operator {
        /// True for the local socket.
        socket: bool,
    },
    /// The token for metrics of the settings.
    Metrics,
    /// A token of the cluster.
    Token(Arc<AdminToken>),
}

impl Tokens {
    pub(super) fn new(all: Option<&str>, metrics: Option<&str>) -> Tokens {
        Tokens {
            all: all.map(token_digest),
            metrics: metrics.map(token_digest),
        }
    }
}

/// Finds out who asks for `path`. Without a token that counts, only the health may be seen.
pub(super) async fn identify(
    admin: &Admin,
    trust: Trust,
    peer: Option<IpAddr>,
    path: &str,
    headers: &HeaderMap,
) -> Result<Caller, Refusal> {
    if trust == Trust::Peer {
        return Ok(Caller::Operator { socket: true });
    }
    if path == "/health" || path.starts_with("/health/") {
        return Ok(Caller::Anybody);
    }
    let text = bearer(headers).ok_or_else(unauthorized)?;
    let given = token_digest(text);
    let is = |expected: &Option<[u8; 32]>| expected.as_ref().is_some_and(|e| same(&given, e));
    if is(&admin.tokens.all) {
        return Ok(Caller::Operator { socket: false });
    }
    if is(&admin.tokens.metrics) {
        return Ok(Caller::Metrics);
    }
    // Anybody can invent tokens. A node that is alone asks nobody about them.
    if let Some(peer) = peer
        && !admin.model.cluster().is_alone()
        && !admin.model.knows_admin_token(text)?
        && !admin.rates.admits_look_up(peer).await
    {
        let why = "too many unknown tokens of this address";
        return Err(Error::Busy(why.into()).into());
    }
    let token = admin.model.admit_admin_token(text).await?;
    token.map(Caller::Token).ok_or_else(unauthorized)
}

impl Caller {
    /// Returns the name for the audit log.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Caller::Anybody => None,
            Caller::Operator { socket: true } => Some("socket"),
            Caller::Operator { socket: false } => Some("token"),
            Caller::Metrics => Some("metrics token"),
            Caller::Token(token) => Some(&token.id),
        }
    }

    /// Checks that the caller may do this, with the bucket that the path names.
    pub(super) fn check(&self, operation: &Operation, bucket: Option<&str>) -> Result<(), Refusal> {
        let may = match self {
            Caller::Operator { .. } => true,
            Caller::Anybody => operation.is_open,
            Caller::Metrics => operation.is_open || operation.metrics_token,
            Caller::Token(token) => {
                let opens = |scope: &TokenScope| opens(scope, operation, bucket);
                operation.is_open || operation.any_token || token.scopes.iter().any(opens)
            }
        };
        if may {
            return Ok(());
        }
        Err(self.lacks(&operation.scope()))
    }

    /// Checks that the caller may change everything of a kind, where an operation on one bucket reaches
    /// beyond that bucket.
    pub(super) fn check_all_of(&self, resource: &str) -> Result<(), Refusal> {
        let opens = |scope: &TokenScope| {
            let here = scope.resource == ALL || scope.resource == resource;
            here && scope.bucket.is_none() && scope.write
        };
        match self {
            Caller::Operator { .. } => Ok(()),
            Caller::Token(token) if token.scopes.iter().any(opens) => Ok(()),
            _ => Err(self.lacks(&format!("{resource}:write"))),
        }
    }

    fn lacks(&self, scope: &str) -> Refusal {
        // The token of the settings for metrics is no token for anything else.
        let Caller::Token(token) = self else {
            return unauthorized();
        };
        let why = format!("the token {:?} lacks the scope {scope}", token.name);
        Refusal::new(StatusCode::FORBIDDEN, "Forbidden", why)
    }
}

fn opens(scope: &TokenScope, operation: &Operation, bucket: Option<&str>) -> bool {
    let resource = scope.resource == ALL || scope.resource == operation.resource;
    let here = scope.bucket.is_none() || scope.bucket.as_deref() == bucket;
    resource && here && (scope.write || !operation.write)
}

/// Reads a scope: `RESOURCE:read`, `RESOURCE:write` or `buckets/NAME:write`.
pub(super) fn parse_scope(text: &str, resources: &[String]) -> Result<TokenScope, Refusal> {
    let invalid = |why: &str| Refusal::invalid(format!("scope {text:?}: {why}"));
    let (resource, level) = text
        .split_once(':')
        .ok_or_else(|| invalid("write RESOURCE:read or RESOURCE:write"))?;
    let write = match level {
        "read" => false,
        "write" => true,
        _ => return Err(invalid("after the colon stands read or write")),
    };
    let (resource, bucket) = match resource.split_once('/') {
        Some((resource, bucket)) => (resource, Some(bucket.to_owned())),
        None => (resource, None),
    };
    if resource != ALL && !resources.iter().any(|known| known == resource) {
        let known = resources.join(", ");
        return Err(invalid(&format!("the resources are {ALL}, {known}")));
    }
    if bucket.is_some() && resource != "buckets" {
        return Err(invalid("only buckets are scoped one by one: buckets/NAME"));
    }
    if resource == "tokens" && write {
        return Err(invalid(
            "a caller that makes tokens can do everything; fix: all:write",
        ));
    }
    Ok(TokenScope {
        resource: resource.to_owned(),
        write,
        bucket,
    })
}

/// Writes a scope as [`parse_scope`] reads it.
pub(super) fn show_scope(scope: &TokenScope) -> String {
    let bucket = scope.bucket.as_ref().map(|name| format!("/{name}"));
    let level = if scope.write { "write" } else { "read" };
    format!("{}{}:{level}", scope.resource, bucket.unwrap_or_default())
}

pub(super) fn unauthorized() -> Refusal {
    let message = "send a token that counts: Authorization: Bearer TOKEN";
    Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
}

fn token_digest(token: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Compares all bytes in constant time.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let difference = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(difference) == 0
}

//! Tokens: compared by their digests, in a time that does not depend on where they differ.

use axum::body::Body;
use http::{HeaderMap, Request, StatusCode, header};
use ring::digest::{SHA256, digest};

use super::Trust;
use super::answer::Refusal;

/// The tokens that requests must carry.
#[derive(Clone)]
pub(super) struct Tokens {
    all: Option<[u8; 32]>,
    metrics: Option<[u8; 32]>,
}

impl Tokens {
    pub(super) fn new(all: Option<&str>, metrics: Option<&str>) -> Tokens {
        Tokens {
            all: all.map(fingerprint),
            metrics: metrics.map(fingerprint),
        }
    }

    /// Admits a request: from a listener that trusts its clients, for the health, or with a token.
    pub(super) fn admit(&self, trust: Trust, request: &Request<Body>) -> Result<(), Refusal> {
        let headers = request.headers();
        let open = match (trust, request.uri().path()) {
            (Trust::Peer, _) | (_, "/health") => true,
            (Trust::Token, "/metrics") => self.open_metrics(headers),
            (Trust::Token, _) => self.open_all(headers),
        };
        if open { Ok(()) } else { Err(unauthorized()) }
    }

    /// Returns true if the request carries the token for everything.
    pub(super) fn open_all(&self, headers: &HeaderMap) -> bool {
        carries(headers, self.all.as_ref())
    }

    /// Returns true if the request carries a token that opens the metrics.
    fn open_metrics(&self, headers: &HeaderMap) -> bool {
        self.open_all(headers) || carries(headers, self.metrics.as_ref())
    }
}

fn unauthorized() -> Refusal {
    let message = "send the admin token: Authorization: Bearer TOKEN";
    Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
}

fn fingerprint(token: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

fn carries(headers: &HeaderMap, expected: Option<&[u8; 32]>) -> bool {
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| fingerprint(token.trim()));
    match (given, expected) {
        (Some(given), Some(expected)) => same(&given, expected),
        _ => false,
    }
}

/// Compares all bytes in constant time.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let difference = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(difference) == 0
}

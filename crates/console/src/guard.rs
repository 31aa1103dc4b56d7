//! What protects every request: cookies, proofs against forged requests, headers of all answers.

use axum::body::Body;
use axum::middleware::Next;
use axum::response::IntoResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};

use crate::Shared;
use crate::fault::Fault;

/// The policy of every page: only what the console's own origin serves, and nothing inside of pages.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers that each answer has, unless its handler chose another value.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Refuses requests that another site made the browser send, and gives answers their headers.
pub async fn protect(request: Request<Body>, next: Next) -> Response<Body> {
    let changes = !request.method().is_safe();
    let mut answer = if changes && is_foreign(request.headers()) {
        Fault::forged().into_response()
    } else {
        next.run(request).await
    };
    let headers = answer.headers_mut();
    for (name, value) in HEADERS {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    answer
}

/// Returns true if the browser says that a page of another origin made the request.
///
/// Browsers say it over TLS and on the machine itself. Elsewhere the origin is compared with the
/// host, which a proxy may have changed only if it also ends TLS.
fn is_foreign(headers: &HeaderMap) -> bool {
    if let Some(site) = text(headers, &HeaderName::from_static("sec-fetch-site")) {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = text(headers, &header::ORIGIN) else {
        return false;
    };
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    authority.is_none() || authority != text(headers, &header::HOST)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

impl Shared {
    /// Returns the name of the cookie. Nodes on one machine differ in their ports only, which
    /// browsers ignore.
    fn cookie_name(&self) -> String {
        format!("archipel_console_{}", self.config.port)
    }

    /// Returns the session's cookie in a request.
    pub fn cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let name = self.cookie_name();
        let lines = headers.get_all(header::COOKIE).iter();
        let mut pairs = lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// Returns the header that sets the session's cookie, or that removes it.
    pub fn set_cookie(&self, cookie: Option<&str>, secure: bool) -> String {
        let name = self.cookie_name();
        let secure = if secure { "; Secure" } else { "" };
        let (value, age) = match cookie {
            Some(value) => (value, crate::session::LONGEST.as_secs()),
            None => ("", 0),
        };
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}")
    }
}

/// Compares two secrets in a time that does not depend on where they differ.
pub fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let difference = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(pairs: &[(&'static str, &'static str)]) -> bool {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        is_foreign(&pairs.collect())
    }

    #[test]
    fn requests_of_other_sites_are_foreign() {
        let host = ("host", "a.example:3905");
        assert!(!foreign(&[host]));
        assert!(!foreign(&[host, ("origin", "http://a.example:3905")]));
        assert!(foreign(&[host, ("origin", "http://b.example")]));
        assert!(foreign(&[host, ("origin", "null")]));
        assert!(foreign(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(foreign(&[host, ("sec-fetch-site", "same-site")]));
        let proxied = ("origin", "https://console.example");
        assert!(!foreign(&[
            host,
            proxied,
            ("sec-fetch-site", "same-origin")
        ]));
    }

    #[test]
    fn secrets_are_the_same_only_as_a_whole() {
        assert!(same("abc", "abc") && same("", ""));
        assert!(!same("abc", "abd") && !same("abc", "ab") && !same("", "a"));
    }
}

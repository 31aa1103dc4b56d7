//! The protection of every request: cookies, proofs against forged requests, headers of all answers.

use std::net::IpAddr;
use std::sync::Arc;

use archipel_api::serve::Secure;
use axum::body::Body;
use axum::middleware::Next;
use axum::response::IntoResponse;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};

use crate::Shared;
use crate::fault::Fault;
use crate::session::Session;

/// The policy of every page: only what the console's own origin serves, and nothing inside of pages.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers that each answer has, unless its handler chose another value.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // Not `no-referrer`: with it browsers send `Origin: null` with the forms of a page (Fetch, "append a request
    // `Origin` header"), and over plain HTTP nothing else says which page sent a form.
    (header::REFERRER_POLICY, "same-origin"),
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

/// The header in which browsers say which site made a request.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The beginning of the names of cookies that only the host itself can set, and only over TLS. A sibling of
/// the host, such as a website below the same domain, can set all others for it.
const OF_HOST: &str = "__Host-";

/// Refuses requests that another site made the browser send, and gives answers their headers.
pub async fn protect(request: Request<Body>, next: Next) -> Response<Body> {
    let changes = !request.method().is_safe();
    let mut answer = if changes && is_foreign(&request) {
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
/// Browsers name the site over TLS and on the machine itself. Elsewhere the origin is compared with the
/// host, which a proxy may have changed only if it also ends TLS.
fn is_foreign<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    if let Some(site) = text(headers, &SITE) {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = text(headers, &header::ORIGIN) else {
        return false;
    };
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    // Requests over HTTP/2 have the host in their address.
    let host = text(headers, &header::HOST);
    let host = host.or_else(|| request.uri().authority().map(Authority::as_str));
    authority.is_none() || authority != host
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns true if the browser reached the console over TLS, here or at a proxy.
pub fn is_secure(parts: &Parts) -> bool {
    let origin = text(&parts.headers, &header::ORIGIN);
    says_secure(parts) || origin.is_some_and(|origin| origin.starts_with("https://"))
}

/// Returns true if each request of a browser shows that it reached the console over TLS. Behind a proxy, browsers
/// name the site only over TLS and on their own machine. Only requests that change something show an origin.
fn says_secure(parts: &Parts) -> bool {
    let host = parts.headers.get(header::HOST);
    let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    // Requests over HTTP/2 have it there.
    let host = host.as_ref().or(parts.uri.authority());
    parts.extensions.get::<Secure>().is_some()
        || parts.headers.contains_key(SITE) && host.is_some_and(|host| !is_local(host.host()))
}

/// Returns true for a name of the browser's own machine.
fn is_local(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let is_loopback = address.is_ok_and(|address| address.is_loopback());
    is_loopback || host == "localhost" || host.ends_with(".localhost")
}

impl Shared {
    /// Returns the name of the cookie. Nodes on one machine differ in their ports only, which
    /// browsers ignore.
    fn cookie_name(&self, secure: bool) -> String {
        let of_host = if secure { OF_HOST } else { "" };
        format!("{of_host}archipel_console_{}", self.config.port)
    }

    /// Returns the session of a request. A browser may send several cookies of the name: a sibling of the host can
    /// add one for a path. Over TLS only the cookie counts that no other host can set.
    pub fn session(&self, parts: &Parts) -> Option<Arc<Session>> {
        let mut names = vec![self.cookie_name(true)];
        if !says_secure(parts) {
            names.push(self.cookie_name(false));
        }
        let mut cookies = names.iter().flat_map(|name| cookies(&parts.headers, name));
        cookies.find_map(|cookie| self.sessions.find(cookie))
    }

    /// Returns the header that sets the session's cookie, or that removes it.
    pub fn set_cookie(&self, cookie: Option<&str>, secure: bool) -> String {
        let name = self.cookie_name(secure);
        let secure = if secure { "; Secure" } else { "" };
        let (value, age) = match cookie {
            Some(value) => (value, crate::session::LONGEST.as_secs()),
            None => ("", 0),
        };
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}")
    }
}

/// Returns the cookies of this name.
fn cookies<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.filter_map(move |(other, value)| (other == name).then_some(value))
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

    fn foreign_at(address: &str, pairs: &[(&str, &str)]) -> bool {
        let request = Request::post(address);
        let request = pairs.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        is_foreign(&request.body(()).unwrap())
    }

    fn foreign(pairs: &[(&str, &str)]) -> bool {
        foreign_at("/", pairs)
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

    /// Some browsers do not name the site.
    #[test]
    fn requests_over_http2_have_their_host_in_the_address() {
        let address = "https://a.example:3905/buckets";
        let foreign = |origin: &str| foreign_at(address, &[("origin", origin)]);
        assert!(!foreign("https://a.example:3905"));
        assert!(foreign("https://a.example"));
        assert!(foreign("https://b.example:3905"));
        assert!(foreign("null"));
        assert!(!foreign_at(address, &[]));
    }

    #[test]
    fn tls_at_a_proxy_is_known_by_what_browsers_say_only_then() {
        let asked = |host: &str, site: Option<&str>, origin: Option<&str>| {
            let pairs = [("sec-fetch-site", site), ("origin", origin)];
            let pairs = pairs
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            let request = Request::get("/").header("host", host);
            let request = pairs.fold(request, |request, (name, value)| {
                request.header(name, value)
            });
            let (parts, ()) = request.body(()).unwrap().into_parts();
            (is_secure(&parts), says_secure(&parts))
        };
        let (site, https) = (Some("same-origin"), Some("https://a.example"));
        assert_eq!(asked("a.example", None, None), (false, false));
        assert_eq!(asked("a.example", site, Some("null")), (true, true));
        assert_eq!(asked("a.example", None, https), (true, false));
        assert_eq!(
            asked("a.example", None, Some("http://a.example")),
            (false, false)
        );
        for local in [
            "localhost",
            "a.localhost:3905",
            "127.0.0.1:3905",
            "[::1]:3905",
        ] {
            assert_eq!(asked(local, site, None), (false, false), "{local}");
        }
    }

    #[test]
    fn secrets_are_the_same_only_as_a_whole() {
        assert!(same("abc", "abc") && same("", ""));
        assert!(!same("abc", "abd") && !same("abc", "ab") && !same("", "a"));
    }
}

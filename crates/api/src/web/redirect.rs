//! Addresses of redirects.
//!
//! An address without a scheme leaves the choice to the client: it keeps the scheme of its request,
//! also behind a proxy that ends TLS.

use archipel_model::website::{RedirectAll, RoutingRule};
use http::StatusCode;

use super::host::without_port;
use crate::s3::uri::encode_path;

/// Returns the address of a key of the same website.
pub fn local(host: &str, key: &str) -> String {
    of_path(host, format!("/{}", encode_path(key)))
}

fn of_path(host: &str, path: String) -> String {
    match path.starts_with("//") {
        // Clients would take what follows the slashes for a host.
        true => format!("//{host}{path}"),
        false => path,
    }
}

/// Returns the address to which a rule redirects a request for `key`, and the status. The rule's
/// own text may hold a query or a fragment, such as `resize?key=` and `#!/`, and stays as it is.
pub fn by_rule(rule: &RoutingRule, host: &str, key: &str) -> (StatusCode, String) {
    let redirect = &rule.redirect;
    let (said, rest) = rule.new_key(key);
    let path = format!("/{}{}", as_said(said), encode_path(rest));
    let address = match (&redirect.protocol, &redirect.host) {
        (None, None) => of_path(host, path),
        (protocol, new_host) => {
            // The port belongs to the protocol of the request.
            let host = new_host.as_deref().unwrap_or(without_port(host));
            elsewhere(protocol.as_deref(), host, &path)
        }
    };
    let status = redirect.status.map(StatusCode::from_u16);
    let status = status.and_then(Result::ok);
    (status.unwrap_or(StatusCode::MOVED_PERMANENTLY), address)
}

/// Encodes what cannot stand in an address, and a backslash, which browsers take for a slash.
fn as_said(text: &str) -> String {
    let mut address = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '!'..='~' if !"\\\"<>".contains(c) => address.push(c),
            _ => address.push_str(&encode_path(c.encode_utf8(&mut [0; 4]))),
        }
    }
    address
}

/// Returns the address to which all requests are redirected. `path` is as the client sent it, with
/// its query.
pub fn of_all(all: &RedirectAll, path: &str) -> String {
    elsewhere(all.protocol.as_deref(), &all.host, path)
}

fn elsewhere(protocol: Option<&str>, host: &str, path: &str) -> String {
    let scheme = protocol.map(|protocol| format!("{protocol}:"));
    format!("{}//{host}{path}", scheme.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use archipel_model::website::{Redirect, RedirectAll, RoutingRule};

    use super::{by_rule, local, of_all};

    #[test]
    fn redirect_stays_on_its_host() {
        assert_eq!(local("h:1", "a b/"), "/a%20b/");
        assert_eq!(local("h:1", "/evil.example/"), "//h:1//evil.example/");
        assert_eq!(local("h:1", "\\evil.example/"), "/%5Cevil.example/");
        assert_eq!(local("h:1", "a\r\nb"), "/a%0D%0Ab");
    }

    #[test]
    fn rules_change_what_they_name() {
        let rule = |host: Option<&str>, protocol: Option<&str>, status| RoutingRule {
            key_prefix: Some("old/".into()),
            error_status: None,
            redirect: Redirect {
                host: host.map(String::from),
                protocol: protocol.map(String::from),
                status,
                key: None,
                key_prefix: Some("new/".into()),
            },
        };
        let to = |rule: &RoutingRule| by_rule(rule, "site:3902", "old/a");
        let (status, address) = to(&rule(None, None, None));
        assert_eq!((status.as_u16(), address.as_str()), (301, "/new/a"));
        let (status, address) = to(&rule(Some("other"), None, Some(307)));
        assert_eq!((status.as_u16(), address.as_str()), (307, "//other/new/a"));
        assert_eq!(to(&rule(None, Some("https"), None)).1, "https://site/new/a");
        assert_eq!(to(&rule(Some("o"), Some("http"), None)).1, "http://o/new/a");
    }

    /// AWS's own examples: a function that makes a picture, and a site of one page.
    #[test]
    fn rules_may_add_queries_and_fragments() {
        let to = |said: &str, key: &str| {
            let redirect = Redirect {
                key_prefix: Some(said.into()),
                ..Redirect::default()
            };
            let rule = RoutingRule {
                key_prefix: None,
                error_status: Some(404),
                redirect,
            };
            by_rule(&rule, "h:1", key).1
        };
        assert_eq!(
            to("resize?key=", "300x300/blue.jpg"),
            "/resize?key=300x300/blue.jpg"
        );
        assert_eq!(to("resize?key=", "a&b#c"), "/resize?key=a%26b%23c");
        assert_eq!(to("#!/", "about/me"), "/#!/about/me");
        assert_eq!(to("a%20b/", "c d"), "/a%20b/c%20d");
        assert_eq!(to("/evil.example/", "x"), "//h:1//evil.example/x");
        assert_eq!(to("\\evil.example/", "x"), "/%5Cevil.example/x");
        assert_eq!(to("a\r\nb: c", ""), "/a%0D%0Ab:%20c");
    }

    #[test]
    fn redirect_of_all_requests_keeps_path_and_query() {
        let all = |protocol: Option<&str>| RedirectAll {
            host: "example.org".into(),
            protocol: protocol.map(String::from),
        };
        assert_eq!(of_all(&all(None), "/a?b=c"), "//example.org/a?b=c");
        assert_eq!(of_all(&all(Some("https")), "/"), "https://example.org/");
    }
}

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::*;

fn rule() -> CorsRule {
    CorsRule {
        allowed_origins: vec!["https://*.example.com".into()],
        allowed_methods: vec!["GET".into(), "PUT".into()],
        allowed_headers: vec!["X-Amz-*".into(), "content-type".into()],
        expose_headers: vec!["ETag".into()],
        max_age_seconds: Some(60),
        ..CorsRule::default()
    }
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        (name, HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn ask(rules: &[CorsRule], origin: &str, method: &str, asked: &str) -> S3Result<HeaderMap> {
    preflight(
        rules,
        &headers(&[
            ("origin", origin),
            ("access-control-request-method", method),
            ("access-control-request-headers", asked),
        ]),
    )
}

#[test]
fn preflight_is_answered_by_the_first_rule_that_matches() {
    let rules = [rule()];
    let origin = "https://a.example.com";
    let answer = ask(&rules, origin, "PUT", "X-Amz-Date, Content-Type").unwrap();
    let get = |name: &str| answer.get(name).and_then(|v| v.to_str().ok());
    assert_eq!(get("access-control-allow-origin"), Some(origin));
    assert_eq!(get("access-control-allow-credentials"), Some("true"));
    assert_eq!(get("access-control-allow-methods"), Some("GET, PUT"));
    let allowed = get("access-control-allow-headers");
    assert_eq!(allowed, Some("x-amz-date, content-type"));
    assert_eq!(get("access-control-expose-headers"), Some("ETag"));
    assert_eq!(get("access-control-max-age"), Some("60"));

    let refused =
        |origin, method, asked| ask(&rules, origin, method, asked).err().map(|e| e.code());
    let forbidden = Some(Code::AccessForbidden);
    assert_eq!(refused("https://example.org", "PUT", ""), forbidden);
    assert_eq!(refused(origin, "DELETE", ""), forbidden);
    assert_eq!(refused(origin, "PUT", "x-other"), forbidden);
    assert!(ask(&[], origin, "GET", "").is_err());
}

#[test]
fn rule_for_all_origins_allows_no_credentials() {
    let everybody = CorsRule {
        allowed_origins: vec!["*".into()],
        allowed_methods: vec!["GET".into()],
        ..CorsRule::default()
    };
    let answer = ask(&[everybody], "https://x", "GET", "").unwrap();
    assert_eq!(answer.get(ACCESS_CONTROL_ALLOW_ORIGIN).unwrap(), "*");
    assert!(!answer.contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS));
}

#[test]
fn actual_request_gets_the_headers_of_its_rule() {
    let origin = headers(&[("origin", "https://a.example.com")]);
    assert!(!simple(&[rule()], &Method::GET, &origin).is_empty());
    assert!(simple(&[rule()], &Method::DELETE, &origin).is_empty());
    assert!(simple(&[rule()], &Method::GET, &HeaderMap::new()).is_empty());
}

#[test]
fn pattern_has_at_most_one_wildcard() {
    assert!(matches("*", ""));
    assert!(matches("a*c", "abc") && matches("a*c", "ac"));
    assert!(!matches("ab*bc", "abc"), "the parts must not overlap");
    assert!(!matches("a", "ab"));
}

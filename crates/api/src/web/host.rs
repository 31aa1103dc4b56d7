//! The bucket that a host names.

/// Returns the names under which a bucket may be meant by a host: the label before the root
/// domain, and the whole host. Both are in lower case, without port and final dot.
pub fn names(host: &str, root_domain: Option<&str>) -> Vec<String> {
    let name = without_port(host)
        .trim_end_matches('.')
        .to_ascii_lowercase();
    let label = root_domain
        .and_then(|root| name.strip_suffix(root)?.strip_suffix('.'))
        .filter(|label| !label.is_empty())
        .map(str::to_owned);
    label.into_iter().chain([name]).collect()
}

/// Returns a host without its port. The brackets of an IPv6 address stay.
pub fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn label_before_the_root_domain_comes_first() {
        let root = Some("web.example.org");
        assert_eq!(
            names("Photos.web.example.org:3902", root),
            ["photos", "photos.web.example.org"]
        );
        assert_eq!(names("a.b.web.example.org.", root)[0], "a.b");
        assert_eq!(names("photos.example.org", root), ["photos.example.org"]);
        assert_eq!(names("web.example.org", root), ["web.example.org"]);
        assert_eq!(names(".web.example.org", root), [".web.example.org"]);
        assert_eq!(names("xweb.example.org", root), ["xweb.example.org"]);
        assert_eq!(names("photos.web.example.org", None).len(), 1);
        assert_eq!(names("[::1]:3902", root), ["[::1]"]);
        assert_eq!(names("[::1]", root), ["[::1]"]);
    }
}

//! The bucket that a host names.

/// Returns the name of the bucket that a host means: what comes before the root domain, or the
/// whole host. It is in lower case, without port and final dot.
///
/// Below the root domain no bucket can be meant by the whole host: it would take the place of
/// another tenant's bucket that has no website yet.
pub fn bucket_name(host: &str, root_domain: Option<&str>) -> String {
    let name = without_port(host)
        .trim_end_matches('.')
        .to_ascii_lowercase();
    let before_root = root_domain
        .and_then(|root| name.strip_suffix(root)?.strip_suffix('.'))
        .filter(|label| !label.is_empty())
        .map(str::to_owned);
    before_root.unwrap_or(name)
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
    use super::bucket_name;

    #[test]
    fn host_below_the_root_domain_means_the_label_alone() {
        for (host, name) in [
            ("Photos.web.example.org:3902", "photos"),
            ("a.b.web.example.org.", "a.b"),
            ("photos.example.org", "photos.example.org"),
            ("web.example.org", "web.example.org"),
            (".web.example.org", ".web.example.org"),
            ("xweb.example.org", "xweb.example.org"),
            ("[::1]:3902", "[::1]"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(bucket_name(host, Some("web.example.org")), name, "{host}");
        }
        let host = "photos.web.example.org";
        assert_eq!(bucket_name(host, None), host);
    }
}

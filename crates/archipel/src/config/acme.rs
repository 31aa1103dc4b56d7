//! Certificates from an authority.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Certificates from an authority, by ACME.
#[derive(Clone, Debug)]
pub struct Acme {
    /// The domains, in lower case. Each has a certificate of its own.
    pub domains: Vec<String>,
    /// The mail address to which the authority may write.
    pub contact: Option<String>,
    /// The address of the authority's directory.
    pub directory: String,
    /// A file with certificates in PEM that the authority's own certificate is checked by.
    pub ca_file: Option<PathBuf>,
    /// The way in which a domain is proven.
    pub challenge: Challenge,
    /// The address that answers the authority over plain HTTP.
    pub listen: Option<SocketAddr>,
}

/// The way in which a domain is proven to an authority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Challenge {
    /// By a certificate at port 443 of the domain (RFC 8737).
    TlsAlpn,
    /// By a document at port 80 of the domain (RFC 8555, section 8.3).
    Http,
}

/// The names of the ways to prove a domain; the first is the default.
pub(super) const CHALLENGES: [(&str, Challenge); 2] = [
    ("tls-alpn-01", Challenge::TlsAlpn),
    ("http-01", Challenge::Http),
];

#[cfg(test)]
mod tests {
    use super::Challenge;
    use crate::config::tests::{read, refusal};

    fn text(acme: &str) -> String {
        format!("data_dir = \"/d\"\n[tls]\nlisteners = [\"web\"]\n[acme]\n{acme}\n")
    }

    #[test]
    fn domains_make_listeners_speak_tls() {
        let acme = "domains = [\"B.example.org\", \"a.example.org\", \"b.example.org\"]\naccept_terms = true";
        let settings = read(&text(acme)).unwrap().settings;
        assert!(settings.has_tls("web") && !settings.has_tls("s3"));
        let acme = settings.acme.unwrap();
        assert_eq!(acme.domains, ["a.example.org", "b.example.org"]);
        assert_eq!(acme.challenge, Challenge::TlsAlpn);
        assert!(read(&text("")).unwrap().settings.acme.is_none());
    }

    #[test]
    fn refusals_name_key_value_and_fix() {
        let domain = "domains = [\"a.example.org\"]\naccept_terms = true\n";
        for (acme, why) in [
            (
                "domains = [\"a.example.org\"]",
                "acme.accept_terms: the authority",
            ),
            (
                "domains = [\"*.a.org\"]",
                "acme.domains = \"*.a.org\": a wildcard",
            ),
            (
                "domains = [\"localhost\"]",
                "acme.domains = \"localhost\": no authority",
            ),
            (
                "domains = [\"192.0.2.1\"]",
                "acme.domains = \"192.0.2.1\": no authority",
            ),
            (
                "domains = [\"a..org\"]",
                "acme.domains = \"a..org\": not a domain",
            ),
            (
                "listen = \"0.0.0.0:80\"",
                "acme.domains: acme.listen needs domains",
            ),
            (
                &format!("{domain}challenge = \"http-01\""),
                "acme.listen: http-01 needs it",
            ),
            (
                &format!("{domain}challenge = \"dns-01\""),
                "acme.challenge = \"dns-01\": unknown",
            ),
            (
                &format!("{domain}directory = \"http://a.org\""),
                "acme.directory = \"http://a.org\"",
            ),
            (
                &format!("{domain}contact = \"me\""),
                "acme.contact = \"me\": not a mail address",
            ),
            (
                &format!("{domain}ca_file = \"/none\""),
                "acme.ca_file = \"/none\": No such file",
            ),
        ] {
            let refused = refusal(&text(acme));
            assert!(
                refused.contains(why) && refused.contains("fix: "),
                "{why}: {refused}"
            );
        }
    }
}

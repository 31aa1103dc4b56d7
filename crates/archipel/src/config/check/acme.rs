//! The check of `[acme]`.

use http::Uri;

use super::Check;
use super::event_targets::shown;
use crate::config::acme::CHALLENGES;
use crate::config::{Acme, Challenge, file};

/// The authority if the settings name none.
const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The most domains. Each is looked at every minute.
const MAX_DOMAINS: usize = 100;

impl Check {
    pub(super) fn acme(&mut self, acme: &file::Acme) -> Option<Acme> {
        for domain in &acme.domains {
            self.public_domain(domain);
        }
        if acme.domains.len() > MAX_DOMAINS {
            let fix = format!("at most {MAX_DOMAINS}");
            let count = acme.domains.len().to_string();
            self.problem("acme.domains", Some(count), "too many", &fix);
        }
        let directory = acme.directory.as_deref().unwrap_or(DIRECTORY);
        let parsed = directory.parse::<Uri>().ok();
        if parsed.is_none_or(|uri| uri.scheme_str() != Some("https") || uri.host().is_none()) {
            let fix = format!("write for example {DIRECTORY:?}");
            let why = "not an address that begins with https://";
            self.problem("acme.directory", Some(shown(directory)), why, &fix);
        }
        if let Some(contact) = &acme.contact
            && !contact.contains('@')
        {
            let fix = "write for example \"admin@example.org\"";
            let why = "not a mail address";
            self.problem("acme.contact", Some(contact.clone()), why, fix);
        }
        let listen = acme.listen.as_deref();
        let listen = listen.map(|address| self.address("acme.listen", address));
        let challenge = self.choice("acme.challenge", acme.challenge.as_deref(), &CHALLENGES);
        if let Some(path) = &acme.ca_file
            && let Err(error) = std::fs::File::open(path)
        {
            let fix = "check that the file exists and that the server's user may read it";
            let (path, why) = (path.display().to_string(), error.to_string());
            self.problem("acme.ca_file", Some(path), &why, fix);
        }
        if acme.domains.is_empty() {
            if listen.is_some() {
                let fix = "name the domains, or remove acme.listen";
                self.problem("acme.domains", None, "acme.listen needs domains", fix);
            }
            return None;
        }
        if challenge == Challenge::Http && listen.is_none() {
            let fix = "set acme.listen, such as \"0.0.0.0:80\", or use \"tls-alpn-01\"";
            self.problem("acme.listen", None, "http-01 needs it", fix);
        }
        if !acme.accept_terms.unwrap_or(false) {
            let fix = "read the terms of the authority, and set acme.accept_terms = true";
            let why = "the authority gives certificates only to those who accept its terms";
            self.problem("acme.accept_terms", None, why, fix);
        }
        let mut domains: Vec<String> = acme
            .domains
            .iter()
            .map(|d| d.to_ascii_lowercase())
            .collect();
        domains.sort();
        domains.dedup();
        Some(Acme {
            domains,
            contact: acme.contact.clone(),
            directory: directory.to_owned(),
            ca_file: acme.ca_file.clone(),
            challenge,
            listen,
        })
    }

    fn public_domain(&mut self, domain: &str) {
        if domain.starts_with("*.") {
            let why = "a wildcard: an authority proves it by DNS alone";
            let fix = "name each domain, or name files of such a certificate in tls.certificates";
            self.problem("acme.domains", Some(domain.into()), why, fix);
        } else if !domain.contains('.') || domain.parse::<std::net::IpAddr>().is_ok() {
            let why = "no authority gives a certificate for it";
            let fix = "a domain that is known in the internet's DNS, such as \"s3.example.org\"";
            self.problem("acme.domains", Some(domain.into()), why, fix);
        } else {
            self.domain("acme.domains", domain);
        }
    }
}

//! The check of `[tls]`: it reads the certificates.

use std::path::Path;

use super::Check;
use crate::config::{CertificateFiles, Tls, file};

/// The listeners that can speak TLS.
const TLS_LISTENERS: [&str; 5] = ["s3", "web", "k2v", "admin", "console"];

impl Check {
    /// Checks the settings of TLS. `has_acme` is true if there will be certificates of an
    /// authority.
    pub(super) fn tls(&mut self, tls: &file::Tls, data_dir: &Path, has_acme: bool) -> Option<Tls> {
        let all = || TLS_LISTENERS.map(String::from).to_vec();
        let listeners = tls.listeners.clone().unwrap_or_else(all);
        for name in &listeners {
            if !TLS_LISTENERS.contains(&name.as_str()) {
                let known: Vec<String> = TLS_LISTENERS.iter().map(|n| format!("{n:?}")).collect();
                let fix = format!("some of {}", known.join(", "));
                self.problem(
                    "tls.listeners",
                    Some(name.clone()),
                    "unknown listener",
                    &fix,
                );
            }
        }
        let self_signed = tls.self_signed.unwrap_or(false);
        if self_signed && !tls.certificates.is_empty() {
            let why = "there are certificates in tls.certificates";
            let fix = "remove one of the two settings";
            self.problem("tls.self_signed", Some("true".into()), why, fix);
        }
        if self_signed {
            return Some(Tls {
                certificates: vec![CertificateFiles::self_signed(data_dir)],
                listeners,
                self_signed,
            });
        }
        for (number, files) in tls.certificates.iter().enumerate() {
            self.certificate(number, files);
        }
        let certificates = tls.certificates.iter().map(|files| CertificateFiles {
            chain: files.chain.clone(),
            key: files.key.clone(),
        });
        (has_acme || !tls.certificates.is_empty()).then(|| Tls {
            certificates: certificates.collect(),
            listeners,
            self_signed,
        })
    }

    fn certificate(&mut self, number: usize, files: &file::Certificate) {
        let pair = CertificateFiles {
            chain: files.chain.clone(),
            key: files.key.clone(),
        };
        let refused = match pair.read() {
            Ok(content) => content.parse().err().map(|why| {
                let fix =
                    "name a chain in PEM, the server's certificate first, and its private key";
                ("chain", why, fix.to_owned())
            }),
            Err((part, refused)) => Some((part, refused.why, refused.fix)),
        };
        if let Some((part, why, fix)) = refused {
            let path = if part == "key" {
                &files.key
            } else {
                &files.chain
            };
            let key = format!("tls.certificates[{number}].{part}");
            self.problem(&key, Some(path.display().to_string()), &why, &fix);
        }
    }
}

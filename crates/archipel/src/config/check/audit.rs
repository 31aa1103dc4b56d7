//! The check of `[audit]`.

use http::Uri;

use super::Check;
use super::event_targets::shown;
use crate::config::{Audit, file};

impl Check {
    pub(super) fn audit(&mut self, audit: &file::Audit) -> Audit {
        Audit {
            file: audit.file.clone(),
            stdout: audit.stdout.unwrap_or(false),
            webhook: audit.webhook.as_deref().and_then(|url| self.webhook(url)),
        }
    }

    fn webhook(&mut self, url: &str) -> Option<Uri> {
        let parsed = url.parse::<Uri>().ok();
        let fine =
            |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
        let parsed = parsed.filter(fine);
        if parsed.is_none() {
            let fix = "write for example \"https://logs.example.org/audit\"";
            let why = "not an address that begins with http:// or https://";
            self.problem("audit.webhook", Some(shown(url)), why, fix);
        }
        parsed
    }
}

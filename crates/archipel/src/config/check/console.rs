//! The check of `[console]`.

use super::Check;
use super::event_targets::shown;
use crate::config::{Console, file};

impl Check {
    pub(super) fn console(&mut self, console: &file::Console) -> Option<Console> {
        let s3_url = console.s3_url.as_deref();
        let s3_url = s3_url.map(|url| url.strip_suffix('/').unwrap_or(url));
        if let Some(url) = s3_url
            && !is_origin(url)
        {
            let fix = "write scheme and host, such as \"https://s3.example.org\"";
            let why = "not the address of a server";
            self.problem("console.s3_url", Some(shown(url)), why, fix);
        }
        if s3_url.is_some() && console.listen.is_none() {
            let fix = "set console.listen, such as \"127.0.0.1:3905\", or remove console.s3_url";
            let why = "console.s3_url needs console.listen, which is missing";
            self.problem("console.listen", None, why, fix);
        }
        Some(Console {
            listen: self.address("console.listen", console.listen.as_deref()?),
            s3_url: s3_url.map(str::to_owned),
        })
    }
}

/// Returns true for a scheme and an authority, without a path.
fn is_origin(url: &str) -> bool {
    let rest = url.strip_prefix("https://");
    let Some(authority) = rest.or_else(|| url.strip_prefix("http://")) else {
        return false;
    };
    let parsed = authority.parse::<http::uri::Authority>();
    parsed.is_ok_and(|authority| !authority.as_str().contains('@'))
}

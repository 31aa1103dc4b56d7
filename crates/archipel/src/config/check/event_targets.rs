//! The check of `[[event_targets]]`.

use http::Uri;

use super::Check;
use crate::config::{EventTarget, file};

/// The default of the most events that wait for a target in the partitions of one bucket.
const BACKLOG: u64 = 100_000;

/// What happens when that many wait. The first is the default.
const WHEN_FULL: [(&str, bool); 2] = [("drop", false), ("refuse", true)];

impl Check {
    pub(super) fn event_targets(&mut self, targets: &[file::EventTarget]) -> Vec<EventTarget> {
        for (number, target) in targets.iter().enumerate() {
            let is_same = |other: &file::EventTarget| other.name == target.name;
            if targets[..number].iter().any(is_same) {
                let key = format!("event_targets[{number}].name");
                let fix = "give each target a name of its own";
                let why = "the name is used twice";
                self.problem(&key, Some(target.name.clone()), why, fix);
            }
        }
        let targets = targets.iter().enumerate();
        let checked = targets.filter_map(|(number, target)| self.event_target(number, target));
        checked.collect()
    }

    fn event_target(&mut self, number: usize, target: &file::EventTarget) -> Option<EventTarget> {
        let key = |name: &str| format!("event_targets[{number}].{name}");
        let name = &target.name;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            let fix = "use 1 to 64 lower-case letters, digits and hyphens, such as \"thumbnails\"";
            self.problem(&key("name"), Some(name.clone()), "not a name", fix);
        }
        let url = target.url.parse::<Uri>().ok();
        let is_web = |uri: &Uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.authority().is_some_and(|at| !at.as_str().contains('@'))
        };
        let url = url.filter(is_web);
        if url.is_none() {
            let fix = "write for example \"https://hooks.example.org/uploads\"; a token has a file of its own, token_file";
            let why = "not an address that begins with http:// or https://";
            self.problem(&key("url"), Some(shown(&target.url)), why, fix);
        }
        let token = self.token(&key("token_file"), target.token_file.as_deref());
        let backlog = target.backlog.unwrap_or(BACKLOG);
        if backlog == 0 {
            let fix = format!("at least 1, such as {BACKLOG}");
            let why = "no event could wait for delivery";
            self.problem(&key("backlog"), Some("0".into()), why, &fix);
        }
        let when_full = target.when_full.as_deref();
        let refuses = self.choice(&key("when_full"), when_full, &WHEN_FULL);
        Some(EventTarget {
            name: name.clone(),
            url: url?,
            token,
            backlog,
            refuses,
        })
    }
}

/// Returns an address without a name and a password in it.
pub(super) fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // Behind the last one, because a password may hold any character.
    match (rest.rsplit_once('@'), scheme) {
        (None, _) => url.to_owned(),
        (Some((_, host)), "") => format!("...@{host}"),
        (Some((_, host)), scheme) => format!("{scheme}://...@{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_shown_without_its_password() {
        for (url, expected) in [
            (
                "https://hooks.example.org/in",
                "https://hooks.example.org/in",
            ),
            ("https://ann:pass@host/in", "https://...@host/in"),
            ("https://ann:p@ss/w@host/in", "https://...@host/in"),
            ("ann:pass@host", "...@host"),
            ("ftp://x", "ftp://x"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }
}

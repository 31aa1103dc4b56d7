//! The check of `[[event_targets]]`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`address`] | the parts of an address |
//! | [`keys`] | which keys belong to which kind of target |
//! | [`services`] | the kinds of targets |

mod address;
mod keys;
mod services;

use std::path::Path;

use http::Uri;
use http::uri::Authority;

use self::address::Address;
pub(super) use self::address::shown;
use super::Check;
use crate::config::secret::{self, Secret};
use crate::config::{EventTarget, Login, Service, Trust, Webhook, file};

/// The default of the most events that wait for a target in the partitions of one bucket.
const BACKLOG: u64 = 100_000;

/// The choices for when that many wait. The first is the default.
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
        let name = &target.name;
        let mut one = One {
            check: self,
            number,
            target,
        };
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            let fix = "use 1 to 64 lower-case letters, digits and hyphens, such as \"thumbnails\"";
            one.problem("name", Some(name), "not a name", fix);
        }
        let service = one.service();
        let backlog = target.backlog.unwrap_or(BACKLOG);
        if backlog == 0 {
            let fix = format!("at least 1, such as {BACKLOG}");
            one.problem(
                "backlog",
                Some("0"),
                "no event could wait for delivery",
                &fix,
            );
        }
        let key = one.key("when_full");
        let refuses = self.choice(&key, target.when_full.as_deref(), &WHEN_FULL);
        Some(EventTarget {
            name: name.clone(),
            service: service?,
            backlog,
            refuses,
        })
    }
}

/// The check of one target.
struct One<'a> {
    check: &'a mut Check,
    number: usize,
    target: &'a file::EventTarget,
}

impl One<'_> {
    fn key(&self, name: &str) -> String {
        format!("event_targets[{}].{name}", self.number)
    }

    fn problem(&mut self, name: &str, value: Option<&str>, why: &str, fix: &str) {
        let key = self.key(name);
        self.check.problem(&key, value.map(str::to_owned), why, fix);
    }

    /// Returns the service at the address, which is of the kind that its scheme names.
    fn service(&mut self) -> Option<Service> {
        let url = self.target.url.as_str();
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let Some(kind) = keys::KINDS
            .iter()
            .find(|kind| kind.schemes.contains(&scheme))
        else {
            let all: Vec<String> = keys::KINDS
                .iter()
                .flat_map(keys::Kind::beginnings)
                .collect();
            let fix = "write for example \"https://hooks.example.org/uploads\"";
            let why = format!("not an address that begins with {}", all.join(", "));
            self.problem("url", Some(&shown(url)), &why, fix);
            return None;
        };
        self.refuse_foreign_keys(kind);
        if authority(kind, rest).contains('@') {
            let fix = format!("write for example {:?}; {}", kind.example, kind.secrets);
            let why = "the address holds a name or a password";
            self.problem("url", Some(&shown(url)), why, &fix);
            return None;
        }
        if kind.name == "webhook" {
            return self.webhook().map(Service::Webhook);
        }
        match Address::parse(rest, kind.port(scheme)) {
            Ok(address) => self.checked(kind, scheme, &address),
            Err(why) => {
                self.refuse_url(kind, why);
                None
            }
        }
    }

    fn refuse_url(&mut self, kind: &keys::Kind, why: &str) {
        let fix = format!("write for example {:?}", kind.example);
        let url = self.target.url.as_str();
        self.problem("url", Some(url), why, &fix);
    }

    fn refuse_foreign_keys(&mut self, kind: &keys::Kind) {
        for (name, value) in keys::given(self.target) {
            if !kind.keys.contains(&name) {
                let why = format!("a target of the kind {} has no such key", kind.name);
                let fix = format!("remove it; its keys are {}", kind.keys.join(", "));
                self.problem(name, Some(&value), &why, &fix);
            }
        }
    }

    fn webhook(&mut self) -> Option<Webhook> {
        let token = self.token();
        let url = self.target.url.parse::<Uri>().ok();
        let is_fine = |authority: &Authority| {
            // Otherwise what should be a port may be the beginning of a password with a slash.
            authority.port_u16().is_some() || authority.as_str() == authority.host()
        };
        let url = url.filter(|uri| uri.authority().is_some_and(is_fine));
        if url.is_none() {
            let fix = "write for example \"https://hooks.example.org/uploads\"";
            let url = shown(&self.target.url);
            self.problem("url", Some(&url), "not an address", fix);
        }
        Some(Webhook { url: url?, token })
    }

    /// Returns the certificates that count, for an address that may speak TLS.
    fn trust(&mut self, speaks_tls: bool, how: &str) -> Option<Trust> {
        let path = self.target.ca_file.as_deref();
        if let Some(path) = path {
            self.ca_file(path);
            if !speaks_tls {
                let shown = path.display().to_string();
                let why = "the address does not speak TLS";
                self.problem("ca_file", Some(&shown), why, how);
            }
        }
        let file = path.map(|path| Trust::File(path.to_owned()));
        speaks_tls.then(|| file.unwrap_or(Trust::System))
    }

    fn ca_file(&mut self, path: &Path) {
        let pem = std::fs::read(path).map_err(|error| error.to_string());
        if let Err(why) = pem.and_then(|pem| archipel_api::fetch::trust(Some(&pem))) {
            let fix = "name a file with certificates in PEM that the server's user may read";
            let shown = path.display().to_string();
            self.problem("ca_file", Some(&shown), &why, fix);
        }
    }

    /// Returns the token. The service chose it, so it may be short.
    fn token(&mut self) -> Option<Secret> {
        let key = self.key("token_file");
        let path = self.target.token_file.as_deref();
        self.check.secret(&key, path, 1)
    }

    fn password(&mut self) -> Option<Secret> {
        let path = self.target.password_file.as_deref()?;
        match secret::read_password(path) {
            Ok(password) => Some(password),
            Err(refused) => {
                let shown = path.display().to_string();
                self.problem("password_file", Some(&shown), &refused.why, &refused.fix);
                None
            }
        }
    }

    /// Returns the user and the password: both or neither must be set.
    fn login(&mut self) -> Option<Login> {
        let password = self.password();
        match (&self.target.user, &self.target.password_file) {
            (Some(user), Some(_)) => Some(Login {
                user: user.clone(),
                password: password?,
            }),
            (Some(user), None) => {
                let fix = "name a file with the password in password_file, or remove user";
                self.problem("user", Some(user), "it has no password", fix);
                None
            }
            (None, Some(path)) => {
                let fix = "name its user in user, or remove password_file";
                let shown = path.display().to_string();
                self.problem("password_file", Some(&shown), "it has no user", fix);
                None
            }
            (None, None) => None,
        }
    }
}

/// Returns the part of an address that names machines. The path and the query of a webhook may hold
/// any character.
fn authority<'a>(kind: &keys::Kind, rest: &'a str) -> &'a str {
    match kind.name {
        "webhook" => rest.split(['/', '?', '#']).next().unwrap_or(rest),
        _ => rest,
    }
}

#[cfg(test)]
mod tests;

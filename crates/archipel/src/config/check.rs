//! The check of the settings: from the texts in the file to typed values. All problems are found at
//! once.

mod acme;
mod audit;
mod cluster;
mod console;
mod encryption;
mod event_targets;
mod first_start;
mod limits;
mod listeners;
mod metadata;
mod tls;
mod traces;
mod web;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::file::{self, File};
use super::{Admin, DURABILITIES, Disk, ENGINES, K2v, Log, LogFormat, Problem, S3, Settings};
use super::{secret, size};

pub use cluster::is_unspecified;

/// The default number of simultaneous K2V connections.
const K2V_CONNECTIONS: u32 = 12_288;

/// Returns the settings of `file`, or all of its problems. `secret` is the secret of the first
/// access key, if the environment has it.
pub fn settings(file: &File, secret: Option<String>) -> Result<Settings, Vec<Problem>> {
    let mut check = Check::default();
    let data_dir = check.data_dir(file);
    let engine = check.choice("engine", file.engine.as_deref(), &ENGINES);
    let settings = Settings {
        metadata_dir: file
            .metadata_dir
            .clone()
            .unwrap_or_else(|| data_dir.join("metadata")),
        engine,
        metadata_map_bytes: check.map_size(file.metadata_map_size.as_ref(), engine),
        durability: check.choice("durability", file.durability.as_deref(), &DURABILITIES),
        disks: check.disks(&file.disks, &data_dir),
        s3: check.s3(&file.s3),
        web: check.web(&file.web),
        k2v: check.k2v(&file.k2v),
        admin: check.admin(&file.admin, &data_dir),
        console: check.console(&file.console),
        tls: check.tls(&file.tls, &data_dir, !file.acme.domains.is_empty()),
        acme: check.acme(&file.acme),
        encryption: check.encryption(&file.encryption),
        cluster: check.cluster(&file.cluster),
        first_start: check.first_start(&file.first_start, secret),
        log: check.log(&file.log),
        audit: check.audit(&file.audit),
        traces: check.traces(&file.traces),
        event_targets: check.event_targets(&file.event_targets),
        limits: check.limits(&file.limits),
        data_dir,
    };
    check.listeners(&settings);
    if check.problems.is_empty() {
        Ok(settings)
    } else {
        Err(check.problems)
    }
}

#[derive(Default)]
struct Check {
    problems: Vec<Problem>,
}

impl Check {
    fn problem(&mut self, key: &str, value: Option<String>, why: &str, fix: &str) {
        self.problems.push(Problem {
            key: key.into(),
            value,
            line: None,
            why: why.into(),
            fix: fix.into(),
        });
    }

    fn data_dir(&mut self, file: &File) -> PathBuf {
        match &file.data_dir {
            Some(dir) if !dir.as_os_str().is_empty() => dir.clone(),
            _ => {
                let fix = "name a folder that the server may write to, such as data_dir = \"/var/lib/archipel\"";
                self.problem("data_dir", None, "the setting is missing", fix);
                PathBuf::new()
            }
        }
    }

    /// Returns the choice that `value` names. The first choice is the default.
    fn choice<T: Copy>(&mut self, key: &str, value: Option<&str>, names: &[(&str, T)]) -> T {
        let default = names[0].1;
        let Some(value) = value else { return default };
        if let Some((_, meaning)) = names.iter().find(|(name, _)| *name == value) {
            return *meaning;
        }
        let known: Vec<String> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
        let fix = format!("one of {}", known.join(", "));
        self.problem(key, Some(value.into()), "unknown choice", &fix);
        default
    }

    fn address(&mut self, key: &str, value: &str) -> SocketAddr {
        value.parse().unwrap_or_else(|_| {
            let fix = format!(
                "write for example {key} = \"127.0.0.1:3900\", or \"[::]:3900\" for all interfaces"
            );
            self.problem(
                key,
                Some(value.into()),
                "not an IP address with a port",
                &fix,
            );
            SocketAddr::from(([127, 0, 0, 1], 0))
        })
    }

    fn s3(&mut self, s3: &file::S3) -> S3 {
        let region = s3.region.clone().unwrap_or_else(|| "us-east-1".into());
        let region_char = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if region.is_empty() || region.len() > 64 || !region.bytes().all(region_char) {
            let fix = "use up to 64 lower-case letters, digits and hyphens, such as \"us-east-1\"";
            self.problem("s3.region", Some(region.clone()), "not a region name", fix);
        }
        for domain in &s3.base_domains {
            self.domain("s3.base_domains", domain);
        }
        let domains = s3.base_domains.iter().map(|d| d.to_ascii_lowercase());
        S3 {
            listen: self.address(
                "s3.listen",
                s3.listen.as_deref().unwrap_or("127.0.0.1:3900"),
            ),
            region,
            base_domains: domains.collect(),
            signature_v2: s3.signature_v2.unwrap_or(true),
            sse_c_over_http: s3.sse_c_over_http.unwrap_or(false),
        }
    }

    fn k2v(&mut self, k2v: &file::K2v) -> Option<K2v> {
        let connections = k2v.connections.unwrap_or(K2V_CONNECTIONS);
        if connections == 0 {
            let fix = format!("a number of at least 1, such as {K2V_CONNECTIONS}");
            self.problem("k2v.connections", Some("0".into()), "too few", &fix);
        }
        Some(K2v {
            listen: self.address("k2v.listen", k2v.listen.as_deref()?),
            connections,
        })
    }

    fn domain(&mut self, key: &str, domain: &str) {
        let label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if domain.len() > 253 || !domain.split('.').all(label) {
            let fix = "a host name without scheme, port or leading dot, such as \"s3.example.org\"";
            self.problem(key, Some(domain.into()), "not a domain", fix);
        }
    }

    fn admin(&mut self, admin: &file::Admin, data_dir: &Path) -> Admin {
        if admin.listen.is_some() && admin.token_file.is_none() {
            let fix = "name a file with a token (chmod 600), or remove admin.listen and use the local socket";
            self.problem("admin.token_file", None, "admin.listen needs a token", fix);
        }
        Admin {
            listen: admin
                .listen
                .as_deref()
                .map(|a| self.address("admin.listen", a)),
            token: self.token("admin.token_file", admin.token_file.as_deref()),
            metrics_token: self.token(
                "admin.metrics_token_file",
                admin.metrics_token_file.as_deref(),
            ),
            socket: admin
                .socket
                .clone()
                .unwrap_or_else(|| data_dir.join(super::ADMIN_SOCKET)),
        }
    }

    fn token(&mut self, key: &str, path: Option<&Path>) -> Option<secret::Secret> {
        self.secret(key, path, secret::MIN_TOKEN_CHARS)
    }

    pub(super) fn secret(
        &mut self,
        key: &str,
        path: Option<&Path>,
        min_chars: usize,
    ) -> Option<secret::Secret> {
        let path = path?;
        match secret::read_token(path, min_chars) {
            Ok(token) => Some(token),
            Err(refused) => {
                self.problem(
                    key,
                    Some(path.display().to_string()),
                    &refused.why,
                    &refused.fix,
                );
                None
            }
        }
    }

    fn log(&mut self, log: &file::Log) -> Log {
        let level = log.level.clone().unwrap_or_else(|| "info".into());
        let fix = "one of error, warn, info, debug, trace, also per module: \"info,archipel_api::s3=debug\"";
        if let Err(error) = EnvFilter::builder().parse(&level) {
            self.problem("log.level", Some(level.clone()), &error.to_string(), fix);
        } else if let Some(word) = no_level(&level) {
            // The filter takes it for a module, and would turn the rest of the log off.
            let why = format!("{word:?} is no level");
            self.problem("log.level", Some(level.clone()), &why, fix);
        }
        Log {
            format: self.choice("log.format", log.format.as_deref(), &LogFormat::NAMES),
            level,
        }
    }

    fn disks(&mut self, disks: &[file::Disk], data_dir: &Path) -> Vec<Disk> {
        if disks.is_empty() {
            return vec![Disk {
                path: data_dir.join("blocks"),
                capacity_bytes: None,
                draining: false,
            }];
        }
        for (number, disk) in disks.iter().enumerate() {
            if disks[..number].iter().any(|other| other.path == disk.path) {
                let key = format!("disks[{number}].path");
                let fix = "give each disk a folder of its own";
                self.problem(
                    &key,
                    Some(disk.path.display().to_string()),
                    "the path is used twice",
                    fix,
                );
            }
        }
        let checked = disks.iter().enumerate();
        checked
            .map(|(number, disk)| self.disk(number, disk))
            .collect()
    }

    /// Returns a number of bytes above 0.
    fn size(&mut self, key: &str, value: &toml::Value) -> Option<u64> {
        let bytes = match value {
            toml::Value::String(text) => size::parse(text),
            toml::Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            _ => None,
        };
        if bytes.is_none_or(|bytes| bytes == 0) {
            let fix = "a size such as \"500GiB\" or \"4TB\", or a number of bytes";
            let value = match value {
                toml::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            self.problem(key, Some(value), "not a size", fix);
        }
        bytes
    }

    fn disk(&mut self, number: usize, disk: &file::Disk) -> Disk {
        let capacity_bytes = disk
            .capacity
            .as_ref()
            .and_then(|capacity| self.size(&format!("disks[{number}].capacity"), capacity));
        Disk {
            path: disk.path.clone(),
            capacity_bytes,
            draining: disk.draining,
        }
    }
}

/// Returns a word of a log filter that is neither a level nor the level of a module.
fn no_level(filter: &str) -> Option<&str> {
    let words = filter.split(',').map(str::trim);
    let mut bare = words.filter(|word| !word.is_empty() && !word.contains(['=', '[', ']']));
    bare.find(|word| word.parse::<LevelFilter>().is_err())
}

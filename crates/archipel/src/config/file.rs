//! The configuration file as written: names and types, not yet checked.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The sections. Their names begin the environment variables of their keys.
pub const SECTIONS: [&str; 14] = [
    "s3",
    "web",
    "k2v",
    "admin",
    "console",
    "tls",
    "acme",
    "cluster",
    "first_start",
    "log",
    "audit",
    "traces",
    "limits",
    "encryption",
];

/// The whole file. Values that need a check (addresses, sizes, names of engines) are texts here, so
/// that the check can report key, value and fix.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    pub data_dir: Option<PathBuf>,
    pub metadata_dir: Option<PathBuf>,
    pub engine: Option<String>,
    pub durability: Option<String>,
    pub metadata_map_size: Option<toml::Value>,
    pub s3: S3,
    pub web: Web,
    pub k2v: K2v,
    pub admin: Admin,
    pub console: Console,
    pub tls: Tls,
    pub acme: Acme,
    pub cluster: Cluster,
    pub first_start: FirstStart,
    pub log: Log,
    pub audit: Audit,
    pub traces: Traces,
    pub encryption: Encryption,
    pub limits: Limits,
    pub event_targets: Vec<EventTarget>,
    pub disks: Vec<Disk>,
}

/// `[s3]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3 {
    pub listen: Option<String>,
    pub region: Option<String>,
    pub base_domains: Vec<String>,
    pub signature_v2: Option<bool>,
    pub sse_c_over_http: Option<bool>,
}

/// `[web]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    pub listen: Option<String>,
    pub root_domain: Option<String>,
}

/// `[k2v]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct K2v {
    pub listen: Option<String>,
    pub connections: Option<u32>,
}

/// `[admin]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    pub listen: Option<String>,
    pub token_file: Option<PathBuf>,
    pub metrics_token_file: Option<PathBuf>,
    pub socket: Option<PathBuf>,
}

/// `[console]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Console {
    pub listen: Option<String>,
    pub s3_url: Option<String>,
}

/// `[tls]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    pub certificates: Vec<Certificate>,
    pub self_signed: Option<bool>,
    pub listeners: Option<Vec<String>>,
}

/// `[acme]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Acme {
    pub domains: Vec<String>,
    pub accept_terms: Option<bool>,
    pub contact: Option<String>,
    pub directory: Option<String>,
    pub ca_file: Option<PathBuf>,
    pub challenge: Option<String>,
    pub listen: Option<String>,
}

/// An entry of `tls.certificates`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Certificate {
    pub chain: PathBuf,
    pub key: PathBuf,
}

/// `[cluster]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    pub listen: Option<String>,
    pub secret_file: Option<PathBuf>,
    pub previous_secret_file: Option<PathBuf>,
    pub join: Vec<String>,
    pub discover: Vec<String>,
    pub discover_token_file: Option<PathBuf>,
    pub first_nodes: Option<u16>,
    pub first_replicas: Option<u8>,
    pub advertise: Vec<String>,
    pub zone: Option<String>,
    pub transport: Option<String>,
}

/// `[first_start]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FirstStart {
    pub bucket: Option<String>,
    pub access_key: Option<String>,
    pub secret_key_file: Option<PathBuf>,
}

/// `[log]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    pub format: Option<String>,
    pub level: Option<String>,
}

/// `[encryption]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Encryption {
    pub key_file: Option<PathBuf>,
    pub previous_key_file: Option<PathBuf>,
}

/// `[audit]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    pub file: Option<PathBuf>,
    pub stdout: Option<bool>,
    pub webhook: Option<String>,
}

/// `[traces]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traces {
    pub endpoint: Option<String>,
    pub sample: Option<f64>,
    pub trust_clients: Option<bool>,
    pub ca_file: Option<PathBuf>,
    pub headers_file: Option<PathBuf>,
}

/// `[limits]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub connections: Option<u32>,
    pub connections_per_address: Option<u32>,
    pub requests_per_second_per_address: Option<u32>,
    pub requests_per_second_per_user: Option<u32>,
    pub trusted_proxies: Vec<String>,
    pub proxy_header: Option<String>,
    pub buckets_per_user: Option<u32>,
    pub shutdown_seconds: Option<u32>,
    pub scrub_days: Option<u32>,
    pub disk_reserve: Option<toml::Value>,
    pub control_lease_seconds: Option<u32>,
    pub lifecycle_day_seconds: Option<u32>,
}

/// `[[event_targets]]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EventTarget {
    pub name: String,
    pub url: String,
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    #[serde(default)]
    pub user: Option<String>,
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    #[serde(default)]
    pub tls: Option<bool>,
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    #[serde(default)]
    pub subject: Option<String>,
    #[serde(default)]
    pub jetstream: Option<bool>,
    #[serde(default)]
    pub stream: Option<String>,
    #[serde(default)]
    pub list: Option<String>,
    #[serde(default)]
    pub channel: Option<String>,
    #[serde(default)]
    pub table: Option<String>,
    #[serde(default)]
    pub exchange: Option<String>,
    #[serde(default)]
    pub routing_key: Option<String>,
    #[serde(default)]
    pub sasl: Option<String>,
    #[serde(default)]
    pub backlog: Option<u64>,
    #[serde(default)]
    pub when_full: Option<String>,
}

/// `[[disks]]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub path: PathBuf,
    #[serde(default)]
    pub capacity: Option<toml::Value>,
    #[serde(default)]
    pub draining: bool,
}

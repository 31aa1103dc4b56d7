//! Settings: read from a TOML file and the environment, checked once, and typed from then on.
//!
//! | module | what it holds |
//! |---|---|
//! | [`written`] | the text of the file; unknown keys and wrong types are found at once |
//! | [`file`] | the file's keys as written; unknown keys are refused |
//! | [`known`] | the names of all keys, and the nearest one to an unknown one |
//! | [`env`] | `ARCHIPEL_SECTION_KEY`, which overrides the file |
//! | [`check`] | the check of the values |
//! | [`problem`] | problems, each with key, value and fix; errors |
//! | [`certificates`] | certificates from files |
//! | [`demo`] | the settings of `archipel demo` |
//! | [`acme`], [`audit`], [`discover`], [`encryption`], [`event_targets`], [`first_start`], [`tls`], [`traces`], [`transport`] | the types of these settings |
//! | [`secret`] | tokens from files |

use std::fs;
use std::mem;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archipel_api::serve::{Network as ProxyNetwork, ProxyHeader};
use archipel_storage::engine::{Durability, EngineKind};
use serde::Deserialize;

mod acme;
mod audit;
pub mod certificates;
mod check;
mod demo;
mod discover;
mod encryption;
mod env;
mod event_targets;
mod file;
mod first_start;
mod known;
mod problem;
pub mod secret;
mod tls;
mod traces;
mod transport;
mod written;

pub use acme::{Acme, Challenge};
pub use archipel_base::size;
pub use audit::Audit;
pub use certificates::CertificateFiles;
pub use check::is_unspecified;
pub use demo::for_demo;
pub use discover::{Consul, Discovery, Kubernetes};
pub use encryption::Encryption;
pub use event_targets::{
    Amqp, EventTarget, Host, Kafka, Login, Nats, Postgres, Redis, RedisKey, Sasl, Service, Trust,
    Webhook,
};
pub use first_start::FirstStart;
pub use problem::{Error, Problem};
pub use secret::Secret;
pub use tls::Tls;
pub use traces::Traces;
pub use transport::Transport;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_clusters;
#[cfg(test)]
mod tests_of_files;

/// All settings with their defaults and comments. A test keeps them true.
pub const EXAMPLE: &str = include_str!("example.toml");

/// The configuration that `archipel server` suggests if there is none.
pub const MINIMAL: &str = "data_dir = \"/var/lib/archipel\"\n\n[s3]\nlisten = \"127.0.0.1:3900\"\n";

/// The name of the admin socket in the data folder.
pub const ADMIN_SOCKET: &str = "admin.sock";

/// The settings of the daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the identity, the lock and the socket, and by default of metadata and blocks.
    pub data_dir: PathBuf,
    /// The folder of the metadata engine.
    pub metadata_dir: PathBuf,
    /// The metadata engine.
    pub engine: EngineKind,
    /// The configured size of LMDB's map.
    pub metadata_map_bytes: Option<u64>,
    /// The durability of a write before it is acknowledged.
    pub durability: Durability,
    /// The disks for blocks; at least one.
    pub disks: Vec<Disk>,
    /// The S3 endpoint.
    pub s3: S3,
    /// The web endpoint, if there is one.
    pub web: Option<Web>,
    /// The K2V endpoint, if it is open.
    pub k2v: Option<K2v>,
    /// The admin endpoint.
    pub admin: Admin,
    /// The web console, if it is open.
    pub console: Option<Console>,
    /// TLS for users and operators, if it is used.
    pub tls: Option<Tls>,
    /// Certificates from an authority, if there is one.
    pub acme: Option<Acme>,
    /// The secrets that open the keyring.
    pub encryption: Encryption,
    /// The settings about other nodes.
    pub cluster: Cluster,
    /// The bucket and the access key that the first start of a cluster makes.
    pub first_start: FirstStart,
    /// The log.
    pub log: Log,
    /// The audit log.
    pub audit: Audit,
    /// The collector of traces, if there is one.
    pub traces: Option<Traces>,
    /// The targets of event notifications.
    pub event_targets: Vec<EventTarget>,
    /// The limits.
    pub limits: Limits,
}

/// The names of the metadata engines; the first is the default.
const ENGINES: [(&str, EngineKind); 3] = [
    ("lmdb", EngineKind::Lmdb),
    ("sqlite", EngineKind::Sqlite),
    ("fjall", EngineKind::Fjall),
];

/// The names of durabilities; the first is the default.
const DURABILITIES: [(&str, Durability); 2] = [
    ("fsync", Durability::Fsync),
    ("buffered", Durability::Buffered),
];

/// Returns the name of a durability in settings.
pub fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Fsync => "fsync",
        Durability::Buffered => "buffered",
    }
}

/// A folder for blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    /// The folder.
    pub path: PathBuf,
    /// The usable capacity in bytes. `None` means the size of the file system.
    pub capacity_bytes: Option<u64>,
    /// True if the disk gets no new blocks.
    pub draining: bool,
}

/// The S3 endpoint.
#[derive(Clone, Debug)]
pub struct S3 {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The region that clients sign for.
    pub region: String,
    /// Domains whose subdomains are buckets, in lower case.
    pub base_domains: Vec<String>,
    /// True if presigned URLs and forms may be signed with version 2.
    pub signature_v2: bool,
    /// True if customers may give keys for encryption over plain HTTP, from other machines.
    pub sse_c_over_http: bool,
}

/// The web endpoint: buckets as websites.
#[derive(Clone, Debug)]
pub struct Web {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The domain whose subdomains are buckets, in lower case.
    pub root_domain: Option<String>,
}

/// The K2V endpoint. Its region is that of S3.
#[derive(Clone, Debug)]
pub struct K2v {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The number of simultaneous connections: each poll over HTTP/1.1 takes one.
    pub connections: u32,
}

/// The admin endpoint.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The TCP address to listen on, if any; it needs a token.
    pub listen: Option<SocketAddr>,
    /// The token that permits everything.
    pub token: Option<Secret>,
    /// The token for `/metrics` alone.
    pub metrics_token: Option<Secret>,
    /// The local socket.
    pub socket: PathBuf,
}

/// The web console.
#[derive(Clone, Debug)]
pub struct Console {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The address of S3 in links for others, without a slash at the end.
    pub s3_url: Option<String>,
}

/// The settings about other nodes.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The network between nodes. `None` for a single node.
    pub network: Option<Network>,
    /// The zone of a node that founds a cluster.
    pub zone: String,
}

impl Cluster {
    /// Returns true if this node founds a cluster of its own at its first start.
    pub fn founds_alone(&self) -> bool {
        self.network.as_ref().is_none_or(|network| {
            let finds = !network.join.is_empty() || !network.discover.is_empty();
            !finds && network.first_nodes.is_none()
        })
    }
}

/// The network between nodes.
#[derive(Clone, Debug)]
pub struct Network {
    /// The address to listen on for other nodes.
    pub listen: SocketAddr,
    /// The addresses that other nodes connect to, as `host:port`.
    pub advertise: Vec<String>,
    /// The secret of the cluster.
    pub secret: Secret,
    /// The secret before, which is still taken.
    pub previous_secret: Option<Secret>,
    /// Nodes to join through, as `host:port`. Empty for the node that founds the cluster.
    pub join: Vec<String>,
    /// The sources in which further nodes are looked up.
    pub discover: Vec<Discovery>,
    /// The number of nodes that form the first layout by themselves, if that is wanted; at least 2.
    pub first_nodes: Option<u16>,
    /// The replicas of that layout.
    pub first_replicas: Option<u8>,
    /// The transport between nodes.
    pub transport: Transport,
    /// The zone that this node announces, if one is set.
    pub zone: Option<String>,
}

/// The log.
#[derive(Clone, Debug)]
pub struct Log {
    /// The format of a line.
    pub format: LogFormat,
    /// A checked filter of the log.
    pub level: String,
}

/// The format of a log line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    const NAMES: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];
}

/// Limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The number of simultaneous S3 connections.
    pub connections: u32,
    /// The number of one address, if it is set; then it counts for this machine, too.
    pub connections_per_address: Option<u32>,
    /// The requests a second of one address; `None` for no limit.
    pub requests_per_second_per_address: Option<NonZeroU32>,
    /// The requests a second of one user; `None` for no limit.
    pub requests_per_second_per_user: Option<NonZeroU32>,
    /// The proxies that tell the addresses of their clients.
    pub trusted_proxies: Vec<ProxyNetwork>,
    /// The header in which they tell them.
    pub proxy_header: ProxyHeader,
    /// The most buckets that one user may create.
    pub buckets_per_user: usize,
    /// The time that running requests get to finish after a stop signal.
    pub shutdown_seconds: u32,
    /// The days between two scrubs of all data. 0 means that scrubs only start on command.
    pub scrub_days: u32,
    /// The bytes that stay free on each disk; `None` for 1 %, at least 256 MiB.
    pub disk_reserve_bytes: Option<u64>,
    /// The time for which buckets and access keys count without confirmation.
    pub control_lease: Duration,
    /// The length of a day of lifecycle rules.
    pub lifecycle_day: Duration,
}

/// The settings, and the environment variables that look like settings but are none.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// The names of variables that deserve a warning.
    pub unknown_variables: Vec<String>,
}

/// Reads and checks the settings from the file at `path` and from `variables`.
pub fn load(
    path: &Path,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, Error> {
    let text =
        fs::read_to_string(path).map_err(|error| Error::Unreadable(path.to_owned(), error))?;
    parse(&text, path, variables)
}

/// Reads the settings from the text of a file. `path` is for messages.
fn parse(
    text: &str,
    path: &Path,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, Error> {
    let invalid =
        |error: toml::de::Error| Error::Toml(path.to_owned(), written::describe(text, &error));
    let mut written = written::read(text).map_err(invalid)?;
    let (secret, variables) = first_start::take_secret(variables);
    let unknown_variables = env::apply(&mut written, variables);
    let file = file::File::deserialize(mem::take(&mut written.table)).map_err(invalid)?;
    match check::settings(&file, secret) {
        Ok(settings) if written.problems.is_empty() => Ok(Loaded {
            settings,
            unknown_variables,
        }),
        checked => {
            let found = checked.err().unwrap_or_default();
            Err(Error::Problems(path.to_owned(), written.with(found)))
        }
    }
}

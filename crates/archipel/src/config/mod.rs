//! Settings: read from a TOML file and the environment, checked once, typed from then on.
//!
//! | module | what it holds |
//! |---|---|
//! | [`file`] | the file's keys as they stand there; unknown ones are refused |
//! | [`env`] | `ARCHIPEL_SECTION_KEY`, which wins over the file |
//! | [`check`] | what the values mean; every problem with key, value and fix |
//! | [`secret`] | tokens from files |
//! | [`size`] | sizes in bytes as people write them |

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use archipel_storage::engine::{Durability, EngineKind};
use serde::Deserialize;

mod check;
mod env;
mod file;
pub mod secret;
pub mod size;

pub use secret::Secret;

#[cfg(test)]
mod tests;

/// All settings with their defaults and comments; a test keeps it true.
pub const EXAMPLE: &str = include_str!("example.toml");

/// What `archipel server` shows somebody who has no configuration yet.
pub const MINIMAL: &str = "data_dir = \"/var/lib/archipel\"\n\n[s3]\nlisten = \"127.0.0.1:3900\"\n";

/// The name of the admin socket in the data folder.
pub const ADMIN_SOCKET: &str = "admin.sock";

/// Everything that the daemon is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of identity, lock, socket, and by default of metadata and blocks.
    pub data_dir: PathBuf,
    /// The folder of the metadata engine.
    pub metadata_dir: PathBuf,
    /// The metadata engine.
    pub engine: EngineKind,
    /// How far a write goes before it is acknowledged.
    pub durability: Durability,
    /// Where blocks are kept; at least one.
    pub disks: Vec<Disk>,
    /// The S3 door.
    pub s3: S3,
    /// The admin door.
    pub admin: Admin,
    /// Other nodes.
    pub cluster: Cluster,
    /// The log.
    pub log: Log,
    /// Bounds.
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

/// The name of a durability in settings.
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
    /// How much may be used, in bytes; `None`: as much as the file system holds.
    pub capacity_bytes: Option<u64>,
    /// Whether it gets no new blocks.
    pub draining: bool,
}

/// The S3 door.
#[derive(Clone, Debug)]
pub struct S3 {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The region that clients sign for.
    pub region: String,
    /// Domains below which a bucket is a host name, in lower case.
    pub base_domains: Vec<String>,
}

/// The admin door.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Where it listens on TCP, if it does; then there is a token.
    pub listen: Option<SocketAddr>,
    /// The token for everything.
    pub token: Option<Secret>,
    /// The token for `/metrics` alone.
    pub metrics_token: Option<Secret>,
    /// The local socket.
    pub socket: PathBuf,
}

/// What concerns other nodes.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The way to other nodes; `None` for a node that stays alone.
    pub network: Option<Network>,
    /// The zone of a node that founds a cluster.
    pub zone: String,
}

/// The way to other nodes.
#[derive(Clone, Debug)]
pub struct Network {
    /// Where this node listens for others.
    pub listen: SocketAddr,
    /// What others are told to connect to, as `host:port`.
    pub advertise: Vec<String>,
    /// What all nodes of the cluster know.
    pub secret: Secret,
    /// Nodes to join through, as `host:port`; none for the one that founds the cluster.
    pub join: Vec<String>,
    /// What carries what goes between nodes.
    pub transport: Transport,
    /// The zone that this node tells others to be in, if it was told.
    pub zone: Option<String>,
}

/// What carries what goes between nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// QUIC, over UDP; nodes that have TCP alone are reached and let in over TCP.
    Quic,
    /// TCP alone.
    Tcp,
}

impl Transport {
    const NAMES: [(&str, Transport); 2] = [("quic", Transport::Quic), ("tcp", Transport::Tcp)];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Quic => "quic",
            Transport::Tcp => "tcp",
        }
    }
}

/// The log.
#[derive(Clone, Debug)]
pub struct Log {
    /// What a line looks like.
    pub format: LogFormat,
    /// What is logged: a filter that was checked.
    pub level: String,
}

/// What a line of the log looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    const NAMES: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];
}

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// S3 connections at a time.
    pub connections: u32,
    /// How long running requests may take to finish after a signal to stop.
    pub shutdown_seconds: u32,
    /// Every how many days everything stored is read and verified; 0: only when asked.
    pub scrub_days: u32,
}

/// What is wrong with a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The setting, or the environment variable.
    pub key: String,
    /// What it was set to.
    pub value: Option<String>,
    /// What is wrong.
    pub why: String,
    /// What to do.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(
                f,
                "{} = {value:?}: {}; fix: {}",
                self.key, self.why, self.fix
            ),
            None => write!(f, "{}: {}; fix: {}", self.key, self.why, self.fix),
        }
    }
}

/// Why there are no settings.
#[derive(Debug)]
pub enum Error {
    /// The file cannot be read.
    Unreadable(PathBuf, std::io::Error),
    /// The file is not TOML, or has keys or types that do not belong there; the text names the line.
    Toml(PathBuf, String),
    /// Values that make no sense.
    Problems(Vec<Problem>),
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable(path, error) => write!(
                f,
                "the configuration {} cannot be read: {error}; fix: check the path and its permissions",
                path.display()
            ),
            Error::Toml(path, text) => write!(
                f,
                "the configuration {} is not valid: {}\nfix: `archipel config example` shows every key",
                path.display(),
                text.trim_end()
            ),
            Error::Problems(problems) => {
                f.write_str("the configuration is not valid:")?;
                problems.iter().try_for_each(|p| write!(f, "\n  {p}"))
            }
        }
    }
}

/// Settings, and the names of environment variables that look like settings but are none.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// Variables worth a warning.
    pub unknown_variables: Vec<String>,
}

/// Reads and checks the settings of the file at `path`, under those of `variables`.
pub fn load(
    path: &Path,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, Error> {
    let text =
        fs::read_to_string(path).map_err(|error| Error::Unreadable(path.to_owned(), error))?;
    parse(&text, path, variables)
}

/// The same from the text of a file; `path` is for messages.
fn parse(
    text: &str,
    path: &Path,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, Error> {
    let invalid = |error: toml::de::Error| Error::Toml(path.to_owned(), error.to_string());
    // Read as a file first, although the table below has all of it: only so the error knows the line.
    toml::from_str::<file::File>(text).map_err(invalid)?;
    let mut table: toml::Table = text.parse().map_err(invalid)?;
    let unknown_variables = env::apply(&mut table, variables)?;
    let file = file::File::deserialize(table).map_err(invalid)?;
    Ok(Loaded {
        settings: check::settings(&file).map_err(Error::Problems)?,
        unknown_variables,
    })
}

/// The settings of `archipel demo`: everything in one folder, nothing but S3 and the socket.
pub fn for_demo(data_dir: PathBuf, listen: SocketAddr) -> Settings {
    let file = file::File {
        data_dir: Some(data_dir),
        s3: file::S3 {
            listen: Some(listen.to_string()),
            // Virtual-host style works too: `*.localhost` is the loopback address to browsers and many resolvers.
            base_domains: vec!["localhost".into()],
            ..file::S3::default()
        },
        log: file::Log {
            level: Some("warn".into()),
            ..file::Log::default()
        },
        limits: file::Limits {
            shutdown_seconds: Some(10),
            ..file::Limits::default()
        },
        ..file::File::default()
    };
    // Every value above is one that the check accepts, and a test says so.
    check::settings(&file).expect("the demo's settings are valid")
}

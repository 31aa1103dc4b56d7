//! The targets of event notifications.

use std::path::PathBuf;

use http::Uri;

use super::secret::Secret;

/// A service that gets the events of buckets.
#[derive(Clone, Debug)]
pub struct EventTarget {
    /// The name by which buckets' rules name it.
    pub name: String,
    /// The service.
    pub service: Service,
    /// The most events that wait for it in the partitions of one bucket.
    pub backlog: u64,
    /// True if writes are refused while that many wait.
    pub refuses: bool,
}

/// A service, by its kind.
#[derive(Clone, Debug)]
pub enum Service {
    /// An address to which events are posted.
    Webhook(Webhook),
    /// A NATS server.
    Nats(Nats),
    /// A Redis server.
    Redis(Redis),
    /// A PostgreSQL server.
    Postgres(Postgres),
    /// A broker of AMQP 0.9.1.
    Amqp(Amqp),
    /// A Kafka cluster.
    Kafka(Kafka),
}

impl Service {
    /// Returns the name of the kind, as the ARN of the target has it.
    pub fn kind(&self) -> &'static str {
        match self {
            Service::Webhook(_) => "webhook",
            Service::Nats(_) => "nats",
            Service::Redis(_) => "redis",
            Service::Postgres(_) => "postgresql",
            Service::Amqp(_) => "amqp",
            Service::Kafka(_) => "kafka",
        }
    }
}

/// A webhook.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// The address to which events are posted.
    pub url: Uri,
    /// The token that the requests carry.
    pub token: Option<Secret>,
}

/// A port of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The name or the IP address, without brackets.
    pub name: String,
    /// The port.
    pub port: u16,
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

/// The certificates by which a server's is checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Those that the system trusts.
    System,
    /// Those in a file, in PEM.
    File(PathBuf),
}

/// A user of a service.
#[derive(Clone, Debug)]
pub struct Login {
    /// The name.
    pub user: String,
    /// The password.
    pub password: Secret,
}

/// A NATS server, or a cluster of them.
#[derive(Clone, Debug)]
pub struct Nats {
    /// The servers.
    pub servers: Vec<Host>,
    /// True if the server must speak TLS.
    pub tls: bool,
    /// The certificates that count if it does.
    pub trust: Trust,
    /// The subject of the messages.
    pub subject: String,
    /// True if a stream of JetStream must confirm each message.
    pub jetstream: bool,
    /// The token of the client.
    pub token: Option<Secret>,
    /// The user.
    pub login: Option<Login>,
}

/// A Redis server.
#[derive(Clone, Debug)]
pub struct Redis {
    /// The server.
    pub server: Host,
    /// The certificates that count, if it speaks TLS.
    pub tls: Option<Trust>,
    /// The number of the database.
    pub database: u32,
    /// The place for events.
    pub to: RedisKey,
    /// The user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
}

/// A place in Redis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RedisKey {
    /// A stream.
    Stream(String),
    /// The end of a list.
    List(String),
    /// A channel, which stores nothing.
    Channel(String),
}

/// A table of PostgreSQL.
#[derive(Clone, Debug)]
pub struct Postgres {
    /// The server.
    pub server: Host,
    /// The certificates that count, if it speaks TLS.
    pub tls: Option<Trust>,
    /// The database.
    pub database: String,
    /// The table, quoted, with its schema if it names one.
    pub table: String,
    /// The user.
    pub user: String,
    /// The password.
    pub password: Option<Secret>,
}

/// An exchange of AMQP.
#[derive(Clone, Debug)]
pub struct Amqp {
    /// The broker.
    pub server: Host,
    /// The certificates that count, if it speaks TLS.
    pub tls: Option<Trust>,
    /// The virtual host.
    pub vhost: String,
    /// The exchange; empty for the default one.
    pub exchange: String,
    /// The routing key of the messages.
    pub routing_key: String,
    /// The user.
    pub login: Option<Login>,
}

/// A topic of Kafka.
#[derive(Clone, Debug)]
pub struct Kafka {
    /// The brokers that are asked for the others.
    pub brokers: Vec<Host>,
    /// The certificates that count, if they speak TLS.
    pub tls: Option<Trust>,
    /// The topic.
    pub topic: String,
    /// The user.
    pub login: Option<Login>,
    /// The way in which Kafka authenticates the user.
    pub sasl: Sasl,
}

/// The ways in which Kafka authenticates users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sasl {
    /// The broker learns the password.
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

/// The names of these ways; the first is the default.
pub(super) const SASL: [(&str, Sasl); 3] = [
    ("scram-sha-512", Sasl::ScramSha512),
    ("scram-sha-256", Sasl::ScramSha256),
    ("plain", Sasl::Plain),
];

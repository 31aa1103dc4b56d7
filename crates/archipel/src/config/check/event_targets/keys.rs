//! The kinds of targets, and the keys of each.

use crate::config::file;

/// A kind of target.
pub struct Kind {
    /// Its name, as the ARN has it.
    pub name: &'static str,
    /// The schemes of its addresses.
    pub schemes: &'static [&'static str],
    /// The port of an address that names none; the second one is for the second scheme.
    pub ports: [u16; 2],
    /// Its keys, apart from those of all kinds.
    pub keys: &'static [&'static str],
    /// An address.
    pub example: &'static str,
    /// The advice for an address that holds a secret.
    pub secrets: &'static str,
}

const PASSWORD: &str = "names and passwords have keys of their own, user and password_file";

/// All kinds.
pub const KINDS: [Kind; 6] = [
    Kind {
        name: "webhook",
        schemes: &["http", "https"],
        ports: [80, 443],
        keys: &["token_file"],
        example: "https://hooks.example.org/uploads",
        secrets: "a token has a file of its own, token_file",
    },
    Kind {
        name: "nats",
        schemes: &["nats", "tls"],
        ports: [4222, 4222],
        keys: &[
            "subject",
            "jetstream",
            "user",
            "password_file",
            "token_file",
            "ca_file",
        ],
        example: "nats://nats.example.org:4222",
        secrets: PASSWORD,
    },
    Kind {
        name: "redis",
        schemes: &["redis", "rediss"],
        ports: [6379, 6379],
        keys: &[
            "stream",
            "list",
            "channel",
            "user",
            "password_file",
            "ca_file",
        ],
        example: "redis://redis.example.org:6379/0",
        secrets: PASSWORD,
    },
    Kind {
        name: "postgresql",
        schemes: &["postgres", "postgresql"],
        ports: [5432, 5432],
        keys: &["table", "user", "password_file", "tls", "ca_file"],
        example: "postgres://db.example.org:5432/database",
        secrets: PASSWORD,
    },
    Kind {
        name: "amqp",
        schemes: &["amqp", "amqps"],
        ports: [5672, 5671],
        keys: &[
            "exchange",
            "routing_key",
            "user",
            "password_file",
            "ca_file",
        ],
        example: "amqp://rabbit.example.org:5672",
        secrets: PASSWORD,
    },
    Kind {
        name: "kafka",
        schemes: &["kafka"],
        ports: [9092, 9092],
        keys: &["user", "password_file", "sasl", "tls", "ca_file"],
        example: "kafka://one.example.org:9092,two.example.org:9092/topic",
        secrets: PASSWORD,
    },
];

impl Kind {
    /// Returns the beginnings of its addresses.
    pub fn beginnings(&self) -> impl Iterator<Item = String> {
        self.schemes.iter().map(|scheme| format!("{scheme}://"))
    }

    /// Returns the port of an address with this scheme that names none.
    pub fn port(&self, scheme: &str) -> u16 {
        let [first, second] = self.ports;
        match self.schemes.first() == Some(&scheme) {
            true => first,
            false => second,
        }
    }
}

/// Returns the keys that the target has, apart from those of all kinds, and their values.
pub fn given(target: &file::EventTarget) -> Vec<(&'static str, String)> {
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|p| p.display().to_string());
    let choice = |choice: Option<bool>| choice.map(|choice| choice.to_string());
    let all = [
        ("token_file", path(&target.token_file)),
        ("user", target.user.clone()),
        ("password_file", path(&target.password_file)),
        ("tls", choice(target.tls)),
        ("ca_file", path(&target.ca_file)),
        ("subject", target.subject.clone()),
        ("jetstream", choice(target.jetstream)),
        ("stream", target.stream.clone()),
        ("list", target.list.clone()),
        ("channel", target.channel.clone()),
        ("table", target.table.clone()),
        ("exchange", target.exchange.clone()),
        ("routing_key", target.routing_key.clone()),
        ("sasl", target.sasl.clone()),
    ];
    let given = all.into_iter();
    given
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

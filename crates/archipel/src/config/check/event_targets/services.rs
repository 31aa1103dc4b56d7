//! The check of each kind of target.

use super::One;
use super::address::Address;
use super::keys::Kind;
use crate::config::event_targets::SASL;
use crate::config::{Amqp, Host, Kafka, Nats, Postgres, Redis, RedisKey, Service, Trust};

/// The places for events if the settings name none.
const SUBJECT: &str = "archipel.events";
const STREAM: &str = "archipel-events";
const TABLE: &str = "archipel_events";

/// The longest name of a thing in a service, in bytes. All of them take this one.
const MAX_NAME_BYTES: usize = 249;

impl One<'_> {
    /// Returns the service of this kind at an address.
    pub(super) fn checked(
        &mut self,
        kind: &Kind,
        scheme: &str,
        address: &Address,
    ) -> Option<Service> {
        match kind.name {
            "nats" => self.nats(kind, scheme, address).map(Service::Nats),
            "redis" => self.redis(kind, scheme, address).map(Service::Redis),
            "postgresql" => self.postgres(kind, address).map(Service::Postgres),
            "amqp" => self.amqp(kind, scheme, address).map(Service::Amqp),
            _ => self.kafka(kind, address).map(Service::Kafka),
        }
    }

    fn nats(&mut self, kind: &Kind, scheme: &str, address: &Address) -> Option<Nats> {
        if !address.path.is_empty() {
            self.refuse_url(kind, "an address of NATS has no path");
        }
        let subject = self.target.subject.as_deref().unwrap_or(SUBJECT);
        let word = |word: &str| {
            let letter = |b: u8| b.is_ascii_graphic() && !matches!(b, b'*' | b'>');
            !word.is_empty() && word.bytes().all(letter)
        };
        if subject.len() > MAX_NAME_BYTES || !subject.split('.').all(word) {
            let fix = format!("write for example {SUBJECT:?}, without spaces and wildcards");
            self.problem("subject", Some(subject), "not a subject", &fix);
        }
        let login = self.login();
        let token = self.token();
        let path = self.target.token_file.as_deref();
        if let (Some(path), Some(_)) = (path, &self.target.user) {
            let fix = "remove token_file, or user and password_file";
            let shown = path.display().to_string();
            self.problem(
                "token_file",
                Some(&shown),
                "the target has a user, too",
                fix,
            );
        }
        // A server may ask for TLS at nats://, too.
        let trust = self.trust(true, "").unwrap_or(Trust::System);
        Some(Nats {
            servers: address.hosts.clone(),
            tls: scheme == "tls",
            trust,
            subject: subject.to_owned(),
            jetstream: self.target.jetstream.unwrap_or(false),
            token,
            login,
        })
    }

    fn redis(&mut self, kind: &Kind, scheme: &str, address: &Address) -> Option<Redis> {
        let server = self.only_host(kind, address);
        let database = match address.path.as_str() {
            "" => Some(0),
            number => number.parse().ok(),
        };
        if database.is_none() {
            self.refuse_url(kind, "the path is not the number of a database");
        }
        let tls = self.trust(
            scheme == "rediss",
            "write rediss:// in url, or remove ca_file",
        );
        let password = self.password();
        if let (Some(user), None) = (&self.target.user, &self.target.password_file) {
            let fix = "name a file with the password in password_file, or remove user";
            self.problem("user", Some(user), "it has no password", fix);
        }
        Some(Redis {
            server: server?,
            tls,
            database: database?,
            to: self.redis_key(),
            user: self.target.user.clone(),
            password,
        })
    }

    fn redis_key(&mut self) -> RedisKey {
        let target = self.target;
        let all = [
            ("stream", &target.stream),
            ("list", &target.list),
            ("channel", &target.channel),
        ];
        let given = all.into_iter();
        let given: Vec<(&str, &String)> = given
            .filter_map(|(key, name)| Some((key, name.as_ref()?)))
            .collect();
        if let [_, (key, name), ..] = given.as_slice() {
            let fix = "keep one of stream, list and channel";
            self.problem(key, Some(name), "events go to one place", fix);
        }
        let (key, name) = given
            .first()
            .map_or(("stream", STREAM), |(key, name)| (key, name));
        self.name(key, name, STREAM);
        match key {
            "list" => RedisKey::List(name.to_owned()),
            "channel" => RedisKey::Channel(name.to_owned()),
            _ => RedisKey::Stream(name.to_owned()),
        }
    }

    fn postgres(&mut self, kind: &Kind, address: &Address) -> Option<Postgres> {
        let server = self.only_host(kind, address);
        if address.path.is_empty() {
            self.refuse_url(kind, "it names no database");
        }
        let table = self.target.table.as_deref().unwrap_or(TABLE);
        let quoted = quoted(table);
        if quoted.is_none() {
            let fix = format!(
                "write for example {TABLE:?} or \"schema.{TABLE}\": letters, digits and _, at most 63"
            );
            self.problem("table", Some(table), "not the name of a table", &fix);
        }
        let tls = self.trust_by_key();
        let password = self.password();
        let user = self.target.user.clone();
        if user.is_none() {
            let fix = "name the user of the database, such as user = \"archipel\"";
            self.problem(
                "user",
                None,
                "a target of the kind postgresql needs it",
                fix,
            );
        }
        Some(Postgres {
            server: server?,
            tls,
            database: address.path.clone(),
            table: quoted?,
            user: user?,
            password,
        })
    }

    fn amqp(&mut self, kind: &Kind, scheme: &str, address: &Address) -> Option<Amqp> {
        let server = self.only_host(kind, address);
        let tls = self.trust(
            scheme == "amqps",
            "write amqps:// in url, or remove ca_file",
        );
        let exchange = self.target.exchange.as_deref();
        let routing_key = self.target.routing_key.as_deref();
        if let Some(exchange) = exchange {
            self.name("exchange", exchange, "events");
        } else if routing_key.is_none() {
            let fix = "name an exchange, or a queue in routing_key";
            let why = "without an exchange, the routing key must name a queue";
            self.problem("routing_key", None, why, fix);
        }
        if let Some(routing_key) = routing_key {
            self.name("routing_key", routing_key, "uploads");
        }
        Some(Amqp {
            server: server?,
            tls,
            vhost: match address.path.as_str() {
                "" => "/".into(),
                vhost => vhost.to_owned(),
            },
            exchange: exchange.unwrap_or_default().to_owned(),
            routing_key: routing_key.unwrap_or_default().to_owned(),
            login: self.login(),
        })
    }

    fn kafka(&mut self, kind: &Kind, address: &Address) -> Option<Kafka> {
        let topic = address.path.as_str();
        let letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if topic.is_empty() || topic.len() > MAX_NAME_BYTES || !topic.bytes().all(letter) {
            self.refuse_url(kind, "it does not end with the name of a topic");
        }
        let key = self.key("sasl");
        let sasl = self.check.choice(&key, self.target.sasl.as_deref(), &SASL);
        if let (Some(sasl), None) = (&self.target.sasl, &self.target.user) {
            let fix = "name the user in user, or remove sasl";
            self.problem(
                "sasl",
                Some(sasl),
                "there is no user that it could authenticate",
                fix,
            );
        }
        let tls = self.trust_by_key();
        if tls.is_some() && address.hosts.iter().any(|host| host.name.contains(':')) {
            let why = "with TLS, brokers cannot be named by IPv6 addresses";
            self.refuse_url(kind, why);
        }
        Some(Kafka {
            brokers: address.hosts.clone(),
            tls,
            topic: topic.to_owned(),
            login: self.login(),
            sasl,
        })
    }

    /// Returns the certificates that count, for a kind whose scheme does not tell whether it speaks
    /// TLS.
    fn trust_by_key(&mut self) -> Option<Trust> {
        let tls = self.target.tls.unwrap_or(false);
        self.trust(tls, "set tls = true, or remove ca_file")
    }

    fn only_host(&mut self, kind: &Kind, address: &Address) -> Option<Host> {
        let host = address.only_host().cloned();
        if host.is_none() {
            self.refuse_url(kind, "it names several servers");
        }
        host
    }

    fn name(&mut self, key: &str, name: &str, example: &str) {
        let is_fine = !name.is_empty() && !name.chars().any(char::is_control);
        if !is_fine || name.len() > MAX_NAME_BYTES {
            let fix = format!("1 to {MAX_NAME_BYTES} characters, such as {example:?}");
            self.problem(key, Some(name), "not a name", &fix);
        }
    }
}

/// Returns the name of a table in quotes, with its schema if it names one.
fn quoted(table: &str) -> Option<String> {
    let is_word = |word: &str| {
        let first = word.bytes().next();
        first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && word.len() <= 63
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let words: Vec<&str> = table.split('.').collect();
    if words.len() > 2 || !words.iter().all(|word| is_word(word)) {
        return None;
    }
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    Some(words.join("."))
}

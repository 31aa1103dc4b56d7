use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::tests::{read, refusal};
use crate::config::{EventTarget, Host, RedisKey, Sasl, Service, Trust};

fn text(keys: &str) -> String {
    format!("data_dir = \"/d\"\n[[event_targets]]\nname = \"t\"\n{keys}\n")
}

fn target(keys: &str) -> EventTarget {
    let loaded = read(&text(keys)).map_err(|error| error.to_string());
    loaded.unwrap().settings.event_targets.remove(0)
}

fn host(name: &str, port: u16) -> Host {
    Host {
        name: name.into(),
        port,
    }
}

fn secret_file(folder: &Path, content: &str) -> PathBuf {
    let path = folder.join("secret");
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn scheme_says_the_kind() {
    for (keys, kind) in [
        ("url = \"http://a/in\"", "webhook"),
        ("url = \"https://a/in\"", "webhook"),
        ("url = \"https://a/@team/in?to=b@c\"", "webhook"),
        ("url = \"nats://a\"", "nats"),
        ("url = \"tls://a,b:1\"", "nats"),
        ("url = \"redis://a\"", "redis"),
        ("url = \"rediss://a/1\"", "redis"),
        ("url = \"postgres://a/d\"\nuser = \"u\"", "postgresql"),
        ("url = \"postgresql://a/d\"\nuser = \"u\"", "postgresql"),
        ("url = \"amqp://a\"\nrouting_key = \"q\"", "amqp"),
        ("url = \"amqps://a\"\nexchange = \"e\"", "amqp"),
        ("url = \"kafka://a,b:1/t\"", "kafka"),
        ("url = \"kafka://[::1]/t\"", "kafka"),
    ] {
        assert_eq!(target(keys).service.kind(), kind, "{keys}");
    }
}

#[test]
fn addresses_have_defaults() {
    let Service::Nats(nats) = target("url = \"nats://a,b:1\"").service else {
        panic!("no NATS");
    };
    assert_eq!(nats.servers, [host("a", 4222), host("b", 1)]);
    assert_eq!(nats.subject, "archipel.events");
    assert!(!nats.tls && !nats.jetstream && nats.trust == Trust::System);
    let Service::Redis(redis) = target("url = \"rediss://[::1]/3\"").service else {
        panic!("no Redis");
    };
    assert_eq!((redis.server, redis.database), (host("::1", 6379), 3));
    assert_eq!(redis.to, RedisKey::Stream("archipel-events".into()));
    assert_eq!(redis.tls, Some(Trust::System));
    let keys = "url = \"postgres://a/my%20db\"\nuser = \"u\"\ntable = \"s.Events\"\ntls = true";
    let Service::Postgres(postgres) = target(keys).service else {
        panic!("no PostgreSQL");
    };
    assert_eq!(postgres.server, host("a", 5432));
    assert_eq!(postgres.database, "my db");
    assert_eq!(postgres.table, "\"s\".\"Events\"");
    assert_eq!(postgres.tls, Some(Trust::System));
    let Service::Amqp(amqp) = target("url = \"amqps://a\"\nrouting_key = \"q\"").service else {
        panic!("no AMQP");
    };
    assert_eq!((amqp.server, amqp.vhost.as_str()), (host("a", 5671), "/"));
    assert_eq!(
        (amqp.exchange.as_str(), amqp.routing_key.as_str()),
        ("", "q")
    );
    let Service::Kafka(kafka) = target("url = \"kafka://a,b:1/up_1.x-y\"").service else {
        panic!("no Kafka");
    };
    assert_eq!(kafka.brokers, [host("a", 9092), host("b", 1)]);
    assert_eq!(
        (kafka.topic.as_str(), kafka.sasl),
        ("up_1.x-y", Sasl::ScramSha512)
    );
    assert!(kafka.tls.is_none() && kafka.login.is_none());
}

#[test]
fn passwords_come_from_files_and_stay_out_of_texts() {
    let folder = tempfile::tempdir().unwrap();
    let file = secret_file(folder.path(), "päss w0rd\r\n");
    for url in ["nats://a", "amqp://a\"\nexchange = \"e", "kafka://a/t"] {
        let keys = format!("url = \"{url}\"\nuser = \"ann\"\npassword_file = {file:?}");
        let target = target(&keys);
        assert!(!format!("{target:?}").contains("w0rd"), "{target:?}");
        let login = match target.service {
            Service::Nats(nats) => nats.login,
            Service::Amqp(amqp) => amqp.login,
            Service::Kafka(kafka) => kafka.login,
            other => panic!("{other:?}"),
        };
        let login = login.unwrap();
        assert_eq!(
            (login.user.as_str(), login.password.expose()),
            ("ann", "päss w0rd")
        );
    }
    let empty = secret_file(folder.path(), "\n");
    let keys = format!("url = \"redis://a\"\npassword_file = {empty:?}");
    assert!(refusal(&text(&keys)).contains("not one line with a password"));
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refusal(&text(&keys)).contains("chmod 600"));
}

/// The service chose them.
#[test]
fn tokens_may_be_short() {
    let folder = tempfile::tempdir().unwrap();
    let file = secret_file(folder.path(), "s3cr3t\n");
    for url in ["nats://a", "https://a/in"] {
        let keys = format!("url = \"{url}\"\ntoken_file = {file:?}");
        let token = match target(&keys).service {
            Service::Nats(nats) => nats.token,
            Service::Webhook(webhook) => webhook.token,
            other => panic!("{other:?}"),
        };
        assert_eq!(token.unwrap().expose(), "s3cr3t");
        let empty = secret_file(folder.path(), "\n");
        assert!(refusal(&text(&keys)).contains("write the token alone to the file"));
        assert_eq!(secret_file(folder.path(), "s3cr3t\n"), empty);
    }
}

#[test]
fn refusals_name_key_value_and_fix() {
    let pg = "url = \"postgres://a/d\"\nuser = \"u\"\n";
    for (keys, expected) in [
        (
            "url = \"ftp://x\"",
            "url = \"ftp://x\": not an address that begins with http://, https://, nats://",
        ),
        ("url = \"x\"", "url = \"x\": not an address"),
        (
            "url = \"http:///in\"",
            "url = \"http:///in\": not an address",
        ),
        (
            "url = \"nats://a/b\"",
            "url = \"nats://a/b\": an address of NATS has no path",
        ),
        (
            "url = \"redis://a,b\"",
            "url = \"redis://a,b\": it names several servers",
        ),
        (
            "url = \"redis://a/x\"",
            "url = \"redis://a/x\": the path is not the number",
        ),
        (
            "url = \"redis://a:x\"",
            "url = \"redis://a:x\": not host:port",
        ),
        (
            "url = \"postgres://a\"\nuser = \"u\"",
            "url = \"postgres://a\": it names no database",
        ),
        (
            "url = \"postgres://a/d?sslmode=require\"\nuser = \"u\"",
            "takes no parameters",
        ),
        (
            "url = \"postgres://a/d\"",
            "user: a target of the kind postgresql needs it",
        ),
        ("url = \"amqp://a\"", "routing_key: without an exchange"),
        (
            "url = \"kafka://a\"",
            "url = \"kafka://a\": it does not end with the name of a topic",
        ),
        (
            "url = \"kafka://a,[::1]/t\"\ntls = true",
            "url = \"kafka://a,[::1]/t\": with TLS, brokers cannot be named by IPv6 addresses",
        ),
        (
            "url = \"kafka://a/b c\"",
            "url = \"kafka://a/b c\": it does not end",
        ),
        (
            &format!("{pg}table = \"a;b\""),
            "table = \"a;b\": not the name of a table",
        ),
        (
            &format!("{pg}table = \"a.b.c\""),
            "table = \"a.b.c\": not the name of a table",
        ),
        (
            &format!("{pg}table = \"a\\\"b\""),
            "not the name of a table",
        ),
        (
            "url = \"nats://a\"\nsubject = \"a.>\"",
            "subject = \"a.>\": not a subject",
        ),
        (
            "url = \"nats://a\"\nsubject = \"a..b\"",
            "subject = \"a..b\": not a subject",
        ),
        (
            "url = \"nats://a\"\nuser = \"u\"",
            "user = \"u\": it has no password",
        ),
        (
            "url = \"redis://a\"\nstream = \"a\"\nlist = \"b\"",
            "list = \"b\": events go to one place",
        ),
        (
            "url = \"redis://a\"\nlist = \"\"",
            "list = \"\": not a name",
        ),
        (
            "url = \"redis://a\"\nca_file = \"/none\"",
            "ca_file = \"/none\": No such file",
        ),
        (
            "url = \"redis://a\"\nca_file = \"/none\"",
            "ca_file = \"/none\": the address does not speak TLS",
        ),
        (
            "url = \"kafka://a/t\"\nsasl = \"plain\"",
            "sasl = \"plain\": there is no user that it could authenticate",
        ),
        (
            "url = \"kafka://a/t\"\nsasl = \"oauth\"",
            "sasl = \"oauth\": unknown choice",
        ),
        (
            "url = \"kafka://a/t\"\npassword_file = \"/none\"",
            "password_file = \"/none\": it has no user",
        ),
    ] {
        let refused = refusal(&text(keys));
        let expected = match expected.contains(" = ") || expected.contains(": ") {
            true => format!("event_targets[0].{expected}"),
            false => expected.to_owned(),
        };
        assert!(
            refused.contains(&expected) && refused.contains("fix: "),
            "{expected}: {refused}"
        );
    }
}

#[test]
fn keys_of_another_kind_are_refused() {
    for (keys, expected) in [
        (
            "url = \"http://a\"\nsubject = \"s\"",
            "subject = \"s\": a target of the kind webhook has no such key; fix: remove it; its keys are token_file",
        ),
        (
            "url = \"http://a\"\nca_file = \"/f\"",
            "ca_file = \"/f\": a target of the kind webhook",
        ),
        (
            "url = \"nats://a\"\ntable = \"t\"",
            "table = \"t\": a target of the kind nats",
        ),
        (
            "url = \"redis://a\"\ntls = true",
            "tls = \"true\": a target of the kind redis",
        ),
        (
            "url = \"redis://a\"\njetstream = false",
            "jetstream = \"false\": a target of the kind redis",
        ),
        (
            "url = \"postgres://a/d\"\nstream = \"s\"",
            "stream = \"s\": a target of the kind postgresql",
        ),
        (
            "url = \"amqp://a\"\ntoken_file = \"/f\"",
            "token_file = \"/f\": a target of the kind amqp",
        ),
        (
            "url = \"kafka://a/t\"\nexchange = \"e\"",
            "exchange = \"e\": a target of the kind kafka",
        ),
    ] {
        let refused = refusal(&text(keys));
        let expected = format!("event_targets[0].{expected}");
        assert!(refused.contains(&expected), "{expected}: {refused}");
    }
}

#[test]
fn passwords_in_addresses_are_refused_and_not_shown() {
    for url in [
        "nats://ann:pass-word@a",
        "redis://:pass-word@a",
        "postgres://ann:pass-word@a/d",
        "amqp://ann:pass-word@a/v",
        "kafka://ann:pass-word@a/t",
        "amqp://ann:pass-/word@a",
        "https://ann:pass-word@a/in",
        "https://ann:pass-/word@a/in",
    ] {
        let refused = refusal(&text(&format!("url = \"{url}\"")));
        let fixes = ["user and password_file", "token_file", "hooks.example.org"];
        assert!(fixes.iter().any(|fix| refused.contains(fix)), "{refused}");
        assert!(!refused.contains("pass-"), "{refused}");
    }
}

//! Tests of the settings: accepted values, refused values, and the error texts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use archipel_storage::engine::{Durability, EngineKind};

use super::known::all_settings;
use super::{EXAMPLE, Error, Loaded, LogFormat, MINIMAL, Transport, file, parse};

pub fn read(text: &str) -> Result<Loaded, Error> {
    with_env(text, &[])
}

pub fn with_env(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, Error> {
    let variables = variables
        .iter()
        .map(|(n, v)| (n.to_string(), v.to_string()));
    parse(text, Path::new("test.toml"), variables)
}

pub fn refusal(text: &str) -> String {
    read(text).expect_err("it should be refused").to_string()
}

/// Collects the dotted names of all keys of a table, without list indices.
fn keys(table: &toml::Table, prefix: &str, into: &mut Vec<String>) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            toml::Value::Table(inner) => keys(inner, &format!("{name}."), into),
            toml::Value::Array(items) if items.iter().any(toml::Value::is_table) => {
                let tables = items.iter().filter_map(toml::Value::as_table);
                tables.for_each(|inner| keys(inner, &format!("{name}."), into));
            }
            _ => into.push(name),
        }
    }
}

fn sorted_keys(table: &toml::Table) -> Vec<String> {
    let mut names = Vec::new();
    keys(table, "", &mut names);
    names.sort();
    // Entries of one list may have the same keys.
    names.dedup();
    names
}

#[test]
fn example_and_minimal_file_are_valid() {
    let example = read(EXAMPLE).unwrap().settings;
    let minimal = read(MINIMAL).unwrap().settings;
    assert_eq!(format!("{example:?}"), format!("{minimal:?}"));
}

#[test]
fn example_shows_every_setting() {
    let shown: toml::Table = all_settings().parse().unwrap();
    let mut known = Vec::new();
    for (section, structure) in [
        ("", struct_fields::<file::File>()),
        ("s3.", struct_fields::<file::S3>()),
        ("web.", struct_fields::<file::Web>()),
        ("k2v.", struct_fields::<file::K2v>()),
        ("admin.", struct_fields::<file::Admin>()),
        ("console.", struct_fields::<file::Console>()),
        ("tls.", struct_fields::<file::Tls>()),
        ("tls.certificates.", struct_fields::<file::Certificate>()),
        ("acme.", struct_fields::<file::Acme>()),
        ("cluster.", struct_fields::<file::Cluster>()),
        ("first_start.", struct_fields::<file::FirstStart>()),
        ("log.", struct_fields::<file::Log>()),
        ("encryption.", struct_fields::<file::Encryption>()),
        ("audit.", struct_fields::<file::Audit>()),
        ("traces.", struct_fields::<file::Traces>()),
        ("limits.", struct_fields::<file::Limits>()),
        ("event_targets.", struct_fields::<file::EventTarget>()),
        ("disks.", struct_fields::<file::Disk>()),
    ] {
        known.extend(structure.iter().map(|field| format!("{section}{field}")));
    }
    let sections = file::SECTIONS;
    let lists = ["disks", "event_targets", "tls.certificates"];
    known.retain(|name| !sections.contains(&name.as_str()) && !lists.contains(&name.as_str()));
    known.sort();
    assert_eq!(sorted_keys(&shown), known);
}

/// Returns the field names of a structure, taken from its error about an unknown field.
fn struct_fields<T: serde::de::DeserializeOwned>() -> Vec<String> {
    let refusal = match toml::from_str::<T>("unknown-field = 1") {
        Ok(_) => panic!("an unknown field is accepted"),
        Err(error) => error.message().to_owned(),
    };
    let fields: Vec<String> = refusal
        .split('`')
        .skip(3)
        .step_by(2)
        .map(String::from)
        .collect();
    assert!(!fields.is_empty(), "{refusal}");
    fields
}

#[test]
fn example_shows_the_real_defaults() {
    let text = all_settings();
    let cut = text.find("[[event_targets]]").unwrap();
    // The example shows sample values for settings that name files or have no default.
    let not_defaults = [
        "token_file",
        "metrics_token_file",
        "listen = \"127.0.0.1:3902\"",
        "root_domain",
        "listen = \"127.0.0.1:3903\"",
        "listen = \"127.0.0.1:3904\"",
        "listen = \"127.0.0.1:3905\"",
        "s3_url",
        "listen = \"192.0.2.1:3901\"",
        "secret_",
        "first_",
        "discover_token_file",
        "bucket",
        "access_key",
        "certificates",
        "domains",
        "contact",
        "ca_file",
        "listen = \"0.0.0.0:80\"",
        "disk_reserve",
        "metadata_map_size",
        "file",
        "webhook",
        "endpoint",
        "headers_file",
        "connections_per_address",
        "requests_per_second_per",
        "key_file",
        "previous_",
    ];
    let shown: String = text[..cut]
        .lines()
        .filter(|line| !not_defaults.iter().any(|name| line.starts_with(name)))
        .map(|line| format!("{line}\n"))
        .collect();
    let shown = read(&shown).unwrap().settings;
    let default = read(MINIMAL).unwrap().settings;
    assert_eq!(format!("{shown:?}"), format!("{default:?}"));
}

#[test]
fn documentation_contains_the_example() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let documentation = fs::read_to_string(path).unwrap();
    assert!(
        documentation.contains(&format!("```toml\n{EXAMPLE}```")),
        "docs/configuration.md must hold crates/archipel/src/config/example.toml word by word"
    );
}

#[test]
fn values_are_parsed() {
    let text = r#"
        data_dir = "/data"
        engine = "sqlite"
        durability = "buffered"
        [[disks]]
        path = "/one"
        capacity = "4TB"
        draining = true
        [[disks]]
        path = "/two"
        capacity = 1000
        [s3]
        base_domains = ["S3.Example.org"]
        [log]
        format = "json"
    "#;
    let settings = read(text).unwrap().settings;
    assert_eq!(settings.engine, EngineKind::Sqlite);
    assert_eq!(settings.durability, Durability::Buffered);
    assert_eq!(settings.log.format, LogFormat::Json);
    assert_eq!(settings.s3.base_domains, ["s3.example.org"]);
    assert_eq!(settings.metadata_dir, PathBuf::from("/data/metadata"));
    assert_eq!(settings.admin.socket, PathBuf::from("/data/admin.sock"));
    let disks = &settings.disks;
    assert_eq!(
        (disks[0].capacity_bytes, disks[0].draining),
        (Some(4_000_000_000_000), true)
    );
    assert_eq!(
        (disks[1].capacity_bytes, disks[1].draining),
        (Some(1000), false)
    );
}

#[test]
fn the_size_of_the_map_is_for_lmdb_and_within_bounds() {
    let map_bytes = |lines: &str| {
        let settings = read(&format!("data_dir = \"/d\"\n{lines}\n"))
            .unwrap()
            .settings;
        crate::storage::engine_options(&settings).map_bytes
    };
    assert_eq!(map_bytes(""), None);
    assert_eq!(map_bytes("metadata_map_size = \"64MiB\""), Some(64 << 20));
    assert_eq!(
        map_bytes("metadata_map_size = 2000000000"),
        Some(2_000_000_000)
    );
    for (lines, expected) in [
        (
            "metadata_map_size = \"65TiB\"",
            "metadata_map_size = \"65TiB\": the map is too small",
        ),
        ("metadata_map_size = 0", "not a size"),
        (
            "metadata_map_size = \"1GiB\"\nengine = \"fjall\"",
            "the engine fjall has no map; fix: remove",
        ),
    ] {
        let refusal = refusal(&format!("data_dir = \"/d\"\n{lines}\n"));
        assert!(refusal.contains(expected), "{refusal}");
        assert_eq!(refusal.lines().count(), 2, "{refusal}");
    }
}

#[test]
fn all_problems_are_reported_at_once_with_key_value_and_fix() {
    let text = r#"
        engine = "oracle"
        metadata_map_size = "1MiB"
        [s3]
        listen = "localhost"
        region = "EU West"
        base_domains = [".example.org"]
        [log]
        level = "loud=very"
        [limits]
        connections = 0
        control_lease_seconds = 2
        disk_reserve = "some"
        lifecycle_day_seconds = 0
        [admin]
        listen = "127.0.0.1:1"
        [web]
        root_domain = "-x-.example..org"
        [[disks]]
        path = "/one"
        capacity = "much"
        [[disks]]
        path = "/one"
    "#;
    let refusal = refusal(text);
    let expected = [
        "data_dir: the setting is missing; fix:",
        "engine = \"oracle\": unknown choice; fix: one of \"lmdb\", \"sqlite\", \"fjall\"",
        "metadata_map_size = \"1MiB\": the map is too small for any data, or too large",
        "s3.listen = \"localhost\"",
        "s3.region = \"EU West\"",
        "s3.base_domains = \".example.org\"",
        "log.level = \"loud=very\"",
        "limits.connections = \"0\"",
        "limits.control_lease_seconds = \"2\"",
        "limits.disk_reserve = \"some\": not a size",
        "limits.lifecycle_day_seconds = \"0\"",
        "admin.token_file: admin.listen needs a token",
        "web.root_domain = \"-x-.example..org\"",
        "web.listen: web.root_domain needs web.listen, which is missing",
        "disks[0].capacity = \"much\": not a size",
        "disks[1].path = \"/one\": the path is used twice",
    ];
    for part in expected {
        assert!(refusal.contains(part), "{part:?} is not in:\n{refusal}");
    }
    assert_eq!(refusal.lines().count(), 1 + expected.len(), "{refusal}");
    assert!(
        refusal.lines().skip(1).all(|line| line.contains("; fix: ")),
        "{refusal}"
    );
}

#[test]
fn environment_overrides_the_file() {
    let loaded = with_env(
        MINIMAL,
        &[
            ("ARCHIPEL_DATA_DIR", "/elsewhere"),
            ("ARCHIPEL_S3_LISTEN", "[::]:1"),
            ("ARCHIPEL_S3_REGION", "7"),
            ("ARCHIPEL_S3_BASE_DOMAINS", "[\"a.org\", \"b.org\"]"),
            ("ARCHIPEL_LIMITS_SHUTDOWN_SECONDS", "5"),
            ("ARCHIPEL_DISKS", "[{path = \"/one\", capacity = \"1GiB\"}]"),
            ("ARCHIPEL_LOG_LEVEL", ""),
            ("ARCHIPEL_SERVICE_HOST", "10.0.0.1"),
            ("ARCHIPEL_CONFIG", "x"),
            ("HOME", "/root"),
        ],
    )
    .unwrap();
    let settings = loaded.settings;
    assert_eq!(settings.data_dir, PathBuf::from("/elsewhere"));
    assert_eq!(settings.s3.listen.to_string(), "[::]:1");
    assert_eq!(settings.s3.region, "7");
    assert_eq!(settings.s3.base_domains, ["a.org", "b.org"]);
    assert_eq!(settings.limits.shutdown_seconds, 5);
    assert_eq!(settings.disks[0].capacity_bytes, Some(1 << 30));
    assert_eq!(settings.log.level, "info");
    assert_eq!(loaded.unknown_variables, ["ARCHIPEL_SERVICE_HOST"]);
}

#[test]
fn transport_is_selected_and_addresses_may_not_repeat_it() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let text = |more: &str| {
        format!(
            "data_dir = \"/d\"\n[cluster]\nlisten = \"127.0.0.1:3901\"\nsecret_file = {secret:?}\n{more}\n"
        )
    };
    let network = |more: &str| read(&text(more)).unwrap().settings.cluster.network.unwrap();
    assert_eq!(network("").transport, Transport::Quic);
    let tcp = network("transport = \"tcp\"\njoin = [\"tcp://a.example.net:3901\"]");
    assert_eq!(tcp.transport, Transport::Tcp);
    assert_eq!(tcp.join, ["tcp://a.example.net:3901"]);
    assert_eq!(tcp.advertise, ["127.0.0.1:3901"]);
    let refused = [
        (
            "transport = \"sctp\"",
            "cluster.transport = \"sctp\": unknown choice; fix: one of \"quic\", \"tcp\"",
        ),
        (
            "advertise = [\"tcp://a.example.net:3901\"]",
            "cluster.advertise = \"tcp://a.example.net:3901\": cluster.transport already decides the transport",
        ),
        (
            "join = [\"udp://a.example.net\"]",
            "cluster.join = \"udp://a.example.net\": not a host",
        ),
    ];
    for (more, why) in refused {
        let refusal = refusal(&text(more));
        assert!(refusal.contains(why), "{why:?} is not in:\n{refusal}");
    }
}

#[test]
fn a_word_that_is_no_level_is_refused() {
    let text = |level: &str| format!("log.level = {level:?}\n{MINIMAL}");
    for level in ["warning", "loud", "info,archipel_api"] {
        assert!(refusal(&text(level)).contains("is no level"), "{level}");
    }
    for level in ["warn", "off", "info,archipel_api::s3=debug"] {
        read(&text(level)).unwrap();
    }
}

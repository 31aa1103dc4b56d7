//! Tests of what is wrong with a file or with variables: keys, types and the texts about them.

use super::MINIMAL;
use super::tests::{refusal, with_env};

#[test]
fn all_unknown_keys_and_wrong_types_are_reported_at_once() {
    let text = r#"data_dri = "/d"
[s3]
listn = "127.0.0.1:3900"
region = 7
[cluter]
zone = "here"
[log]
level = "loud=very"
[[disks]]
path = "/one"
[[disks]]
path = "/two"
capcity = "1TB"
[limits]
replication_factor = 3
"#;
    let refusal = refusal(text);
    let expected = [
        "the configuration test.toml is not valid:",
        "  data_dri (line 1): unknown key; fix: the nearest known key is data_dir",
        "  s3.listn (line 3): unknown key; fix: the nearest known key is s3.listen",
        "  s3.region (line 4): invalid type: integer `7`, expected a string; fix: `archipel config example` shows",
        "  cluter (line 5): unknown key; fix: the nearest known key is cluster",
        "  disks[1].capcity (line 13): unknown key; fix: the nearest known key is disks.capacity",
        "  limits.replication_factor (line 15): unknown key; fix: remove it; `archipel config example` shows",
        // Settings that need no key of the sections above are checked, too.
        "  log.level = \"loud=very\": ",
    ];
    let lines: Vec<&str> = refusal.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{refusal}");
    for (line, begin) in lines.iter().zip(expected) {
        assert!(line.starts_with(begin), "{begin:?} is not in:\n{refusal}");
    }
}

#[test]
fn what_follows_from_an_unknown_key_is_not_reported() {
    let text = "data_dir = \"/d\"\n[admin]\nlisten = \"127.0.0.1:1\"\ntoken_fil = \"/t\"\n";
    let told = refusal(text);
    assert!(told.contains("admin.token_fil (line 4): unknown"), "{told}");
    assert_eq!(told.lines().count(), 2, "{told}");
}

#[test]
fn entry_of_a_list_is_named_by_its_number() {
    let told = refusal("data_dir = \"/d\"\n[s3]\nbase_domains = [\"a.org\", 5]\n");
    assert!(
        told.contains("s3.base_domains[1] (line 3): invalid type"),
        "{told}"
    );
    let disks = "[[disks]]\ncapacity = \"1TB\"\n[[disks]]\npath = \"/two\"\n";
    let told = refusal(&format!("data_dir = \"/d\"\n{disks}"));
    assert!(
        told.contains("disks[0] (line 2): missing field `path`; fix:"),
        "{told}"
    );
    let inline = "disks = [{ path = \"/one\" }, { path = \"/two\", drained = 1 }]";
    let told = refusal(&format!("data_dir = \"/d\"\n{inline}\n"));
    assert!(
        told.contains("disks[1].drained (line 2): unknown"),
        "{told}"
    );
}

#[test]
fn table_where_a_value_should_be_and_the_reverse_are_reported() {
    let told = refusal("data_dir = \"/d\"\ns3 = 5\n[log.level]\nall = \"info\"\n");
    assert!(told.contains("s3 (line 2): invalid type"), "{told}");
    assert!(told.contains("log.level (line 3): invalid type"), "{told}");
    // Keys with points, and sections that are only named by what is in them.
    let told = refusal("data_dir = \"/d\"\ns3.listn = 1\n[tls.files]\nchain = \"/c\"\n");
    assert!(told.contains("s3.listn (line 2): unknown key"), "{told}");
    assert!(told.contains("tls.files (line 3): unknown key"), "{told}");
}

#[test]
fn mistake_in_the_syntax_names_the_line() {
    let syntax = refusal("data_dir = \"/d\"\nengine =\n");
    assert!(syntax.contains("line 2"), "{syntax}");
    assert!(syntax.contains("test.toml"), "{syntax}");
}

#[test]
fn all_variables_with_wrong_values_are_reported() {
    let variables = [
        ("ARCHIPEL_LIMITS_CONNECTIONS", "many"),
        // A key inside of a list is unknown: that is more than a warning.
        ("ARCHIPEL_DISKS", "[{pth = \"/one\"}]"),
        ("ARCHIPEL_LOG_LEVEL", "loud=very"),
        ("ARCHIPEL_S3_LISTENER", "1"),
    ];
    let told = with_env(MINIMAL, &variables).unwrap_err().to_string();
    for part in [
        "ARCHIPEL_LIMITS_CONNECTIONS = \"many\": ",
        "ARCHIPEL_DISKS: unknown field `pth`",
        "log.level = \"loud=very\": ",
    ] {
        assert!(told.contains(part), "{part:?} is not in:\n{told}");
    }
    assert_eq!(told.lines().count(), 4, "{told}");
}

#[test]
fn passwords_at_wrong_places_are_not_shown() {
    let table = r#"[{name="a", url="amqp://h:5672/", user="u", password="hunter2"}]"#;
    for (value, why) in [
        (table, "ARCHIPEL_EVENT_TARGETS: unknown field `password`"),
        (
            "amqp://u:hunter2@h/",
            "ARCHIPEL_EVENT_TARGETS: it is not TOML",
        ),
        (&table[1..], "ARCHIPEL_EVENT_TARGETS: it is not TOML"),
        (
            "\"amqp://u:hunter2@h/\"",
            "ARCHIPEL_EVENT_TARGETS: invalid type: string, expected",
        ),
        (
            r#"[{name="a", url="http://h/", backlog="hunter2"}]"#,
            "ARCHIPEL_EVENT_TARGETS: invalid type: string, expected",
        ),
    ] {
        let variables = [("ARCHIPEL_EVENT_TARGETS", value)];
        let told = with_env(MINIMAL, &variables).unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
    for (line, why) in [
        (
            "event_targets = \"amqp://u:hunter2@h/\"",
            "event_targets (line 2): invalid type: string, expected",
        ),
        (
            "event_targets = [{url = \"amqp://u:hunter2@h/\"",
            "test.toml is not valid: line ",
        ),
        ("audit.webhook = \"ftp://u:hunter2@h/\"", "audit.webhook"),
        ("acme.directory = \"http://u:hunter2@h/\"", "acme.directory"),
        ("console.s3_url = \"http://u:hunter2@h\"", "console.s3_url"),
    ] {
        let told = refusal(&format!("data_dir = \"/d\"\n{line}\n"));
        assert!(told.contains(why), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[test]
fn variable_that_is_no_setting_is_no_error() {
    let variables = [
        ("ARCHIPEL_S3_LISTENER", "1"),
        ("ARCHIPEL_S3.LISTEN", "127.0.0.1:1"),
    ];
    let loaded = with_env(MINIMAL, &variables).unwrap();
    assert_eq!(
        loaded.unknown_variables,
        ["ARCHIPEL_S3_LISTENER", "ARCHIPEL_S3.LISTEN"]
    );
    assert_eq!(loaded.settings.s3.listen.port(), 3900);
}

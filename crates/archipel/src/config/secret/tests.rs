use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::config::{Error, Loaded, parse};

fn read(text: &str) -> Result<Loaded, Error> {
    parse(text, Path::new("test.toml"), [].into_iter())
}

fn refusal(text: &str) -> String {
    read(text).expect_err("it should be refused").to_string()
}

#[test]
fn secret_that_everybody_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "0123456789abcdef0123\n").unwrap();
    let text =
        format!("data_dir = \"/d\"\n[admin]\nlisten = \"127.0.0.1:1\"\ntoken_file = {token:?}\n");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    let refusal = refusal(&text);
    assert!(
        refusal.contains("mode 644") && refusal.contains("chmod 600"),
        "{refusal}"
    );
    assert!(!refusal.contains("0123456789abcdef"), "{refusal}");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o640)).unwrap();
    let settings = read(&text).unwrap().settings;
    assert_eq!(
        settings.admin.token.as_ref().unwrap().expose(),
        "0123456789abcdef0123"
    );
    assert!(!format!("{settings:?}").contains("0123456789abcdef"));
}

#[test]
fn short_tokens_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "short\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let text = format!("data_dir = \"/d\"\n[admin]\nmetrics_token_file = {token:?}\n");
    assert!(refusal(&text).contains("at least 16"));
}

#[test]
fn short_secrets_of_a_cluster_are_refused_and_can_be_the_previous_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let short = file("short", "0123456789abcdef0123\n");
    let long = file("long", "0123456789abcdef0123456789abcdef\n");
    let text = |secret: &Path| {
        format!(
            "data_dir = \"/d\"\n[cluster]\nlisten = \"127.0.0.1:3901\"\nsecret_file = {secret:?}\n\
             previous_secret_file = {short:?}\n"
        )
    };
    assert!(read(&text(&long)).is_ok());
    let refusal = refusal(&text(&short));
    for part in [
        "cluster.secret_file = ",
        "has 20 characters",
        "at least 32",
        "fix: make one with: head -c 32",
    ] {
        assert!(refusal.contains(part), "{part:?} is not in:\n{refusal}");
    }
    assert!(!refusal.contains("0123456789abcdef"), "{refusal}");
}

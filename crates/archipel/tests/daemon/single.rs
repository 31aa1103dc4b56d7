//! Tests of single servers: what a start removes and warns of, and what commands refuse and say.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use super::{Server, archipel, demo, http_get, run, server_config, stderr, stdout, within_bounds};

/// Starts the server of a configuration. Returns it, and its log up to the line that says that it
/// is ready.
fn start(config: &str) -> (Server, Vec<Value>) {
    let mut command = archipel(&["server", "--config", config]);
    command.env("ARCHIPEL_LOG_FORMAT", "json");
    let mut server = Server::start(command);
    let log = BufReader::new(server.0.stderr.take().unwrap());
    let told = within_bounds(move || {
        let mut told = Vec::new();
        for line in log.lines().map_while(Result::ok) {
            let line: Value = serde_json::from_str(&line).unwrap();
            let is_ready = line["message"] == "ready";
            told.push(line);
            if is_ready {
                return Some(told);
            }
        }
        None
    });
    let told = told.flatten().expect("a line of the log that says ready");
    (server, told)
}

fn stop(mut server: Server) {
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
}

/// A server that was killed while it made a snapshot leaves as much as its metadata take.
#[test]
fn a_start_removes_the_remains_of_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let (config, _) = server_config(folder.path());
    stop(start(&config).0);
    let snapshots = folder.path().join("data/snapshots");
    let (half, whole) = (snapshots.join("snapshot-1"), snapshots.join("snapshot-2"));
    for copy in [&half, &whole] {
        fs::create_dir_all(copy.join("sqlite")).unwrap();
        fs::write(copy.join("sqlite/file"), b"content").unwrap();
    }
    // A copy has this file until it is complete.
    fs::write(half.join("incomplete"), b"").unwrap();
    let (server, _) = start(&config);
    assert!(!half.exists(), "the remains of a snapshot are left");
    assert!(whole.exists());
    stop(server);
}

/// One of them may be a folder that waits for its disk to be mounted.
#[test]
fn a_start_and_the_status_warn_of_disks_on_one_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let (config, address) = server_config(folder.path());
    let mut file = fs::File::options().append(true).open(&config).unwrap();
    for name in ["first", "second"] {
        let disk = folder.path().join(name);
        fs::create_dir(&disk).unwrap();
        writeln!(file, "[[disks]]\npath = {disk:?}").unwrap();
    }
    drop(file);
    let (server, told) = start(&config);
    let warning = "second are on one file system";
    let says_so = |text: &Value| text.as_str().is_some_and(|text| text.contains(warning));
    let is_warning = |line: &Value| line["level"] == "WARN" && says_so(&line["message"]);
    assert!(told.iter().any(is_warning), "{told:?}");
    let token = "authorization: Bearer 0123456789abcdef0123\r\n";
    let (_, status) = http_get(&address, "/v1/status", token);
    let status: Value = serde_json::from_str(&status).unwrap();
    let warnings = status["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(says_so), "{warnings:?}");
    stop(server);
}

/// Its users may know the secret already: the operator should make another one.
#[test]
fn a_secret_that_every_user_of_the_machine_can_read_is_not_imported() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, _) = demo(folder.path());
    let data = folder.path().to_str().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "a-secret-from-elsewhere\n").unwrap();
    let import = |mode: u32| {
        fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).unwrap();
        let file = secret.to_str().unwrap();
        run(&[
            "key",
            "import",
            "AKELSEWHERE",
            "--secret-file",
            file,
            "--data-dir",
            data,
        ])
    };
    for mode in [0o644, 0o604] {
        let refused = import(mode);
        assert_eq!(refused.status.code(), Some(1), "{}", stdout(&refused));
        let fix = format!("fix: chmod 600 {}", secret.display());
        assert!(stderr(&refused).contains(&fix), "{}", stderr(&refused));
    }
    let keys = run(&["key", "list", "--data-dir", data]);
    assert!(!stdout(&keys).contains("AKELSEWHERE"), "{}", stdout(&keys));
    let imported = import(0o600);
    assert!(imported.status.success(), "{}", stderr(&imported));
}

#[test]
fn a_node_that_serves_no_websites_says_so_when_one_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let (config, _) = server_config(folder.path());
    let (server, _) = start(&config);
    let (_demo, _) = demo(&folder.path().join("demo"));
    let made = |data: &Path, more: &[&str]| {
        let data = data.to_str().unwrap();
        let done = |words: &[&str]| {
            let output = run(&[words, &["--data-dir", data], more].concat());
            assert!(output.status.success(), "{words:?}: {}", stderr(&output));
            stdout(&output)
        };
        let bucket = format!("site-{}", more.len());
        done(&["bucket", "create", &bucket]);
        let enabled = done(&["website", "enable", &bucket]);
        let redirected = done(&["website", "redirect", &bucket, "example.org"]);
        [enabled, redirected]
    };
    let own = folder.path().join("data");
    let note = "This node serves no websites. Set web.listen";
    for told in made(&own, &[]) {
        assert!(told.contains(note), "{told}");
    }
    // Programs read nothing but the document.
    for told in made(&own, &["--json"]) {
        serde_json::from_str::<Value>(&told).unwrap();
    }
    for told in made(&folder.path().join("demo"), &[]) {
        assert!(!told.contains(note), "{told}");
    }
    stop(server);
}

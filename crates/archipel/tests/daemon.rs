//! Tests of the program from outside: a process, its output, its exit status.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

#[path = "daemon/cluster.rs"]
mod cluster;
#[path = "daemon/k2v_example.rs"]
mod k2v_example;
#[path = "daemon/single.rs"]
mod single;

/// The time limit of a process. A test then gives up and kills it.
const BOUND: Duration = Duration::from_secs(60);

fn archipel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_archipel"));
    command.args(arguments);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ARCHIPEL_")) {
        command.env_remove(name);
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    archipel(arguments).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A server process. It is killed when the test ends in any way.
struct Server(Child);

impl Server {
    fn start(mut command: Command) -> Server {
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Server(command.spawn().unwrap())
    }

    /// Returns the first line of standard output, if it arrives in time.
    fn first_line(&mut self) -> String {
        let out = self.0.stdout.take().unwrap();
        within_bounds(move || BufReader::new(out).lines().next())
            .and_then(|line| line?.ok())
            .unwrap_or_else(|| panic!("the server is not ready: {}", self.errors()))
    }

    fn errors(&mut self) -> String {
        let _ = self.0.kill();
        let mut text = String::new();
        if let Some(err) = self.0.stderr.as_mut() {
            let _ = err.read_to_string(&mut text);
        }
        text
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Returns the exit status once the process has ended, or `None` if a signal ended it.
    fn ended(&mut self) -> Option<i32> {
        let pid = self.0.id();
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            if ended.recv_timeout(BOUND).is_err() {
                let _ = Command::new("kill")
                    .args(["-s", "KILL", &pid.to_string()])
                    .status();
            }
        });
        let status = self.0.wait().unwrap();
        let _ = done.send(());
        status.code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn within_bounds<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = send.send(work());
    });
    receive.recv_timeout(BOUND).ok()
}

fn demo(folder: &Path) -> (Server, Value) {
    let folder = folder.to_str().unwrap();
    let mut server = Server::start(archipel(&[
        "demo", "--json", "--nodes", "1", "--port", "0", "--dir", folder,
    ]));
    let line = server.first_line();
    (server, serde_json::from_str(&line).unwrap())
}

/// Returns the status line and the body of an answer.
fn http_get(address: &str, path: &str, headers: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().into(), body.into())
}

#[test]
fn demo_prints_one_line_and_restarts_with_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (mut server, first) = demo(&data);
    assert_eq!(
        (&first["bucket"], &first["region"]),
        (&"demo".into(), &"us-east-1".into())
    );
    assert_eq!(first["nodes"][0]["pid"], server.0.id());
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o077, 0);
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    let (_server, second) = demo(&data);
    assert_eq!(first["access_key"], second["access_key"]);
    assert_eq!(first["secret_key"], second["secret_key"]);
}

#[test]
fn second_server_on_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, _) = demo(folder.path());
    let second = run(&[
        "demo",
        "--nodes",
        "1",
        "--port",
        "0",
        "--dir",
        folder.path().to_str().unwrap(),
    ]);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        stderr(&second).contains("in use by another archipel server"),
        "{}",
        stderr(&second)
    );
}

#[test]
fn command_line_manages_buckets_and_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, _) = demo(folder.path());
    let ask = |arguments: &[&str]| {
        let target = ["--json", "--data-dir", folder.path().to_str().unwrap()];
        let output = run(&[arguments, &target].concat());
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr(&output)
        );
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or(Value::Null)
    };
    let key = ask(&["key", "create", "laptop"]);
    let id = key["id"].as_str().unwrap();
    ask(&["bucket", "create", "photos"]);
    let allowed = ask(&[
        "key", "allow", id, "--bucket", "photos", "--read", "--write",
    ]);
    assert_eq!(allowed["grants"][0]["write"], true);
    let denied = ask(&["key", "deny", id, "--bucket", "photos", "--write"]);
    assert_eq!(
        (&denied["grants"][0]["read"], &denied["grants"][0]["write"]),
        (&true.into(), &false.into())
    );
    let created = ask(&["key", "allow", id, "--create-bucket"]);
    assert_eq!(created["create_bucket"], true);
    let info = ask(&["bucket", "info", "photos"]);
    assert_eq!(info["grants"][0]["key"], *id);
    assert_eq!(ask(&["bucket", "list"]).as_array().unwrap().len(), 2);
    assert_eq!(
        ask(&["key", "info", id, "--show-secret"])["secret"],
        key["secret"]
    );
    let secret = folder.path().join("secret");
    fs::write(&secret, "a-secret-from-elsewhere\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    ask(&[
        "key",
        "import",
        "AKELSEWHERE",
        "--secret-file",
        secret.to_str().unwrap(),
    ]);
    assert_eq!(ask(&["key", "list"]).as_array().unwrap().len(), 3);
    ask(&["key", "delete", id]);
    ask(&["bucket", "delete", "photos"]);
    assert_eq!(ask(&["status"])["troubles"], Value::Array(vec![]));
}

#[test]
fn failed_command_explains_and_exits_with_status_one() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap().to_owned();
    let no_server = run(&["status", "--data-dir", &data]);
    assert_eq!(no_server.status.code(), Some(1));
    assert!(
        stderr(&no_server).contains("is the server running?"),
        "{}",
        stderr(&no_server)
    );
    let (_server, _) = demo(folder.path());
    let no_bucket = run(&["bucket", "info", "nothing", "--data-dir", &data]);
    assert_eq!(no_bucket.status.code(), Some(1));
    assert_eq!(
        stderr(&no_bucket),
        "error: no such bucket: \"nothing\"; fix: archipel bucket list (GET /v1/buckets) shows all (NoSuchBucket)\n"
    );
    let nothing = run(&["key", "allow", "AK", "--data-dir", &data]);
    assert!(
        stderr(&nothing).contains("no permission named"),
        "{}",
        stderr(&nothing)
    );
}

#[test]
fn server_without_a_configuration_suggests_one() {
    let refused = run(&["server"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("data_dir = "),
        "{}",
        stderr(&refused)
    );
    let example = run(&["config", "example"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("example.toml");
    fs::write(&file, stdout(&example)).unwrap();
    let checked = run(&["config", "check", "--config", file.to_str().unwrap()]);
    assert_eq!(stdout(&checked), "the configuration is valid\n");
}

#[test]
fn server_serves_the_admin_api_with_a_token_until_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let (config, address) = server_config(folder.path());
    let mut command = archipel(&["server", "--config", &config]);
    command.env("ARCHIPEL_LOG_FORMAT", "json");
    let mut server = Server::start(command);
    let log = BufReader::new(server.0.stderr.take().unwrap());
    let ready = within_bounds(move || {
        let lines = log.lines().map_while(Result::ok);
        lines
            .map(|line| serde_json::from_str::<Value>(&line).unwrap())
            .find(|line| line["message"] == "ready")
    });
    let ready = ready.flatten().expect("a line of JSON that says ready");
    assert_eq!(ready["engine"], "sqlite");
    // From here on the log has no reader. That must not end the server.
    let (status, body) = http_get(&address, "/health", "");
    assert!(
        status.contains("200") && body.contains("\"healthy\":true"),
        "{status} {body}"
    );
    assert!(http_get(&address, "/v1/status", "").0.contains("401"));
    let token = "authorization: Bearer 0123456789abcdef0123\r\n";
    assert!(http_get(&address, "/v1/status", token).0.contains("200"));
    let (status, metrics) = http_get(&address, "/metrics", token);
    assert!(
        status.contains("200") && metrics.contains("process_resident_memory_bytes"),
        "{metrics}"
    );
    assert!(metrics.ends_with("# EOF\n"));
    let url = format!("http://{address}");
    let listed = run(&[
        "bucket",
        "list",
        "--admin",
        &url,
        "--token-file",
        &format!("{}/token", folder.path().display()),
    ]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    server.signal("INT");
    assert_eq!(server.ended(), Some(0));
}

/// Writes a configuration with everything in `folder`. Returns its path and the admin API's
/// address.
fn server_config(folder: &Path) -> (String, String) {
    // The port was free a moment ago, and the tests on this machine do not compete for ports.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    let token = folder.join("token");
    fs::write(&token, "0123456789abcdef0123\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let data = folder.join("data");
    let text = format!(
        "data_dir = {data:?}\nengine = \"sqlite\"\n[s3]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"{address}\"\ntoken_file = {token:?}\n"
    );
    let config = folder.join("archipel.toml");
    fs::write(&config, text).unwrap();
    (config.to_str().unwrap().into(), address)
}

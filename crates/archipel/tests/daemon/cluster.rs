//! Tests of nodes and layouts through the command line: a single server, and a cluster of several.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Server, archipel, demo, run, stderr, stdout, within_bounds};

/// Returns the output of a command for the server in `folder`, or its error text.
fn ask(folder: &Path, line: &str) -> Result<String, String> {
    let target = ["--data-dir", folder.to_str().unwrap()];
    let words: Vec<&str> = line.split(' ').chain(target).collect();
    let output = run(&words);
    if output.status.success() {
        Ok(stdout(&output))
    } else {
        Err(stderr(&output))
    }
}

fn json(folder: &Path, line: &str) -> Value {
    let text = ask(folder, &format!("{line} --json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn command_line_shows_nodes_and_changes_the_layout() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, _) = demo(folder.path());
    let ask = |line: &str| ask(folder.path(), line);
    let json = |line: &str| json(folder.path(), line);
    let id = ask("node id").unwrap().trim().to_owned();
    assert_eq!(
        (id.len(), &json("node list")[0]["id"]),
        (64, &id.as_str().into())
    );
    let table = ask("node list").unwrap();
    assert!(
        table.contains(&id[..8]) && table.contains("self"),
        "{table}"
    );
    let refused = ask("node join b.example.net:3901").unwrap_err();
    assert!(
        refused.contains("[cluster]") && refused.contains("fix: "),
        "{refused}"
    );

    let prefix = &id[..6];
    let staged = ask(&format!(
        "layout assign {prefix} --zone paris --capacity 5GB"
    ))
    .unwrap();
    assert!(
        staged.contains("archipel layout apply --version 2"),
        "{staged}"
    );
    assert!(ask("layout show").unwrap().contains("zone paris"));
    assert!(
        ask("layout apply --version 3 --revision 1")
            .unwrap_err()
            .contains("the next version is 2")
    );
    ask("layout revert").unwrap();
    assert_eq!(json("layout show")["staged"], Value::Null);
    let refused = ask("layout redundancy --replicas 3").unwrap();
    assert!(refused.contains("It cannot be applied"), "{refused}");
    ask("layout redundancy --replicas 1").unwrap();
    ask("layout assign self --zone oslo").unwrap();
    // With two operators, a change that one staged after the other looked is not applied unseen.
    let revision = json("layout show")["staged"]["revision"].clone();
    ask("layout assign self --zone rome").unwrap();
    let refused = ask(&format!("layout apply --version 2 --revision {revision}")).unwrap_err();
    assert!(
        refused.contains("were edited meanwhile") && refused.contains("fix: "),
        "{refused}"
    );
    ask("layout assign self --zone oslo").unwrap();
    let staged = ask("layout show").unwrap();
    let command = staged
        .lines()
        .find_map(|line| line.split_once("layout apply"));
    let applied = json(&format!("layout apply{}", command.unwrap().1));
    assert_eq!(applied["nodes"][0]["zone"], "oslo");
    assert_eq!(
        json("layout history")[0]["versions"],
        serde_json::json!([1, 2])
    );
    assert_eq!(json("status")["cluster"]["state"], "healthy");
    assert!(ask("status").unwrap().contains("healthy: 1 node in 1 zone"));
}

#[test]
fn cluster_of_several_nodes_reports_which_node_is_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let words = [
        "demo", "--json", "--nodes", "3", "--port", "0", "--dir", dir,
    ];
    let mut server = Server::start(archipel(&words));
    let ready: Value = serde_json::from_str(&server.first_line()).unwrap();
    let second = folder.path().join("node2");
    assert_eq!(json(&second, "node list").as_array().unwrap().len(), 3);
    let layout = json(&second, "layout show");
    assert_eq!(layout["redundancy"]["replicas"], 3);
    // The node may not have heard from all others yet.
    in_state(&second, "healthy");
    assert_eq!(json(&second, "bucket list")[0]["name"], "demo");

    let victim = ready["nodes"][2]["pid"].to_string();
    let killed = Command::new("kill").args(["-s", "KILL", &victim]).status();
    assert!(killed.unwrap().success());
    let cluster = in_state(&second, "degraded");
    let zone = ready["nodes"][2]["zone"].as_str().unwrap();
    let away = format!("zone {zone} does not answer");
    assert!(
        cluster["advice"][0].as_str().unwrap().starts_with(&away),
        "{cluster}"
    );
    ask(&second, "bucket create meanwhile").unwrap();
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    for node in ["node1", "node2"] {
        let log = std::fs::read_to_string(folder.path().join(node).join("log")).unwrap();
        let last = log.lines().last().unwrap_or_default();
        assert!(last.contains("stopped"), "{node} was killed: {last}");
    }
}

/// The number of times that the demo is started again.
const RESTARTS: usize = 10;

#[test]
fn a_demo_of_several_nodes_keeps_its_key_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let words = [
        "demo", "--json", "--nodes", "3", "--port", "0", "--dir", dir,
    ];
    let mut first = None;
    for start in 0..=RESTARTS {
        let mut server = Server::start(archipel(&words));
        let ready: Value = serde_json::from_str(&server.first_line()).unwrap();
        let key = (ready["access_key"].clone(), ready["secret_key"].clone());
        assert_eq!(first.get_or_insert(key.clone()), &key, "start {start}");
        if start == RESTARTS {
            let keys = json(&folder.path().join("node1"), "key list");
            assert_eq!(keys.as_array().unwrap().len(), 1, "{keys}");
        }
        server.signal("TERM");
        assert_eq!(server.ended(), Some(0), "start {start}");
    }
}

/// Waits until the server in `folder` reports this state of the cluster, and returns the report.
fn in_state(folder: &Path, state: &'static str) -> Value {
    let folder = folder.to_owned();
    let found = within_bounds(move || {
        let mut seen = std::iter::repeat_with(|| json(&folder, "status")["cluster"].take());
        seen.find(|cluster| cluster["state"] == state)
    });
    found
        .flatten()
        .unwrap_or_else(|| panic!("it never is {state}"))
}

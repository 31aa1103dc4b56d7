//! Tests of labs: distance, changes, a cut, and complete removal. Needs root; prints a note
//! otherwise.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::{Command, Output};

use netlab::private;

const NETLAB: &str = env!("CARGO_BIN_EXE_netlab");

const TOPOLOGY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/two-nodes.toml");

/// Runs a shell script in a private lab; `$N` is the program. Returns `None` and prints the reason
/// if the machine permits no labs.
fn run(script: &str) -> Option<Output> {
    if let Some(why) = private::why_not() {
        println!("skipped: {why}");
        return None;
    }
    let done = Command::new(NETLAB)
        .args(["run", TOPOLOGY, "--", "sh", "-ec", script])
        .env("N", NETLAB)
        .output()
        .unwrap();
    println!("{}", String::from_utf8_lossy(&done.stdout));
    println!("{}", String::from_utf8_lossy(&done.stderr));
    Some(done)
}

fn namespaces() -> usize {
    std::fs::read_dir("/run/netns").map_or(0, Iterator::count)
}

/// Shows the shortest of some round trips, or that none came back.
#[test]
fn distance_changes_and_cuts() {
    let before = namespaces();
    let script = "
        $N ping near a; $N ping a b
        $N set a b --rtt-ms 80 --one-way; $N ping a b
        $N cut s1 s2; $N ping a b || echo none
        $N heal; $N ping a b
        if $N cut a nowhere; then exit 1; fi
        $N show --once
    ";
    let Some(done) = run(script) else {
        return;
    };
    assert!(done.status.success());
    assert_eq!(namespaces(), before, "nothing is seen outside");
    let text = String::from_utf8(done.stdout).unwrap();
    let shortest: Vec<f64> = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("shortest ")?
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .collect();
    let [near, far, changed, uncut] = shortest.try_into().unwrap();
    assert!(near < 40.0, "{near}");
    assert!(far >= 40.0, "{far}");
    assert!(changed >= 60.0, "{changed}");
    assert!(uncut >= 60.0, "{uncut}");
    assert!(text.contains("none"));
}

/// Kills the relay of a detached lab and removes what is left.
#[test]
fn leftovers_of_a_crash_are_removed() {
    let script = "
        sed 's/test/other/' /run/netlab/test/topology.toml > /run/other.toml
        $N up /run/other.toml
        $N --lab other ping a b
        $N --lab other exec a -- sleep 1000 &
        pid=$(cat /run/netlab/other/pid)
        kill -9 $pid
        if $N --lab other show --once; then exit 1; fi
        ls /run/netns | grep -c '^netlab.other.'
        $N down other
        if ls /run/netns /run/netlab | grep other; then exit 1; fi
        wait
    ";
    let Some(done) = run(script) else {
        return;
    };
    assert!(done.status.success());
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.contains("\n3\n"), "three namespaces were left");
}

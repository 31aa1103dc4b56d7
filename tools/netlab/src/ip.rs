//! The program `ip`, which creates namespaces, devices and addresses.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::Outcome;

/// Runs one command.
pub fn run(arguments: &[&str]) -> Outcome<()> {
    let done = Command::new("ip").args(arguments).output().map_err(no_ip)?;
    succeeded(&done, &arguments.join(" "))
}

/// Runs several commands, one a line, in a network namespace or in the current one.
pub fn batch(namespace: Option<&str>, commands: &str) -> Outcome<()> {
    let mut ip = Command::new("ip");
    if let Some(namespace) = namespace {
        ip.args(["-n", namespace]);
    }
    let ip = ip
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = ip.stdout(Stdio::null()).spawn().map_err(no_ip)?;
    let input = process.stdin.take();
    input.ok_or("no input")?.write_all(commands.as_bytes())?;
    succeeded(&process.wait_with_output()?, commands)
}

fn no_ip(error: std::io::Error) -> String {
    format!("ip: {error} (it is in the package iproute2)")
}

fn succeeded(done: &std::process::Output, what: &str) -> Outcome<()> {
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!("ip {}: {}", what.trim(), said.trim()).into())
}

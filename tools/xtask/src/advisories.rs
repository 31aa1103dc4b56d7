//! `cargo xtask advisories`: known vulnerabilities of dependencies, by cargo-deny. Installed into
//! `target/tools` if it is not there.
//!
//! No part of `cargo xtask ci`: the database changes every day, and a check of a commit must give
//! the same answer tomorrow.

use std::path::PathBuf;
use std::process::Command;

use crate::Outcome;
use crate::black_box::root;

/// The release that `deny.toml` was written for.
const VERSION: &str = "0.20.2";

/// Runs it.
pub fn run() -> Outcome {
    let program = find_or_install()?;
    let status = Command::new(&program)
        .args(["--workspace", "--locked", "check"])
        .current_dir(root())
        .status()
        .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
    match status.success() {
        true => Ok(()),
        false => Err("cargo-deny found advisories, or what deny.toml does not allow".into()),
    }
}

fn find_or_install() -> Result<PathBuf, String> {
    let folder = root().join("target/tools");
    let installed = folder.join("bin/cargo-deny");
    if works(&installed) {
        return Ok(installed);
    }
    if works("cargo-deny".as_ref()) {
        return Ok("cargo-deny".into());
    }
    println!("cargo-deny is not here: installing it into target/tools (a few minutes, once)");
    let status = Command::new("cargo")
        // Without optimisation it is built in half the time, and fast enough.
        .args([
            "install",
            "cargo-deny",
            "--locked",
            "--debug",
            "--version",
            VERSION,
        ])
        .arg("--root")
        .arg(&folder)
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    match status.success() {
        true => Ok(installed),
        false => Err("cargo-deny cannot be installed (no network?)".into()),
    }
}

fn works(program: &std::path::Path) -> bool {
    let version = Command::new(program).arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

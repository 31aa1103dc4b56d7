//! Passes the commit to the binary, if it is known.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=ARCHIPEL_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // This file changes with every commit and checkout.
    let head = root.join(".git/logs/HEAD");
    if head.exists() {
        println!("cargo:rerun-if-changed={}", head.display());
    }
    // Packages are built outside the repository and set the variable.
    let commit = std::env::var("ARCHIPEL_COMMIT").ok().or_else(|| {
        let git = Command::new("git")
            .args(["rev-parse", "--short=12", "HEAD"])
            .current_dir(&root)
            .output()
            .ok()?;
        let commit = String::from_utf8(git.stdout).ok()?;
        git.status.success().then(|| commit.trim().to_owned())
    });
    if let Some(commit) = commit.filter(|commit| !commit.is_empty()) {
        println!("cargo:rustc-env=ARCHIPEL_COMMIT={commit}");
    }
}

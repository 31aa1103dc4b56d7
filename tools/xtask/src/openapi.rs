//! Lints the OpenAPI document. A unit test of the `api` crate checks that the document is current.

use std::fs;
use std::process::Command;

use crate::Outcome;
use crate::black_box::{self, require, root, target_folder};

/// The linter and its version.
const LINTER: &str = "@stoplight/spectral-cli@6.16.3";

/// Lints `docs/openapi.json` by the rules in `docs/openapi-rules.yaml`. Warnings are errors.
pub fn run() -> Outcome {
    let folder = target_folder().join("openapi-linter");
    let stamp = folder.join("version.txt");
    if !fs::read_to_string(&stamp).is_ok_and(|installed| installed == LINTER) {
        require(&[("npm", "npm")])?;
        println!("installing {LINTER} into {}", folder.display());
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        black_box::run(
            Command::new("npm")
                .args(["install", "--silent", "--no-fund", "--no-audit", "--prefix"])
                .arg(&folder)
                .arg(LINTER),
        )?;
        fs::write(&stamp, LINTER).map_err(|e| format!("{}: {e}", stamp.display()))?;
    }
    black_box::run(
        Command::new(folder.join("node_modules/.bin/spectral"))
            .args(["lint", "--fail-severity", "warn", "--ruleset"])
            .args(["docs/openapi-rules.yaml", "docs/openapi.json"])
            .current_dir(root()),
    )
}

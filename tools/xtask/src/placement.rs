//! `placement`: the figures of placement from 3 to 1000 nodes, by the benchmark of
//! `crates/cluster`.

use std::process::Command;

use crate::Outcome;

/// Builds the benchmark optimised, and runs it.
pub fn run() -> Outcome {
    let mut command = Command::new("cargo");
    command.args([
        "bench",
        "--quiet",
        "--package",
        "archipel-cluster",
        "--bench",
        "placement",
    ]);
    let status = command
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("the benchmark of placement: {status}"))
}

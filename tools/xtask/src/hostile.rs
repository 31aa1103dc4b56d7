//! `cargo xtask hostile`: see `tests/security/hostile.py`.

use std::process::Command;

use crate::Outcome;
use crate::black_box::{self, Program};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Connections of an attack that holds connections
    #[arg(long, default_value_t = 2048)]
    connections: u32,
    /// Only this kind of hostility, such as "slow headers" (may be repeated)
    #[arg(long)]
    only: Vec<String>,
}

/// Runs it.
pub fn run(args: &Args) -> Outcome {
    let mut command = Command::new(black_box::python()?);
    command.arg(black_box::root().join("tests/security/hostile.py"));
    command.env("ARCHIPEL_BIN", black_box::build(Program::Archipel)?);
    command.arg("--seconds").arg(args.seconds.to_string());
    command
        .arg("--connections")
        .arg(args.connections.to_string());
    for kind in &args.only {
        command.arg("--only").arg(kind);
    }
    black_box::run(&mut command)
}

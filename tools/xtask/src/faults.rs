//! `cargo xtask faults`: see `tests/faults/run.py`.

use std::process::Command;

use crate::Outcome;
use crate::black_box::{self, Program};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// The kind of faults: at random; disks lost, full or damaged and the layout changed, too; each
    /// node restarted in turn (no request may fail); one zone cut off; one node killed; three nodes
    /// become five and three again (no request may fail); a node comes back after a time away; much
    /// is written and deleted; one of two disks is lost with all its blocks; an access key is
    /// revoked while a node is cut off
    #[arg(long, default_value = "faults", value_parser = ["faults", "losses", "rolling", "cut", "dead", "grow", "return", "space", "disk", "revoke"])]
    scenario: String,
    /// The same as --scenario rolling
    #[arg(long)]
    rolling: bool,
    /// Repeat the random choices of an earlier run; further runs take the following seeds
    #[arg(long)]
    seed: Option<u64>,
    /// The length of each run, in seconds
    #[arg(long, default_value_t = 300)]
    seconds: u32,
    /// The number of runs
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// The number of nodes, each in a zone of its own; with losses and grow there are five, and so
    /// many hold data at first
    #[arg(long, default_value_t = 3)]
    nodes: u32,
    /// Keep logs and history of good runs too
    #[arg(long)]
    keep: bool,
    /// More arguments for the script (`--verbose`, `--log-level debug`, `--dir FOLDER`,
    /// `--objects N`, `--gigabytes N`, `--blocks N`), after `--`
    #[arg(last = true)]
    more: Vec<String>,
}

/// Programs that make the network and break it, with the Debian packages that hold them.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("nsenter", "util-linux"),
    ("faketime", "faketime"),
    ("mount", "mount"),
    ("strace", "strace"),
];

/// Runs it.
pub fn run(args: &Args) -> Outcome {
    black_box::require(PROGRAMS)?;
    let mut command = Command::new(black_box::python()?);
    command.arg(black_box::root().join("tests/faults/run.py"));
    command.env("ARCHIPEL_BIN", black_box::build(Program::Archipel)?);
    let scenario = match args.rolling {
        true => "rolling",
        false => &args.scenario,
    };
    command.args(["--scenario", scenario]);
    command.arg("--seconds").arg(args.seconds.to_string());
    command.arg("--runs").arg(args.runs.to_string());
    command.arg("--nodes").arg(args.nodes.to_string());
    if let Some(seed) = args.seed {
        command.arg("--seed").arg(seed.to_string());
    }
    if args.keep {
        command.arg("--keep");
    }
    black_box::run(command.args(&args.more))
}

//! `cargo xtask power-cuts`: see `tests/durability/power_cuts.py`.

use std::process::Command;

use crate::Outcome;
use crate::black_box::{self, Program};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// The number of cuts, over all file systems
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Only this file system (both by default)
    #[arg(long, value_parser = ["ext4", "xfs"])]
    fs: Option<String>,
    /// The server's promise; with buffered a cut may undo the last second, newest first, and
    /// leaves what remains whole
    #[arg(long, default_value = "fsync", value_parser = ["fsync", "buffered"])]
    durability: String,
    /// The server must not sync, and the run must find losses: shows that the run can fail
    #[arg(long)]
    control: bool,
    /// Repeat the random choices of an earlier run
    #[arg(long)]
    seed: Option<u64>,
}

/// Programs that make and mount file systems, with the Debian packages that hold them.
const PROGRAMS: &[(&str, &str)] = &[
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("losetup", "mount"),
    ("umount", "mount"),
    ("unshare", "util-linux"),
];

/// Runs it.
pub fn run(args: &Args) -> Outcome {
    black_box::require(PROGRAMS)?;
    let mut command = Command::new(black_box::python()?);
    command.arg(black_box::root().join("tests/durability/power_cuts.py"));
    command.env("ARCHIPEL_BIN", black_box::build(Program::Archipel)?);
    command.arg("--rounds").arg(args.rounds.to_string());
    command.arg("--durability").arg(&args.durability);
    if let Some(fs) = &args.fs {
        command.arg("--fs").arg(fs);
    }
    if let Some(seed) = args.seed {
        command.arg("--seed").arg(seed.to_string());
    }
    if args.control {
        command.arg("--control");
    }
    black_box::run(&mut command)
}

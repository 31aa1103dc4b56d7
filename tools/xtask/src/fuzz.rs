//! `cargo xtask fuzz`: the targets of `fuzz/`, which libFuzzer drives.
//!
//! The flags that add coverage counters are those of stable Rust, so that no other toolchain is
//! needed.

use std::path::PathBuf;
use std::process::Command;

use crate::Outcome;
use crate::black_box;

/// The targets: name, the longest input in bytes.
const TARGETS: [(&str, u32); 6] = [
    ("policy", 1024),
    ("s3", 2048),
    ("iam", 1024),
    ("k2v", 1024),
    ("node", 2048),
    ("store", 512),
];

/// LLVM's coverage counters, as libFuzzer reads them.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebuginfo=line-tables-only --cfg fuzzing";

/// With flags for a named platform, build scripts and macros are built without them.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// The time for which each target runs, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Only this target
    #[arg(long, value_parser = ["policy", "s3", "iam", "k2v", "node", "store"])]
    target: Option<String>,
    /// Run this input alone, such as one that a run has left in target/fuzz/findings
    #[arg(long, requires = "target")]
    input: Option<PathBuf>,
}

/// Builds the targets and runs one after another. Stops at the first that fails.
pub fn run(args: &Args) -> Outcome {
    let chosen = |name: &str| args.target.as_deref().is_none_or(|target| target == name);
    for (name, most) in TARGETS.into_iter().filter(|(name, _)| chosen(name)) {
        build(name)?;
        let folder = black_box::root().join("target/fuzz");
        let program = folder.join(PLATFORM).join("checked").join(name);
        let mut command = Command::new(program);
        command.current_dir(black_box::root());
        if let Some(input) = &args.input {
            black_box::run(command.arg(input))?;
            continue;
        }
        let (found, findings) = (folder.join("corpus").join(name), folder.join("findings"));
        for folder in [&found, &findings] {
            std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        command
            .arg(found)
            .arg(format!("fuzz/corpus/{name}"))
            .arg(format!("-artifact_prefix={}/{name}-", findings.display()))
            .arg(format!("-max_total_time={}", args.seconds))
            .arg(format!("-max_len={most}"))
            // One request that takes so long is a finding, too.
            .args(["-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"]);
        let words = black_box::root().join(format!("fuzz/dictionaries/{name}.dict"));
        if words.is_file() {
            command.arg(format!("-dict={}", words.display()));
        }
        println!("{name}: {} s", args.seconds);
        black_box::run(&mut command)?;
    }
    Ok(())
}

fn build(name: &str) -> Outcome {
    let mut command = Command::new("cargo");
    command.current_dir(black_box::root());
    command.args([
        "build",
        "--profile",
        "checked",
        "--locked",
        "-p",
        "archipel-fuzz",
    ]);
    command.args(["--features", "libfuzzer", "--bin", name]);
    command.args(["--target", PLATFORM, "--target-dir"]);
    command.arg(black_box::root().join("target/fuzz"));
    command.env("RUSTFLAGS", FLAGS);
    // Some build scripts take the flags for those of an unstable compiler.
    command.env("RUSTC_BOOTSTRAP", "1");
    black_box::run(&mut command)
}

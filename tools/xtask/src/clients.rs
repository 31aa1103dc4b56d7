//! `cargo xtask clients`: the server as a process, and the S3 clients that people have.
//!
//! The tests are Python (`tests/`) because the clients are; this builds the server, provides the
//! clients, and tells how it went.

use std::process::Command;

use crate::Outcome;
use crate::black_box::{self, Program};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Only the tests whose name matches this pytest expression
    #[arg(short = 'k', long)]
    select: Option<String>,
    /// Test this S3 endpoint (a URL) and no server of our own; needs --access-key and --secret-key
    #[arg(long, requires_all = ["access_key", "secret_key"])]
    endpoint: Option<String>,
    /// The access key for --endpoint
    #[arg(long)]
    access_key: Option<String>,
    /// The secret key for --endpoint
    #[arg(long)]
    secret_key: Option<String>,
    /// The region of --endpoint
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// Instead: a file of 5 GiB and 100,000 small ones through rclone, up and down, with the
    /// server's memory (about 10 minutes)
    #[arg(long)]
    big: bool,
    /// More arguments for pytest (or, with --big, for the script), after `--`
    #[arg(last = true)]
    more: Vec<String>,
}

/// Programs that the tests drive, with the Debian packages that hold them.
const PROGRAMS: &[(&str, &str)] = &[
    ("rclone", "rclone"),
    ("restic", "restic"),
    ("strace", "strace"),
    ("dnsmasq", "dnsmasq-base"),
];

/// Tests that mostly wait, for flushes, expiry and restarts: four processes, each with a server of
/// its own, share them out.
const SIDE_BY_SIDE: &[&str] = &["--numprocesses=4", "--dist=worksteal", "--deselect=faults"];

/// Tests that start clusters under load, which keep two cores busy.
const ALONE: &[&str] = &["faults"];

/// Runs it.
pub fn run(args: &Args) -> Outcome {
    black_box::require(PROGRAMS)?;
    let python = black_box::python()?;
    let server = match &args.endpoint {
        Some(endpoint) => ("ARCHIPEL_DEMO_JSON", described(args, endpoint).into()),
        None => (
            "ARCHIPEL_BIN",
            black_box::build(Program::Archipel)?.into_os_string(),
        ),
    };
    if !args.big {
        build_object_store_tests()?;
    }
    for arguments in runs(args) {
        let mut command = Command::new(&python);
        command.current_dir(black_box::root().join("tests"));
        black_box::run(command.env(server.0, &server.1).args(arguments))?;
    }
    println!("clients: passed");
    Ok(())
}

/// Returns the arguments of Python, run by run: two runs for all tests, one for a choice of them or
/// for another server.
fn runs(args: &Args) -> Vec<Vec<String>> {
    let owned = |list: &[&str]| -> Vec<String> { list.iter().map(|&one| one.into()).collect() };
    if args.big {
        return vec![[&owned(&["durability/big_data.py"])[..], &args.more].concat()];
    }
    let usual = pytest_arguments(args);
    let is_all = args.select.is_none() && args.endpoint.is_none() && args.more.is_empty();
    if !is_all {
        return vec![usual];
    }
    let with = |more: &[&str]| [&usual[..], &owned(more)].concat();
    vec![with(SIDE_BY_SIDE), with(ALONE)]
}

fn pytest_arguments(args: &Args) -> Vec<String> {
    let mut list: Vec<String> = ["-m", "pytest", "-q", "--durations=5"]
        .map(str::to_owned)
        .into();
    if args.endpoint.is_some() {
        list.extend(["-m", "not process"].map(str::to_owned));
    }
    if let Some(select) = &args.select {
        list.extend(["-k".to_owned(), select.clone()]);
    }
    list.extend(args.more.iter().cloned());
    list
}

/// Returns the endpoint in the words of `archipel demo --json`.
fn described(args: &Args, endpoint: &str) -> String {
    serde_json::json!({
        "endpoint": endpoint.trim_end_matches('/'),
        "region": args.region,
        "access_key": args.access_key,
        "secret_key": args.secret_key,
        "bucket": "",
        "nodes": [],
    })
    .to_string()
}

/// Builds them ahead of the tests, so that compiling does not count as their time.
fn build_object_store_tests() -> Outcome {
    let project = black_box::root().join("tests/object_store");
    let target = black_box::target_folder().join("object-store-tests");
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["test", "--quiet", "--no-run"])
        .current_dir(project)
        .env("CARGO_TARGET_DIR", target);
    black_box::run(&mut build)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Args, runs};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn of(line: &[&str]) -> Vec<Vec<String>> {
        let words = std::iter::once(&"clients").chain(line);
        runs(&Line::try_parse_from(words).unwrap().args)
    }

    #[test]
    fn all_tests_run_in_two_parts_that_leave_none_out() {
        let [side_by_side, alone] = &of(&[])[..] else {
            panic!("not two runs");
        };
        assert!(side_by_side.contains(&"--deselect=faults".into()));
        assert_eq!(alone.last().map(String::as_str), Some("faults"));
    }

    #[test]
    fn a_choice_of_tests_or_another_server_is_one_run_in_one_process() {
        let other = ["--endpoint=u", "--access-key=k", "--secret-key=s"];
        for line in [&["-k", "copy"][..], &other, &["--", "s3"], &["--big"]] {
            let [only] = &of(line)[..] else {
                panic!("not one run: {line:?}");
            };
            assert!(!only.iter().any(|word| word.contains("numprocesses")));
        }
    }
}

//! `cargo xtask clients`: the release binary as a process, and the S3 clients that people have.
//!
//! The tests are Python (`tests/`) because the clients are; this builds the server, provides the clients, and tells how it went.

use std::process::Command;

use crate::{Outcome, black_box};

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
    /// Instead: a file of 5 GiB and 100,000 small ones through rclone, up and down, with the server's memory (about 10 minutes)
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
];

/// Runs it.
pub fn run(args: &Args) -> Outcome {
    black_box::require(PROGRAMS)?;
    let mut command = Command::new(black_box::python()?);
    command.current_dir(black_box::root().join("tests"));
    match &args.endpoint {
        Some(endpoint) => {
            command.env("ARCHIPEL_DEMO_JSON", described(args, endpoint));
        }
        None => {
            command.env("ARCHIPEL_BIN", black_box::server_binary()?);
        }
    }
    if args.big {
        command.arg("durability/big_data.py").args(&args.more);
    } else {
        build_object_store_tests()?;
        command.args(pytest_arguments(args));
    }
    black_box::run(&mut command)?;
    println!("clients: passed");
    Ok(())
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

/// The endpoint in the words of `archipel demo --json`.
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

/// Ahead of the tests, so that compiling does not count as their time.
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

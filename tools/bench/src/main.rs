//! HTTP load against any S3 endpoint, each figure beside its limit, measured in the same run.
//!
//! Nothing of the server is linked here: what is measured is what a client sees over HTTP, what the server says of itself
//! on its metrics address, and what the kernel says of its process.
//!
//! - [`node`]: the runs, and what they are for
//! - [`endpoint`]: the server under load: one that is started here, or one that exists
//! - [`http`], [`body`]: a minimal client: one connection, signed URLs, bodies that never repeat
//! - [`load`]: many clients for a fixed time; throughput and latencies
//! - [`limits`]: what disk and processor could do at best
//! - [`process`]: processor time of a process
//! - [`report`]: the table and the JSON

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod body;
mod endpoint;
mod http;
mod limits;
mod load;
mod node;
mod process;
mod report;

#[derive(Parser)]
#[command(about = "Load against an S3 endpoint, each figure beside its limit")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One node: small durable PUTs, 1 MiB and 64 MiB PUT and GET on disk and on tmpfs (about 3 minutes)
    Node(node::Args),
}

/// What a run says when it cannot go on.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let Command::Node(args) = Cli::parse().command;
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(node::run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.as_ref()),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("failed: {error}");
    ExitCode::FAILURE
}

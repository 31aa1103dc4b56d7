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
//! - [`experiments`]: what is asked of stores over distance, under load and with many objects
//! - [`s3`], [`results`], [`machine`]: any request, timed; what was found, and where
//! - [`lab`]: experiments on servers that are started in an emulated network, ours and others
//! - [`process`]: processor time of a process
//! - [`page`]: results as one page, with plots
//! - [`report`]: the table and the JSON of `node`

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod body;
mod endpoint;
mod experiments;
mod http;
mod lab;
mod limits;
mod load;
mod machine;
mod node;
mod page;
mod process;
mod report;
mod results;
mod s3;

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
    /// One request at a time: how many round trips each kind takes
    Lat(experiments::lat::Args),
    /// When the first byte of a large object comes
    Ttfb(experiments::ttfb::Args),
    /// Batches of tiny objects: whether a store becomes slower as they become many
    Billion(experiments::billion::Args),
    /// Many clients that read, ask for, store and remove objects
    Mixed(experiments::mixed::Args),
    /// All keys of a bucket, page after page
    List(experiments::list::Args),
    /// Small reads while a large object is being stored
    Beside(experiments::beside::Args),
    /// Start Archipel in an emulated network and run an experiment there (needs root)
    Lab(lab::Args),
    /// The same experiment on Archipel and others, in turn, in the same network (needs root)
    Peers(lab::PeersArgs),
    /// The same experiment on Archipel with each metadata engine, in turn, in the same network (needs root)
    Engines(lab::EnginesArgs),
    /// The same experiment on Archipel with more and more nodes at three sites (needs root)
    Scale(lab::scale::Args),
    /// Results as one page, with plots
    Report(page::Args),
}

impl Command {
    async fn run(&self) -> Outcome<()> {
        match self {
            Self::Node(args) => node::run(args).await,
            Self::Lat(args) => experiments::lat::run(args).await,
            Self::Ttfb(args) => experiments::ttfb::run(args).await,
            Self::Billion(args) => experiments::billion::run(args).await,
            Self::Mixed(args) => experiments::mixed::run(args).await,
            Self::Beside(args) => experiments::beside::run(args).await,
            Self::List(args) => experiments::list::run(args).await,
            Self::Lab(args) => lab::run(args).await,
            Self::Peers(args) => lab::peers(args).await,
            Self::Engines(args) => lab::engines(args).await,
            Self::Scale(args) => lab::scale::run(args),
            Self::Report(args) => page::run(args),
        }
    }
}

/// What a run says when it cannot go on.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.as_ref()),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("failed: {error}");
    ExitCode::FAILURE
}

//! HTTP load against any S3 endpoint. Each figure stands beside its limit, measured in the same
//! run.
//!
//! No code of the server is linked here. The figures are those that a client sees over HTTP, that
//! the server reports as metrics, and that the kernel reports of its process.
//!
//! - [`node`]: the loads on one node, and their purpose
//! - [`endpoint`]: the server under load, started here or existing
//! - [`http`], [`body`]: a minimal client: one connection, signed URLs, bodies that never repeat
//! - [`load`]: many clients for a fixed time; throughput and latencies
//! - [`limits`]: the limits of disk and processor
//! - [`experiments`]: experiments over distance, under load and with many objects
//! - [`s3`], [`k2v`]: any request, timed
//! - [`results`], [`machine`]: the results and their machine
//! - [`lab`]: experiments on servers started in an emulated network, Archipel and others
//! - [`process`]: processor time of a process
//! - [`volume`]: a file system of a server's own
//! - [`page`]: results as one page, with plots
//! - [`report`]: the table and the JSON of `node`

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

mod body;
mod endpoint;
mod experiments;
mod http;
mod k2v;
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
mod volume;

#[derive(Parser)]
#[command(about = "Load against an S3 endpoint; each figure stands beside its limit")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load one node: small durable PUTs, then 1 MiB and 64 MiB PUT and GET (about 3 minutes)
    Node(node::Args),
    /// Send one request at a time: the number of round trips of each kind
    Lat(experiments::lat::Args),
    /// Measure the time to the first byte of a large object
    Ttfb(experiments::ttfb::Args),
    /// Store batches of tiny objects: the speed as the number of objects grows
    Billion(experiments::billion::Args),
    /// Run many clients that read, query, store and remove objects
    Mixed(experiments::mixed::Args),
    /// List all keys of a bucket, page by page
    List(experiments::list::Args),
    /// Read small objects while a large one is being stored
    Beside(experiments::beside::Args),
    /// Store versions: the speed beside that without them, and of a key with many
    Versioned(experiments::versioned::Args),
    /// Measure clients while a lifecycle rule deletes many objects
    Expiry(experiments::expiry::Args),
    /// Store and read with encryption at rest, beside the same without it
    Encrypted(experiments::encrypted::Args),
    /// Insert, read and poll small items at K2V endpoints
    K2v(experiments::k2v::Args),
    /// Count the flushes and the bytes that reach the disk for a PUT (needs root)
    Disk(experiments::disk::Args),
    /// Store many objects on a node with little memory or a slow disk (needs root)
    SmallMachine(experiments::small_machine::Args),
    /// Start Archipel in an emulated network and run an experiment there (needs root)
    Lab(lab::Args),
    /// Run the same experiment on Archipel and others, in turn, in the same network (needs root)
    Peers(lab::PeersArgs),
    /// Run the same experiment on Archipel with each metadata engine, in turn, in the same network
    /// (needs root)
    Engines(lab::EnginesArgs),
    /// Run the same experiment on Archipel with plain HTTP and with TLS, in turn, in the same network
    /// (needs root)
    Tls(lab::TlsArgs),
    /// Run the same experiment on Archipel with more and more nodes at three sites (needs root)
    Scale(lab::scale::Args),
    /// Render results as one page, with plots
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
            Self::Versioned(args) => experiments::versioned::run(args).await,
            Self::Expiry(args) => experiments::expiry::run(args).await,
            Self::Encrypted(args) => experiments::encrypted::run(args).await,
            Self::K2v(args) => experiments::k2v::run(args).await,
            Self::Disk(args) => experiments::disk::run(args).await,
            Self::SmallMachine(args) => experiments::small_machine::run(args).await,
            Self::List(args) => experiments::list::run(args).await,
            Self::Lab(args) => lab::run(args).await,
            Self::Peers(args) => lab::peers(args).await,
            Self::Engines(args) => lab::engines(args).await,
            Self::Tls(args) => lab::tls(args).await,
            Self::Scale(args) => lab::scale::run(args),
            Self::Report(args) => page::run(args),
        }
    }
}

/// The result of a run, with an error text.
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
    let outcome = runtime.block_on(async {
        // Servers, networks and file systems that a dropped experiment started end with it.
        tokio::select! {
            outcome = command.run() => outcome,
            outcome = interrupted() => outcome,
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.as_ref()),
    }
}

/// Fails when the process is told to end.
async fn interrupted() -> Outcome<()> {
    let mut end = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = end.recv() => {}
    }
    Err("interrupted".into())
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("failed: {error}");
    ExitCode::FAILURE
}

//! The daemon and the command line. The only crate that reads settings from files and the
//! environment.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cli`] | commands and their arguments |
//! | [`config`] | settings: read, checked, typed |
//! | [`client`], [`socket`] | the admin API's client, local sockets |
//! | [`node`], [`storage`], [`doors`] | a running node: storage, model and doors wired together |
//! | [`network`] | the way to other nodes |
//! | [`server`], [`demo`] | the commands that run one |
//! | [`identity`], [`lock`], [`disks`] | what is unique to a node: its key, its folder, its disks |
//! | [`drain`], [`snapshots`] | empties disks that leave; snapshots of the metadata |
//! | [`logs`], [`metrics`], [`status`], [`process`], [`version`] | operation |
//! | [`unsafe_no_fsync`] | the control of the power-cut tests |

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

mod cli;
mod client;
mod config;
mod demo;
mod disks;
mod doors;
mod drain;
mod identity;
mod lock;
mod logs;
mod metrics;
mod network;
mod node;
mod process;
mod server;
mod snapshots;
mod socket;
mod status;
mod storage;
mod unsafe_no_fsync;
mod version;

#[cfg(test)]
mod tests;

use cli::{Cli, Command, ConfigCommand};
use client::Failure;

fn main() -> ExitCode {
    let command = match Cli::parse().command {
        Command::Verify(args) => return cli::verify::exit(ask(cli::verify::run(args))),
        command => command,
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If nobody reads standard error any more, the exit status still says it.
            let _ = writeln!(io::stderr(), "error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Server(args) => server::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bucket { target, command } => ask(cli::bucket::run(&target, command)),
        Command::Key { target, command } => ask(cli::key::run(&target, command)),
        Command::Node { target, command } => ask(cli::node::run(&target, command)),
        Command::Layout { target, command } => ask(cli::layout::run(&target, command)),
        Command::Status { target } => ask(cli::status::run(&target)),
        Command::Scrub { target, command } => ask(cli::scrub::run(&target, command)),
        Command::Snapshot { target, command } => ask(cli::snapshot::run(&target, command)),
        Command::Repair { target, command } => ask(cli::repair::run(&target, command)),
        // Has an exit status of its own: see `main`.
        Command::Verify(args) => ask(cli::verify::run(args)).map(|_| ()),
        Command::Config { command } => match command {
            ConfigCommand::Check(args) => server::check(&args),
            ConfigCommand::Example => cli::table::text(config::EXAMPLE.trim_end()),
        },
    }
}

/// Runs a command that talks to a server: one thread is enough.
fn ask<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure(error.to_string()))?;
    runtime.block_on(command)
}

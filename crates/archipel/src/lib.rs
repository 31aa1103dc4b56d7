//! The daemon and the command line. Only this crate reads settings from files and the environment.
//!
//! It is a library, and the program one line, so that the compiler works on it beside the crates
//! that it uses: a program is compiled only once all of them are.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cli`] | commands and their arguments |
//! | [`config`] | settings: read, checked, typed |
//! | [`client`], [`socket`] | the client of the admin API, local sockets |
//! | [`node`], [`storage`], [`model`], [`endpoints`] | a running node: storage, model and endpoints, wired together |
//! | [`listeners`] | the addresses for users' clients |
//! | [`network`], [`discovery`] | the network between nodes; looking nodes up |
//! | [`founding`], [`first_start`] | who founds a cluster alone; the first bucket and access key |
//! | [`server`], [`demo`] | the commands that run nodes |
//! | [`init`] | the command that writes a configuration |
//! | [`identity`], [`lock`], [`disks`] | the identity of a node: its key, its folder, its disks |
//! | [`background`] | the work of a node beside its endpoints |
//! | [`login_link`] | links to the web console |
//! | [`drain`], [`snapshots`] | moving blocks off disks; snapshots of the metadata |
//! | [`metadata`] | changing the engine of the metadata; rebuilding the index of blocks |
//! | [`certificates`], [`acme`] | TLS for users and operators; certificates from an authority |
//! | [`audit`], [`event_targets`], [`traces`] | the targets of the audit log, of events, and of traces |
//! | [`keyring`] | what opens the keyring |
//! | [`logs`], [`metrics`], [`status`], [`process`], [`version`] | operation |
//! | [`unsafe_no_fsync`] | the deliberately unsafe mode that the power-cut tests must detect |

use std::process::ExitCode;

use clap::FromArgMatches;

mod acme;
mod audit;
mod background;
mod certificates;
mod cli;
mod client;
mod config;
mod demo;
mod discovery;
mod disks;
mod drain;
mod endpoints;
mod event_targets;
mod first_start;
mod founding;
mod identity;
mod init;
mod keyring;
mod listeners;
mod lock;
mod login_link;
mod logs;
mod metadata;
mod metrics;
mod model;
mod network;
mod node;
mod process;
mod server;
mod snapshots;
mod socket;
mod status;
mod storage;
mod traces;
mod unsafe_no_fsync;
mod version;

#[cfg(test)]
mod tests;

use cli::{Cli, Command, ConfigCommand};
use client::Failure;

/// Reads the arguments of the process.
///
/// # Errors
/// The help that is asked for, or why the arguments are not understood.
fn command_line() -> Result<Cli, clap::Error> {
    let mut definition = cli::examples::definition();
    let matches = definition.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))
}

/// Runs the command that the arguments of the process name. Returns its exit status.
pub fn main() -> ExitCode {
    let command = match command_line() {
        Ok(Cli { command }) => command,
        Err(wrong) => return cli::failure::command_line(&wrong),
    };
    match run(command) {
        Ok(status) => status,
        Err(failure) => {
            cli::failure::print(&failure);
            failure.exit()
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    let done = match command {
        Command::Verify(args) => return Ok(cli::verify::exit(ask(cli::verify::run(args)))),
        Command::Server(args) => server::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bucket { target, command } => ask(cli::bucket::run(&target, command)),
        Command::Website { target, command } => ask(cli::website::run(&target, command)),
        Command::Key { target, command } => ask(cli::key::run(&target, command)),
        Command::User { target, command } => ask(cli::user::run(&target, command)),
        Command::Group { target, command } => ask(cli::group::run(&target, command)),
        Command::Role { target, command } => ask(cli::role::run(&target, command)),
        Command::Policy { target, command } => ask(cli::policy::run(&target, command)),
        Command::IdentityProvider { target, command } => ask(cli::provider::run(&target, command)),
        Command::K2v { endpoint, command } => ask(cli::k2v::run(&endpoint, command)),
        Command::Access { target, command } => ask(cli::access::run(&target, command)),
        Command::Token { target, command } => ask(cli::token::run(&target, command)),
        Command::Console { target } => ask(cli::console::run(&target)),
        Command::Node { target, command } => ask(cli::node::run(&target, command)),
        Command::Layout { target, command } => ask(cli::layout::run(&target, command)),
        Command::Event { target, command } => ask(cli::event::run(&target, command)),
        Command::Certificate { target, command } => ask(cli::certificate::run(&target, command)),
        Command::Keyring { target, command } => ask(cli::keyring::run(&target, command)),
        Command::Lifecycle { target, command } => ask(cli::lifecycle::run(&target, command)),
        Command::AntiEntropy { target, command } => ask(cli::anti_entropy::run(&target, command)),
        Command::Status { target } => ask(cli::status::run(&target)),
        Command::Scrub { target, command } => ask(cli::scrub::run(&target, command)),
        Command::Block { target, command } => ask(cli::block::run(&target, command)),
        Command::Snapshot { target, command } => ask(cli::snapshot::run(&target, command)),
        Command::Metadata { command } => cli::metadata::run(command),
        Command::Repair { target, command } => ask(cli::repair::run(&target, command)),
        Command::Metric { target, command } => ask(cli::metric::run(&target, command)),
        Command::Operation { target, command } => ask(cli::operation::run(&target, command)),
        Command::Audit(args) => ask(cli::audit::run(&args)),
        Command::Top(args) => ask(cli::top::run(&args)),
        Command::Completions { shell } => cli::generate::completions(shell),
        Command::Man { dir } => cli::generate::manual(dir.as_deref()),
        Command::Config { command } => match command {
            ConfigCommand::Check(args) => server::check(&args),
            ConfigCommand::Example => cli::table::document(config::EXAMPLE.trim_end()),
        },
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Runs a command that talks to a server. One thread is enough.
fn ask<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(error.to_string()))?;
    let done = runtime.block_on(command);
    if matches!(&done, Err(failure) if failure.is_interrupted()) {
        // To drop it would wait for a look-up of a name, which no second Ctrl-C could end.
        runtime.shutdown_background();
    }
    done
}

//! The command line: what can be asked, and where it goes.
//!
//! | module | what it holds |
//! |---|---|
//! | [`target`] | which server a command talks to |
//! | [`bucket`], [`key`], [`status`] | commands for a running server |
//! | [`node`], [`layout`] | the same, for the cluster that it is in |
//! | [`healing`] | how far a node is with what it missed, in a line |
//! | [`scrub`], [`verify`], [`repair`], [`snapshot`] | the same, for the care of what is stored |
//! | [`progress`] | how far something is |
//! | [`table`] | tables for people |

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub mod bucket;
pub mod healing;
pub mod key;
pub mod layout;
pub mod node;
pub mod progress;
pub mod repair;
pub mod scrub;
pub mod snapshot;
pub mod status;
pub mod table;
pub mod target;
pub mod verify;

/// Archipel: an S3-compatible object store for machines that are far apart.
#[derive(Parser)]
#[command(name = "archipel", version = crate::version::LONG.as_str(), after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  archipel demo                                     a throw-away server with a bucket and a key
  archipel config example > archipel.toml           a configuration to start from
  archipel server --config archipel.toml            the server
  archipel bucket create photos                     on the server of this machine
  archipel key create laptop
  archipel key allow AK... --bucket photos --read --write
  archipel node list                                who is there, and who is to be assigned
  archipel layout assign 0badcafe --zone paris --capacity 500GB
  archipel layout show                              what that would move, and how to apply it";

/// What can be asked.
#[derive(Subcommand)]
pub enum Command {
    /// Run a node until SIGINT or SIGTERM
    Server(ServerArgs),
    /// Run three nodes with a bucket and a key, and print how to use them
    Demo(DemoArgs),
    /// Create, list, show and delete buckets
    Bucket {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// What to do.
        #[command(subcommand)]
        command: bucket::Command,
    },
    /// Create, import, list, show and delete access keys; allow and deny
    Key {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// What to do.
        #[command(subcommand)]
        command: key::Command,
    },
    /// Show the node's id, join other nodes, list them
    Node {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// What to do.
        #[command(subcommand)]
        command: node::Command,
    },
    /// Show and change who holds what, in steps: assign, show, apply
    Layout {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// What to do.
        #[command(subcommand)]
        command: layout::Command,
    },
    /// Show a running node: version, cluster, disks, troubles
    Status {
        /// The server.
        #[command(flatten)]
        target: target::Target,
    },
    /// Read and verify everything that the server stores: start, show, stop
    Scrub {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// What to do.
        #[command(subcommand)]
        command: scrub::Command,
    },
    /// Have all nodes prove that what they hold is whole; the exit status is 0 if it is, 1 if not, 2 if not all could be checked
    Verify(verify::VerifyArgs),
    /// Tell what is wrong, what the cluster does about it and what is to be done; mend
    Repair {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// What to do; without it: tell.
        #[command(subcommand)]
        command: Option<repair::Command>,
    },
    /// Make snapshots of the metadata, list them, put one back (on a node that is alone)
    Snapshot {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// What to do.
        #[command(subcommand)]
        command: snapshot::Command,
    },
    /// Check a configuration, or print a commented one
    Config {
        /// What to do.
        #[command(subcommand)]
        command: ConfigCommand,
    },
}

/// `archipel server`
#[derive(Args)]
pub struct ServerArgs {
    /// The configuration file
    #[arg(long, short, env = "ARCHIPEL_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `archipel demo`
#[derive(Args)]
pub struct DemoArgs {
    /// Where to keep the data; what is there from an earlier demo is used again
    #[arg(long, default_value = "demo-data", value_name = "FOLDER")]
    pub dir: PathBuf,
    /// The port for S3, on 127.0.0.1; further nodes take the next ones; 0 takes free ones
    #[arg(long, default_value_t = 3900)]
    pub port: u16,
    /// How many nodes to run, each in a zone of its own; 1 runs in this very process
    #[arg(long, default_value_t = 3)]
    pub nodes: u32,
    /// Print one line of JSON once the node is ready, for scripts
    #[arg(long)]
    pub json: bool,
}

/// `archipel config`
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Say what is wrong with a configuration, or that nothing is
    Check(ServerArgs),
    /// Print all settings with their defaults and comments
    Example,
}

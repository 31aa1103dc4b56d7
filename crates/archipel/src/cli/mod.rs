//! The command line: commands, arguments, and their output.
//!
//! | module | what it holds |
//! |---|---|
//! | [`target`] | the server that a command talks to |
//! | [`start`] | the arguments of commands that run a server, or look at its settings |
//! | [`bucket`], [`website`], [`key`], [`access`], [`status`] | commands for a running server |
//! | [`user`], [`group`], [`role`], [`policy`] | identities and their policies |
//! | [`provider`] | identity providers of OpenID Connect |
//! | [`settings`] | versions, object lock, tags and lifecycle rules of a bucket |
//! | [`rules`] | event notifications and CORS rules of a bucket |
//! | [`protection`] | encryption, public access and ownership of a bucket |
//! | [`quota`] | the most that a bucket may hold |
//! | [`content`] | incomplete uploads and single objects of a bucket |
//! | [`token`] | tokens of the admin API |
//! | [`console`] | links to the web console |
//! | [`node`], [`layout`] | commands for the cluster of the server |
//! | [`init`] | the arguments of `archipel init` |
//! | [`k2v`] | a client of the K2V API |
//! | [`keyring`] | the keyring of encryption |
//! | [`lifecycle`] | the effect of lifecycle rules; a walk now |
//! | [`event`] | the targets of event notifications |
//! | [`anti_entropy`] | the rows and blocks that a node must still fetch; a comparison now |
//! | [`audit`], [`metric`], [`certificate`] | lines of the audit log, metrics, certificates |
//! | [`block`] | single blocks |
//! | [`operation`] | everything that goes on in the background |
//! | [`scrub`], [`verify`], [`repair`], [`snapshot`] | the maintenance of stored data |
//! | [`metadata`] | commands for the metadata of a stopped server |
//! | [`progress`] | progress on standard error |
//! | [`top`] | a live view |
//! | [`filter`], [`deletion`] | common options of lists, and of deletions |
//! | [`failure`], [`escape`] | errors on standard error; text from elsewhere, safe for a terminal |
//! | [`generate`] | shell completions and manual pages |
//! | [`examples`] | the definition of the command line, with an example of each command |
//! | [`table`], [`terminal`] | tables for people; width and colours |

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub mod access;
pub mod anti_entropy;
pub mod audit;
pub mod block;
pub mod bucket;
pub mod certificate;
pub mod console;
pub mod content;
pub mod deletion;
pub mod escape;
pub mod event;
pub mod examples;
pub mod failure;
pub mod filter;
pub mod generate;
pub mod group;
pub mod init;
pub mod k2v;
pub mod key;
pub mod keyring;
pub mod layout;
pub mod lifecycle;
pub mod metadata;
pub mod metric;
pub mod node;
pub mod operation;
pub mod policy;
pub mod progress;
pub mod protection;
pub mod provider;
pub mod quota;
pub mod repair;
pub mod role;
pub mod rules;
pub mod scrub;
pub mod settings;
pub mod snapshot;
pub mod start;
pub mod status;
pub mod table;
pub mod target;
pub mod terminal;
pub mod token;
pub mod top;
pub mod user;
pub mod verify;
pub mod website;

pub use start::{CheckArgs, ConfigCommand, DemoArgs, ServerArgs};

/// Archipel: an S3-compatible object store for machines that are far apart.
#[derive(Parser)]
#[command(name = "archipel", version = crate::version::LONG.as_str(), after_help = EXAMPLES)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  archipel demo                                     a demo cluster with a bucket and a key
  archipel init                                     a few questions, and a configuration
  archipel server --config archipel.toml            the server
  archipel bucket create photos                     on the server on this machine
  archipel key create laptop
  archipel key allow AK... --bucket photos --read --write
  archipel node list                                the nodes, and which of them hold no data yet
  archipel layout assign 0badcafe --zone paris --capacity 500GiB
  archipel layout show                              the effect of that, and the command to apply it
  archipel completions bash > /etc/bash_completion.d/archipel

Exit status: 0 for success; 1 if the command failed, or found what it looks for to be wrong; 2 for a
wrong command line, and of verify if a part could not be checked or it was stopped; 130 if Ctrl-C
ended a wait, while the work goes on. Errors are texts on standard error; with --json they are
problem documents with a code and a detail.";

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Run a node until SIGINT or SIGTERM
    Server(ServerArgs),
    /// Ask a few questions and write a configuration with new secrets
    Init(init::InitArgs),
    /// Run three nodes with a bucket and a key, and print how to use them
    Demo(DemoArgs),
    /// Create, list, show, publish and delete buckets; their settings
    Bucket {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: bucket::Command,
    },
    /// Make buckets websites: enable, redirect, show, disable
    Website {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: website::Command,
    },
    /// Create, import, list, show, rename, disable and delete access keys; allow and deny
    Key {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: key::Command,
    },
    /// Create, list, show, disable and delete users; their policies and access keys
    User {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: user::Command,
    },
    /// Create, list, show and delete groups of users; their users and policies
    Group {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: group::Command,
    },
    /// Create, list, show and delete roles, which others assume for some time
    Role {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: role::Command,
    },
    /// Create, list, show, replace and delete managed policies
    Policy {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: policy::Command,
    },
    /// List, show, create, change and delete identity providers, whose tokens roles trust
    IdentityProvider {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: provider::Command,
    },
    /// Read, insert, delete and poll K2V items; list partition keys
    K2v {
        /// The K2V server, and the key to use.
        #[command(flatten)]
        endpoint: k2v::Endpoint,
        /// The command.
        #[command(subcommand)]
        command: k2v::Command,
    },
    /// Explain who may do what
    Access {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: access::Command,
    },
    /// Create, list, show and revoke tokens of the admin API
    Token {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: token::Command,
    },
    /// Print a link that logs in to the node's web console, once, with all rights
    Console {
        /// The server.
        #[command(flatten)]
        target: target::Target,
    },
    /// Show the node's id, join other nodes, list them
    Node {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: node::Command,
    },
    /// Show and change the layout, in steps: assign, show, apply
    Layout {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: layout::Command,
    },
    /// Show the targets of event notifications
    Event {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: event::Command,
    },
    /// Show the certificates that the nodes get from an authority
    Certificate {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: certificate::Command,
    },
    /// Show the keys that protect encrypted objects and secrets, or make a new one
    Keyring {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: keyring::Command,
    },
    /// Show what lifecycle rules removed, and when they are applied next; apply them now
    Lifecycle {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: lifecycle::Command,
    },
    /// Compare the server's data with those of the other nodes now
    AntiEntropy {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: anti_entropy::Command,
    },
    /// List everything that goes on in the background, with its progress; cancel it
    Operation {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: operation::Command,
    },
    /// Show the newest lines of the server's audit log
    Audit(audit::AuditArgs),
    /// List the metrics of the server
    Metric {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: metric::Command,
    },
    /// Show the nodes, their traffic and their repairs, again and again
    Top(top::TopArgs),
    /// Show a running node: version, cluster, disks, problems. Exit status 1 if the node has
    /// problems, or a part of the data can be neither read nor written
    Status {
        /// The server.
        #[command(flatten)]
        target: target::Target,
    },
    /// Read and verify all data of the server: start, show, stop
    Scrub {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: scrub::Command,
    },
    /// Verify the data of all nodes. Exit status: 0 if all is well, 1 if not, 2 if a part could not
    /// be checked or it was stopped
    Verify(verify::VerifyArgs),
    /// Show problems, what the cluster does about them, and what you can do; repair blocks. Exit
    /// status 1 if damaged blocks could not be repaired, or if a node did not read all its blocks
    Repair {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command. Without one, problems are shown.
        #[command(subcommand)]
        command: Option<repair::Command>,
    },
    /// Show the nodes that have a block, and the objects that refer to it
    Block {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: block::Command,
    },
    /// Make, list and restore snapshots of the metadata (restore only on a node without a cluster)
    Snapshot {
        /// The server.
        #[command(flatten)]
        target: target::Target,
        /// The command.
        #[command(subcommand)]
        command: snapshot::Command,
    },
    /// Work on the metadata of a stopped server: change its engine, rebuild the index of its blocks
    Metadata {
        /// The command.
        #[command(subcommand)]
        command: metadata::Command,
    },
    /// Print a script that completes commands in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all commands
    Man {
        /// The folder for the pages of all commands
        #[arg(long, value_name = "FOLDER")]
        dir: Option<PathBuf>,
    },
    /// Check a configuration, or print a commented one
    Config {
        /// The command.
        #[command(subcommand)]
        command: ConfigCommand,
    },
}

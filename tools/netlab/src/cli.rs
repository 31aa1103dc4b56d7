//! The commands and their arguments.

use clap::{Args, Parser, Subcommand};
use netlab::topology::LinkSpec;

/// Emulated networks of real processes, on one machine. Needs root.
#[derive(Parser)]
#[command(name = "netlab", version)]
pub struct Cli {
    /// The lab, if more than one is up
    #[arg(long, global = true, env = "NETLAB")]
    pub lab: Option<String>,
    #[command(subcommand)]
    pub todo: Todo,
}

/// What to do.
#[derive(Subcommand)]
pub enum Todo {
    /// Bring a lab up; it stays until `down`
    Up {
        /// A topology file, or the name of a preset
        file: String,
    },
    /// Bring a lab up, run a command, take everything down, whatever happens
    Run {
        /// A topology file, or the name of a preset
        file: String,
        /// The command; it reaches the nodes by `netlab exec`
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run a command in a node's network
    Exec {
        /// The node
        node: String,
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Round trips between two nodes
    Ping {
        /// From here
        a: String,
        /// To there and back
        b: String,
        /// How many, 20 ms apart
        #[arg(long, default_value_t = 5)]
        probes: u32,
    },
    /// Change the links between two nodes or sites
    Set {
        #[command(flatten)]
        links: Links,
        #[command(flatten)]
        quality: QualityArgs,
    },
    /// Let nothing through between two nodes or sites
    Cut {
        #[command(flatten)]
        links: Links,
    },
    /// Undo `cut`: between two nodes or sites, or everywhere
    Heal {
        #[arg(requires = "b")]
        a: Option<String>,
        b: Option<String>,
        /// Only from the first to the second
        #[arg(long)]
        one_way: bool,
    },
    /// What the links carry, every second
    Show {
        /// Only once
        #[arg(long)]
        once: bool,
    },
    /// Take a lab down, also what a crash left behind; without a name all
    Down {
        /// The lab
        name: Option<String>,
    },
    /// Measure what a lab does beside what it was asked, and what the relay carries on this machine
    Check {
        /// A topology file, or the name of a preset
        file: String,
        /// Round trips to measure on each kind of link, 20 ms apart
        #[arg(long, default_value_t = 500)]
        probes: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the presets
    Presets,
    /// The relay of a lab that `up` prepared
    #[command(hide = true)]
    Relay {
        /// The lab
        lab: String,
    },
}

/// Which links.
#[derive(Args)]
pub struct Links {
    /// A node or a site
    pub a: String,
    /// Another
    pub b: String,
    /// Only from the first to the second
    #[arg(long)]
    pub one_way: bool,
}

/// What changes.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub struct QualityArgs {
    /// The round trip
    #[arg(long)]
    rtt_ms: Option<f64>,
    /// How far it strays
    #[arg(long)]
    jitter_ms: Option<f64>,
    /// Each direction; 0: no limit
    #[arg(long)]
    rate_mbit: Option<f64>,
    /// What may wait for the rate
    #[arg(long)]
    queue_kib: Option<f64>,
    /// The share of packets that is lost, 0 to 1
    #[arg(long)]
    loss: Option<f64>,
    /// The share of packets that others may overtake, 0 to 1
    #[arg(long)]
    reorder: Option<f64>,
}

impl QualityArgs {
    /// The same, as the library says it.
    pub fn spec(&self) -> LinkSpec {
        LinkSpec {
            rtt_ms: self.rtt_ms,
            jitter_ms: self.jitter_ms,
            rate_mbit: self.rate_mbit,
            queue_kib: self.queue_kib,
            loss: self.loss,
            reorder: self.reorder,
        }
    }
}

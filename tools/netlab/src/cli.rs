//! The commands and their arguments.

use clap::{Args, Parser, Subcommand};
use netlab::topology::LinkSpec;

/// Emulated networks of real processes on one machine. Needs root.
#[derive(Parser)]
#[command(name = "netlab", version)]
pub struct Cli {
    /// The lab, if more than one is up
    #[arg(long, global = true, env = "NETLAB")]
    pub lab: Option<String>,
    #[command(subcommand)]
    pub todo: Todo,
}

/// The commands.
#[derive(Subcommand)]
pub enum Todo {
    /// Bring a lab up; it stays until `down`
    Up {
        /// A topology file, or the name of a preset
        file: String,
    },
    /// Bring a lab up, run a command, and take the lab down in any case
    Run {
        /// A topology file, or the name of a preset
        file: String,
        /// The command; it reaches the nodes with `netlab exec`
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
    /// Measure round trips between two nodes
    Ping {
        /// The node that sends
        a: String,
        /// The node that answers
        b: String,
        /// The number of round trips, 20 ms apart
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
    /// Cut the links between two nodes or sites
    Cut {
        #[command(flatten)]
        links: Links,
    },
    /// Undo `cut` between two nodes or sites, or everywhere
    Heal {
        #[arg(requires = "b")]
        a: Option<String>,
        b: Option<String>,
        /// Only from the first to the second
        #[arg(long)]
        one_way: bool,
    },
    /// Show the traffic of the links every second
    Show {
        /// Show it only once
        #[arg(long)]
        once: bool,
    },
    /// Take a lab down, or all labs without a name. Also removes what a crash left
    Down {
        /// The lab
        name: Option<String>,
    },
    /// Measure a lab beside what was requested, and the limits of the relay on this machine
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
    /// Run the relay of a lab that `up` has prepared
    #[command(hide = true)]
    Relay {
        /// The lab
        lab: String,
    },
}

/// The selected links.
#[derive(Args)]
pub struct Links {
    /// A node or a site
    pub a: String,
    /// The other node or site
    pub b: String,
    /// Only from the first to the second
    #[arg(long)]
    pub one_way: bool,
}

/// The properties to change.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub struct QualityArgs {
    /// The round trip
    #[arg(long)]
    rtt_ms: Option<f64>,
    /// The variation of the round trip, to either side
    #[arg(long)]
    jitter_ms: Option<f64>,
    /// The rate of each direction; 0: no limit
    #[arg(long)]
    rate_mbit: Option<f64>,
    /// The queue before a limited rate
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
    /// Returns the arguments in the library's form.
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

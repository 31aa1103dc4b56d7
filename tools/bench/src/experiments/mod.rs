//! The experiments. Each runs against any S3 endpoint and shows its progress.
//!
//! | module | what it shows |
//! |---|---|
//! | [`lat`] | the round trips of a request |
//! | [`ttfb`] | the time to the first byte of a large object over a slow link |
//! | [`billion`] | the store's speed as the number of objects grows |
//! | [`mixed`] | throughput and latency of many clients |
//! | [`list`] | the speed of listings |
//! | [`beside`] | the link usage of a large upload, and the latency of small reads beside it |
//! | [`k2v`] | small items: single inserts beside batches, reads, and open polls |
//! | [`disk`] | flushes and bytes that reach the disk for a PUT |
//! | [`small_machine`] | one node with little memory or a slow disk |
//! | [`versioned`] | what versions cost, and whether many of one key cost more |
//! | [`encrypted`] | what encryption at rest costs |
//! | [`expiry`] | the latency of clients while a lifecycle rule deletes many objects |
//! | `puts` | PUTs by many clients, for some of these |

use std::path::PathBuf;

use crate::Outcome;
use crate::endpoint::{Endpoint, Existing};
use crate::machine::Machine;
use crate::results::{Results, Row, Series};

pub mod beside;
pub mod billion;
pub mod disk;
pub mod encrypted;
pub mod expiry;
pub mod k2v;
pub mod lat;
pub mod list;
pub mod mixed;
mod puts;
pub mod small_machine;
pub mod ttfb;
pub mod versioned;

/// The options of all experiments.
#[derive(clap::Args, Clone)]
pub struct Common {
    #[command(flatten)]
    existing: Existing,
    /// The round trip between sites, in milliseconds. Times are then also shown as multiples of it
    #[arg(long)]
    rtt_ms: Option<f64>,
    /// The durability of an acknowledged write
    #[arg(long, default_value = "as configured at the endpoint")]
    durability: String,
    /// The server and its version
    #[arg(long, default_value = "unknown")]
    server: String,
    /// The network between its nodes
    #[arg(long, default_value = "unknown")]
    network: String,
    /// Also write the figures to this file, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Common {
    /// Returns the first endpoint.
    pub fn endpoint(&self) -> Outcome<Endpoint> {
        self.existing.required()
    }

    /// Returns the endpoints of all nodes.
    pub fn endpoints(&self) -> Outcome<Vec<Endpoint>> {
        self.existing.all()
    }

    /// Prints and writes the results.
    pub fn finish(
        &self,
        experiment: &str,
        options: String,
        began: Began,
        rows: Vec<Row>,
        series: Vec<Series>,
    ) -> Outcome<()> {
        let mut results = Results {
            experiment: experiment.to_owned(),
            options,
            server: self.server.clone(),
            durability: self.durability.clone(),
            network: self.network.clone(),
            rtt_ms: self.rtt_ms,
            began: began.at,
            machine: began.machine,
            usage: None,
            rows,
            series,
        };
        results.compare_with_rtt();
        results.print();
        match &self.json {
            Some(path) => results.write(path),
            None => Ok(()),
        }
    }
}

/// Returns a start for serial numbers, so that contents differ from those of earlier runs.
pub fn first_serial() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default()
}

/// The start of an experiment and the machine.
pub struct Began {
    at: String,
    machine: Machine,
}

impl Began {
    /// Starts now.
    pub fn now() -> Self {
        Self {
            at: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            machine: Machine::now(),
        }
    }
}

//! The experiments: each against any S3 endpoint, with progress while it runs.
//!
//! | module | what it asks |
//! |---|---|
//! | [`lat`] | how many round trips a request takes: one at a time |
//! | [`ttfb`] | when the first byte of a large object comes over a thin link |
//! | [`billion`] | whether a store becomes slower as objects become many |
//! | [`mixed`] | throughput and latency of many clients |
//! | [`list`] | how fast keys are listed |
//! | [`beside`] | whether a large upload fills its link, and small reads get through |

use std::path::PathBuf;

use crate::Outcome;
use crate::endpoint::{Endpoint, Existing};
use crate::machine::Machine;
use crate::results::{Results, Row, Series};

pub mod beside;
pub mod billion;
pub mod lat;
pub mod list;
pub mod mixed;
pub mod ttfb;

/// What all experiments are told.
#[derive(clap::Args, Clone)]
pub struct Common {
    #[command(flatten)]
    existing: Existing,
    /// The round trip between sites, milliseconds: times are told as multiples of it, too
    #[arg(long)]
    rtt_ms: Option<f64>,
    /// What an acknowledged write has survived there
    #[arg(long, default_value = "as the endpoint is set")]
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
    /// The (first) endpoint.
    pub fn endpoint(&self) -> Outcome<Endpoint> {
        self.existing.required()
    }

    /// All nodes' endpoints.
    pub fn endpoints(&self) -> Outcome<Vec<Endpoint>> {
        self.existing.all()
    }

    /// Prints and writes what was found.
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

/// Where to begin counting contents that no run before has stored.
pub fn first_serial() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default()
}

/// When an experiment began, and where.
pub struct Began {
    at: String,
    machine: Machine,
}

impl Began {
    /// Now.
    pub fn now() -> Self {
        Self {
            at: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            machine: Machine::now(),
        }
    }
}

//! Settings of the S3 door.

use std::time::Duration;

/// Settings of the S3 door.
#[derive(Clone, Debug)]
pub struct S3Config {
    /// The region's name, which clients sign for.
    pub region: String,
    /// Domains whose sub-domains are buckets (virtual-host style); path style works always.
    pub base_domains: Vec<String>,
    /// What clients may take up.
    pub limits: Limits,
}

impl Default for S3Config {
    fn default() -> S3Config {
        S3Config {
            region: "us-east-1".to_owned(),
            base_domains: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// What clients may take up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at once; further ones wait to be accepted.
    pub connections: usize,
    /// How long a request's headers may take, and an idle connection is kept.
    pub header_time: Duration,
    /// How long a request's body may stand still.
    pub body_idle: Duration,
    /// How long a client may take nothing of an answer.
    pub write_stall: Duration,
    /// How long requests under way may go on once the server shall stop.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 2048,
            header_time: Duration::from_secs(30),
            body_idle: Duration::from_secs(30),
            write_stall: Duration::from_secs(60),
            shutdown: Duration::from_secs(30),
        }
    }
}

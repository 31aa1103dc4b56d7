//! Settings of the S3 server.

use std::time::Duration;

/// Settings of the S3 server.
#[derive(Clone, Debug)]
pub struct S3Config {
    /// The region's name, which clients sign for.
    pub region: String,
    /// Domains whose subdomains are buckets (virtual-host style). Path style always works.
    pub base_domains: Vec<String>,
    /// Limits on clients.
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

/// Limits on clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most connections at once. Others wait to be accepted.
    pub connections: usize,
    /// The timeout of a request's headers, and of an idle connection.
    pub header_time: Duration,
    /// The longest pause in a request's body.
    pub body_idle: Duration,
    /// The longest time in which a client reads nothing of an answer.
    pub write_stall: Duration,
    /// The time that a stopping server gives to requests under way.
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

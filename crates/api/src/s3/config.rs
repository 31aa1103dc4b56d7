//! Settings of the S3 server.

use crate::audit::Audit;
use crate::serve::{Limits, Rates};

/// Settings of the S3 server.
#[derive(Clone)]
pub struct S3Config {
    /// The region's name, which clients sign for.
    pub region: String,
    /// Domains whose subdomains are buckets (virtual-host style). Path style always works.
    pub base_domains: Vec<String>,
    /// True if presigned URLs and forms may be signed with version 2.
    pub signature_v2: bool,
    /// True if customers may give keys for encryption over plain HTTP, from other machines.
    pub plain_keys: bool,
    /// Limits on clients.
    pub limits: Limits,
    /// Requests a second of clients.
    pub rates: Rates,
    /// The audit log.
    pub audit: Audit,
}

impl Default for S3Config {
    fn default() -> S3Config {
        S3Config {
            region: "us-east-1".to_owned(),
            base_domains: Vec::new(),
            signature_v2: true,
            plain_keys: false,
            limits: Limits::default(),
            rates: Rates::default(),
            audit: Audit::default(),
        }
    }
}

//! The collector of traces.

use std::fmt;
use std::path::PathBuf;

use http::{HeaderMap, Uri};

/// The collector of traces, and what it gets.
#[derive(Clone)]
pub struct Traces {
    /// The address to which spans are posted.
    pub address: Uri,
    /// The share of requests that are sampled, from 0 to 1.
    pub sample: f64,
    /// True if clients decide which of their requests are sampled.
    pub trust_clients: bool,
    /// Certificates in PEM that the collector's own is checked by.
    pub ca_file: Option<PathBuf>,
    /// The headers that the posts carry. They may be secret.
    pub headers: HeaderMap,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces")
            .field("address", &self.address)
            .field("sample", &self.sample)
            .field("trust_clients", &self.trust_clients)
            .finish_non_exhaustive()
    }
}

//! TLS for users and operators.

use super::{CertificateFiles, Settings};

/// TLS for users and operators.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificates; the first one is for clients that name no known host.
    pub certificates: Vec<CertificateFiles>,
    /// The listeners that speak TLS: names of sections.
    pub listeners: Vec<String>,
    /// True if the certificates are made by the node itself, where there are none yet.
    pub self_signed: bool,
}

impl Settings {
    /// Returns true if the listener of a section speaks TLS.
    pub fn has_tls(&self, section: &str) -> bool {
        let tls = self.tls.as_ref();
        tls.is_some_and(|tls| tls.listeners.iter().any(|name| name == section))
    }
}

//! The state of a domain.

use archipel_api::admin::types::{CertificateInfo, CertificateState};

/// The state of a domain, as this node knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// Until when the certificate in use is valid, in milliseconds since 1970.
    pub not_after_ms: Option<u64>,
    /// The error of the last order, how many have failed in a row, and when the next one may begin.
    pub failure: Option<(String, u32, u64)>,
    /// The reason why the row cannot be read, or its certificate not used.
    pub trouble: Option<String>,
    /// The chain in use.
    pub(super) chain: String,
    /// True if there is a copy of the certificate in use.
    pub(super) is_copied: bool,
    /// When the next order may begin after one of this node's that failed: another node shall try
    /// first.
    pub(super) own_wait_ms: Option<u64>,
}

impl Domain {
    /// Describes the certificate for the admin API.
    pub fn describe(self, name: String, now_ms: u64) -> CertificateInfo {
        let (failure, failed_orders, next_order_ms) = match self.failure {
            Some((why, times, next_ms)) => (Some(why), times, Some(next_ms)),
            None => (None, 0, None),
        };
        CertificateInfo {
            domain: name,
            state: match self.not_after_ms {
                None => CertificateState::Missing,
                Some(end) if end <= now_ms => CertificateState::Ended,
                Some(_) => CertificateState::Valid,
            },
            not_after_ms: self.not_after_ms,
            failure,
            failed_orders,
            next_order_ms,
            trouble: self.trouble,
        }
    }
}

//! Answers about certificates from an authority.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The certificate of a domain in `acme.domains`, as the node knows it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CertificateInfo {
    /// The domain.
    pub domain: String,
    /// Whether clients can trust it.
    pub state: CertificateState,
    /// Until when the certificate in use is valid, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after_ms: Option<u64>,
    /// Why the last order failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// How many orders in a row have failed.
    pub failed_orders: u32,
    /// When the next order may begin after one that failed, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_order_ms: Option<u64>,
    /// Why the node cannot read or use the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Whether clients can trust a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CertificateState {
    /// It is valid now.
    Valid,
    /// Its time is over.
    Ended,
    /// There is none yet.
    Missing,
}

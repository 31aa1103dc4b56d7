//! Answers about certificates from an authority.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The certificate of a domain in `acme.domains`, as the node knows it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CertificateInfo {
    /// The domain.
    pub domain: String,
    /// The state of the certificate.
    pub state: CertificateState,
    /// The end of validity of the certificate in use, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after_ms: Option<u64>,
    /// The reason why the last order failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The number of orders in a row that failed.
    pub failed_orders: u32,
    /// The earliest time of the next order after one that failed, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_order_ms: Option<u64>,
    /// The reason why the node cannot read or use the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// The state of a certificate.
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

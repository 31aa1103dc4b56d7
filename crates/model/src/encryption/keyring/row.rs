//! The row of the keyring.

use archipel_base::Id;
use archipel_base::codec::Versioned;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::encryption::sweep::Sweep;

/// The ring as its row holds it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ring {
    /// The keys, the newest last.
    #[serde(rename = "k", default)]
    pub keys: Vec<RingKey>,
    /// Grows with each change, so that a late read does not bring back an earlier ring.
    #[serde(rename = "r", default)]
    pub revision: u64,
    /// The pass that takes earlier keys out of use.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
}

impl Versioned for Ring {
    const VERSION: u8 = 1;
}

/// A key of the ring.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RingKey {
    #[serde(rename = "i")]
    pub id: Id,
    /// The time at which it was made, in milliseconds since 1970.
    #[serde(rename = "m")]
    pub made_ms: u64,
    /// The key, wrapped by each of the wrapping keys.
    #[serde(rename = "w", default)]
    pub(super) wrapped: Vec<Bytes>,
}

//! The keyring.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The keyring, which wraps the keys of encrypted objects and seals secrets: `GET /v1/keyring`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct KeyringInfo {
    /// The keys, the newest last. Earlier ones stay. Empty until one is needed.
    pub keys: Vec<RingKeyInfo>,
    /// True while earlier keys are being taken out of use.
    pub rotating: bool,
    /// The buckets of which the present pass has wrapped all keys again.
    pub buckets_done: u64,
    /// All buckets of the present pass.
    pub buckets: u64,
    /// The versions, uploads and rows of secrets that the passes of this rotation have looked at.
    pub examined: u64,
    /// Those of them that were wrapped again.
    pub rewrapped: u64,
    /// Those of them that could not be wrapped again in the present pass, or else in the last one.
    /// Later passes try again.
    pub failed: u64,
    /// The time of the last pass, which looks whether anything needs the earlier keys, in milliseconds
    /// since 1970; absent while the first pass is not through, and when no rotation is under way.
    pub last_pass_ms: Option<u64>,
    /// Secrets of access keys and sessions that the node cannot open.
    pub closed_secrets: u64,
    /// Secrets of access keys and sessions that stand in plain text. The background seals them.
    pub plain_secrets: u64,
    /// The reason why the node cannot open the keyring; absent if it can.
    pub trouble: Option<String>,
}

/// A key of the keyring.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct RingKeyInfo {
    /// The id, which is no secret.
    pub id: String,
    /// The time at which it was made, in milliseconds since 1970.
    pub made_ms: u64,
    /// True for the key that new content takes.
    pub newest: bool,
    /// True if the node can open it.
    pub open: bool,
}

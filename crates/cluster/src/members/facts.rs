//! What a node tells of itself.

use archipel_base::Id;
use serde::{Deserialize, Serialize};

/// How many addresses a node may tell.
pub const MAX_ADDRESSES: usize = 8;
/// The longest text that a node may tell, in bytes.
pub const MAX_TEXT_BYTES: usize = 256;

/// What a node tells of itself. It stays as it is for as long as nothing changes, and travels only to those who lack it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    /// How to reach it: `host:port`.
    #[serde(rename = "a")]
    pub addresses: Vec<String>,
    /// Its store.
    #[serde(rename = "s")]
    pub store: Id,
    /// Its release.
    #[serde(rename = "v", default)]
    pub version: String,
    /// The epoch that it knows.
    #[serde(rename = "e", default)]
    pub epoch: u64,
    /// Where S3 clients reach it.
    #[serde(rename = "3", default)]
    pub s3: String,
    /// The zone that its settings name; empty if they name none. The layout decides.
    #[serde(rename = "z", default)]
    pub zone: String,
    /// How many bytes its disks can hold; 0 if it does not tell. The layout decides.
    #[serde(rename = "b", default)]
    pub capacity_bytes: u64,
}

impl Facts {
    fn texts(&self) -> impl Iterator<Item = &String> {
        self.addresses
            .iter()
            .chain([&self.version, &self.s3, &self.zone])
    }

    /// Whether a node may tell as much.
    pub(super) fn is_bounded(&self) -> bool {
        self.addresses.len() <= MAX_ADDRESSES
            && self.texts().all(|text| text.len() <= MAX_TEXT_BYTES)
    }

    /// At most so many bytes in a message, with what goes around them.
    pub(super) fn size_bytes(&self) -> usize {
        192 + self.texts().map(|text| text.len() + 8).sum::<usize>()
    }
}

//! Node info: what a node tells about itself.

use archipel_base::Id;
use serde::{Deserialize, Serialize};

/// The most addresses that a node may tell.
pub const MAX_ADDRESSES: usize = 8;
/// The longest text that a node may tell, in bytes.
pub const MAX_TEXT_BYTES: usize = 256;

/// A node's description of itself. It travels only to nodes that lack its current edition.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeInfo {
    /// The addresses at which the node is reached: `host:port`.
    #[serde(rename = "a")]
    pub addresses: Vec<String>,
    /// Its store.
    #[serde(rename = "s")]
    pub store: Id,
    /// Its release.
    #[serde(rename = "v", default)]
    pub version: String,
    /// The newest epoch that it knows.
    #[serde(rename = "e", default)]
    pub epoch: u64,
    /// The highest feature level that it speaks; 0 if it does not tell.
    #[serde(rename = "l", default)]
    pub level: u32,
    /// The address of its S3 endpoint.
    #[serde(rename = "3", default)]
    pub s3: String,
    /// The zone in its settings; empty if they name none. The layout decides.
    #[serde(rename = "z", default)]
    pub zone: String,
    /// The capacity of its disks in bytes; 0 if it does not tell. The layout decides.
    #[serde(rename = "b", default)]
    pub capacity_bytes: u64,
    /// The number of nodes that form the first layout, if the node waits for that; else 0.
    #[serde(rename = "n", default)]
    pub first_nodes: u16,
}

impl NodeInfo {
    fn texts(&self) -> impl Iterator<Item = &String> {
        self.addresses
            .iter()
            .chain([&self.version, &self.s3, &self.zone])
    }

    /// Returns true if no value exceeds its limit.
    pub(super) fn is_bounded(&self) -> bool {
        self.addresses.len() <= MAX_ADDRESSES
            && self.texts().all(|text| text.len() <= MAX_TEXT_BYTES)
    }

    /// Returns at most how many bytes it takes in a message, with its envelope.
    pub(super) fn size_bytes(&self) -> usize {
        192 + self.texts().map(|text| text.len() + 8).sum::<usize>()
    }
}

//! The messages of a comparison. Their fields have names; unknown fields are skipped.

use archipel_base::codec::Versioned;
use archipel_base::{Id, NodeId, PartitionId, Stamp};
use archipel_storage::Value;
use archipel_storage::rows::Granularity;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::node::wire::Address;
use crate::register::Version;
use crate::register::floor::{FloorAnswer, FloorRequest};
use crate::register::windows::WindowId;

/// The most partitions in one comparison: all of them.
pub(in crate::upkeep) const MAX_PARTITIONS: usize = 1025;
/// The most windows in one call.
pub(in crate::upkeep) const MAX_WINDOWS: usize = 64;
pub(in crate::upkeep) const STAMPS_BYTES: usize = 128 << 10;
/// The most rows in one call. An answer ends with the row that makes it longer than this many
/// bytes.
pub(in crate::upkeep) const MAX_ROWS: usize = 256;
pub(in crate::upkeep) const ROWS_BYTES: usize = 256 << 10;
/// The most nodes that are named to a lagging node.
pub(in crate::upkeep) const MAX_WAKE: usize = 64;

/// The replica that a call is for, in any partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct Scope {
    #[serde(rename = "e")]
    pub epoch: u64,
    #[serde(rename = "i")]
    pub incarnation: u64,
}

impl Scope {
    pub fn of(self, partition: PartitionId) -> Address {
        Address {
            epoch: self.epoch,
            incarnation: self.incarnation,
            partition,
        }
    }
}

/// A request for the partitions among these that differ on the called node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct CompareCall {
    #[serde(rename = "s")]
    pub scope: Scope,
    /// Each partition with the caller's digest of its rows.
    #[serde(rename = "p")]
    pub digests: Vec<(PartitionId, u64)>,
}

impl Versioned for CompareCall {
    const VERSION: u8 = 1;
}

/// The partitions that differ.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct CompareReply(pub Vec<PartitionId>);

impl Versioned for CompareReply {
    const VERSION: u8 = 1;
}

/// A window of a partition, or the whole partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct Span {
    #[serde(rename = "p")]
    pub partition: PartitionId,
    /// The length (see [`Granularity`]) and number of a window; `None` for the whole partition.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub window: Option<(u8, u32)>,
}

impl Span {
    /// Returns the window; `None` if there is no such length.
    pub fn id(&self) -> Option<Option<WindowId>> {
        let Some((granularity, number)) = self.window else {
            return Some(None);
        };
        let known = |g: &Granularity| *g as u8 == granularity;
        let granularity = Granularity::ALL.into_iter().find(known)?;
        Some(Some(WindowId {
            granularity,
            number,
        }))
    }
}

/// A request for the parts of these windows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct WindowsCall {
    #[serde(rename = "s")]
    pub scope: Scope,
    #[serde(rename = "w")]
    pub spans: Vec<Span>,
}

impl Versioned for WindowsCall {
    const VERSION: u8 = 1;
}

/// A part of a window that has rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct Part {
    /// The index of the window in the request.
    #[serde(rename = "o")]
    pub of: u16,
    #[serde(rename = "n")]
    pub number: u32,
    #[serde(rename = "r")]
    pub rows: u64,
    /// The digest of its rows.
    #[serde(rename = "p")]
    pub digest: u64,
}

/// The parts of the windows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct WindowsReply(pub Vec<Part>);

impl Versioned for WindowsReply {
    const VERSION: u8 = 1;
}

/// A request for the rows of these hours.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct StampsCall {
    #[serde(rename = "s")]
    pub scope: Scope,
    #[serde(rename = "h")]
    pub hours: Vec<(PartitionId, u32)>,
    /// In the first hour, only rows after this one.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub after: Option<(Stamp, Bytes)>,
}

impl Versioned for StampsCall {
    const VERSION: u8 = 1;
}

/// The rows: the index of the hour in the request, stamp and key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct StampsReply {
    #[serde(rename = "r")]
    pub rows: Vec<(u16, Stamp, Bytes)>,
    /// True if more rows follow the last one.
    #[serde(rename = "m")]
    pub more: bool,
}

impl Versioned for StampsReply {
    const VERSION: u8 = 1;
}

/// A request for the content of these rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct RowsCall {
    #[serde(rename = "s")]
    pub scope: Scope,
    #[serde(rename = "k")]
    pub keys: Vec<(PartitionId, Bytes)>,
}

impl Versioned for RowsCall {
    const VERSION: u8 = 1;
}

/// The content of the first rows, as many as fit; at least one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct RowsReply(pub Vec<Version<Value>>);

impl Versioned for RowsReply {
    const VERSION: u8 = 1;
}

/// A request of a floor round. Its meaning follows from the stages of a floor: see
/// [`FloorRequest`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct FloorCall {
    #[serde(rename = "a")]
    pub address: Address,
    #[serde(rename = "r")]
    pub request: FloorRequest<Bytes>,
}

impl Versioned for FloorCall {
    const VERSION: u8 = 1;
}

/// The answer to a [`FloorCall`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct FloorReply(pub FloorAnswer<Bytes>);

impl Versioned for FloorReply {
    const VERSION: u8 = 1;
}

/// A request to say whether this store is purged in this epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct PurgedCall {
    #[serde(rename = "e")]
    pub epoch: u64,
    #[serde(rename = "s")]
    pub store: Id,
}

impl Versioned for PurgedCall {
    const VERSION: u8 = 1;
}

/// The nodes that may have what the called node lacks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::upkeep) struct WakeCall {
    #[serde(rename = "o")]
    pub others: Vec<NodeId>,
}

impl Versioned for WakeCall {
    const VERSION: u8 = 1;
}

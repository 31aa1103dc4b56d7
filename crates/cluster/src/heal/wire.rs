//! What nodes say to one another while they compare. Named fields; what is not known is skipped.

use archipel_base::codec::Versioned;
use archipel_base::{Id, NodeId, PartitionId, Stamp};
use archipel_storage::Value;
use archipel_storage::rows::Granularity;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::register::Version;
use crate::register::floor::{FloorAnswer, FloorRequest};
use crate::register::windows::WindowId;
use crate::wire::Address;

/// The methods of a node.
pub(crate) mod method {
    /// [`CompareCall`](super::CompareCall), [`CompareReply`](super::CompareReply).
    pub const COMPARE: &str = "heal.compare";
    /// [`WindowsCall`](super::WindowsCall), [`WindowsReply`](super::WindowsReply).
    pub const WINDOWS: &str = "heal.windows";
    /// [`StampsCall`](super::StampsCall), [`StampsReply`](super::StampsReply).
    pub const STAMPS: &str = "heal.stamps";
    /// [`RowsCall`](super::RowsCall), [`RowsReply`](super::RowsReply).
    pub const ROWS: &str = "heal.rows";
    /// [`FloorCall`](super::FloorCall), [`FloorReply`](super::FloorReply).
    pub const FLOOR: &str = "heal.floor";
    /// [`CleanCall`](super::CleanCall), and the same back once it is so.
    pub const CLEAN: &str = "heal.clean";
    /// The one who is asked may lack what the caller has, or [what others have](super::WakeCall). No content comes back.
    pub const WAKE: &str = "heal.wake";
}

/// The most partitions in one comparison: all of them.
pub(super) const MAX_PARTITIONS: usize = 1025;
/// The most windows that are asked for at once.
pub(super) const MAX_WINDOWS: usize = 64;
/// The most stamps in one answer, and about how many bytes of them.
pub(super) const MAX_STAMPS: usize = 2000;
pub(super) const STAMPS_BYTES: usize = 128 << 10;
/// The most rows that are asked for at once; an answer of more bytes than these ends with the row that made it so.
pub(super) const MAX_ROWS: usize = 256;
pub(super) const ROWS_BYTES: usize = 256 << 10;
/// The most nodes that are named to one that may lack something.
pub(super) const MAX_WAKE: usize = 64;

/// The replica that is asked, of whichever partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Scope {
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

/// Which of these partitions are different there?
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct CompareCall {
    #[serde(rename = "s")]
    pub scope: Scope,
    /// Each partition, and what the caller's rows of it amount to.
    #[serde(rename = "p")]
    pub prints: Vec<(PartitionId, u64)>,
}

impl Versioned for CompareCall {
    const VERSION: u8 = 1;
}

/// Those that are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct CompareReply(pub Vec<PartitionId>);

impl Versioned for CompareReply {
    const VERSION: u8 = 1;
}

/// A window of a partition, or all of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) struct Span {
    #[serde(rename = "p")]
    pub partition: PartitionId,
    /// The length (see [`Granularity`]) and number of a window; `None`: the whole partition.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub window: Option<(u8, u32)>,
}

impl Span {
    /// The window meant; `None` if there is no such length.
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

/// What are the parts of these windows?
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct WindowsCall {
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
pub(super) struct Part {
    /// The place of the window in the question.
    #[serde(rename = "o")]
    pub of: u16,
    #[serde(rename = "n")]
    pub number: u32,
    #[serde(rename = "r")]
    pub rows: u64,
    /// What its rows amount to.
    #[serde(rename = "p")]
    pub print: u64,
}

/// They are these.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct WindowsReply(pub Vec<Part>);

impl Versioned for WindowsReply {
    const VERSION: u8 = 1;
}

/// Which rows are of these hours?
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct StampsCall {
    #[serde(rename = "s")]
    pub scope: Scope,
    #[serde(rename = "h")]
    pub hours: Vec<(PartitionId, u32)>,
    /// In the first hour, only behind this.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub after: Option<(Stamp, Bytes)>,
}

impl Versioned for StampsCall {
    const VERSION: u8 = 1;
}

/// These: the place of the hour in the question, stamp and key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct StampsReply {
    #[serde(rename = "r")]
    pub rows: Vec<(u16, Stamp, Bytes)>,
    /// There are more behind the last.
    #[serde(rename = "m")]
    pub more: bool,
}

impl Versioned for StampsReply {
    const VERSION: u8 = 1;
}

/// What do these rows hold?
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct RowsCall {
    #[serde(rename = "s")]
    pub scope: Scope,
    #[serde(rename = "k")]
    pub keys: Vec<(PartitionId, Bytes)>,
}

impl Versioned for RowsCall {
    const VERSION: u8 = 1;
}

/// This, for as many of the first as fit; at least one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct RowsReply(pub Vec<Version<Value>>);

impl Versioned for RowsReply {
    const VERSION: u8 = 1;
}

/// A floor round's request. All who know the floor's stages know what it means: see [`FloorRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct FloorCall {
    #[serde(rename = "a")]
    pub address: Address,
    #[serde(rename = "r")]
    pub request: FloorRequest,
}

impl Versioned for FloorCall {
    const VERSION: u8 = 1;
}

/// Its answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct FloorReply(pub FloorAnswer<Bytes>);

impl Versioned for FloorReply {
    const VERSION: u8 = 1;
}

/// Does this store hold nothing of partitions that are not its own in this epoch?
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct CleanCall {
    #[serde(rename = "e")]
    pub epoch: u64,
    #[serde(rename = "s")]
    pub store: Id,
}

impl Versioned for CleanCall {
    const VERSION: u8 = 1;
}

/// These may have what the one who is asked lacks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct WakeCall {
    #[serde(rename = "o")]
    pub others: Vec<NodeId>,
}

impl Versioned for WakeCall {
    const VERSION: u8 = 1;
}

//! Rows: the stamped keys and values of a replica.

use archipel_base::codec::Versioned;
use archipel_base::{BlockHash, Id, PartitionId, Stamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The longest key of a row, in bytes: an S3 key of 1024 bytes and the text around it.
pub const MAX_ROW_KEY_BYTES: usize = 1152;

/// The name of a row: a partition, and a key within it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RowKey {
    /// The slice of the hash space that the row lives in.
    pub partition: PartitionId,
    /// The key within the partition. Keys sort bytewise and have at most [`MAX_ROW_KEY_BYTES`].
    pub key: Bytes,
}

/// A row as one replica holds it: the state of the register, and the value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// The highest ballot that the replica promised. It refuses writes below it.
    pub promised: Stamp,
    /// The stamp of the value; [`Stamp::ZERO`] if the row was only promised.
    pub stamp: Stamp,
    /// The identity of the write that made the value. A rewrite under a higher stamp keeps it.
    pub write: Id,
    /// The value; `None` for a tombstone and for a row that was never written.
    pub value: Option<Value>,
}

/// The value of a row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Value {
    /// The metadata that a listing or a HEAD needs. The model encodes it; storage does not look
    /// inside.
    #[serde(rename = "m")]
    pub metadata: Bytes,
    /// The payload that only a GET needs. It has a tree of its own, so that the metadata stays
    /// small.
    #[serde(rename = "p")]
    pub payload: Payload,
    /// The row's share in a counter, if it has one.
    #[serde(rename = "u")]
    pub usage: Option<UsageDelta>,
    /// Which version of an object the value is. `None` stands for the null version, and for a row
    /// without versions.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Box<RowVersion>>,
}

impl Value {
    /// Returns the name of the version that this value is.
    pub fn version_name(&self) -> VersionName {
        self.version.as_ref().and_then(|version| version.at)
    }

    /// Returns the kind of version that this value is.
    pub fn kind(&self) -> VersionKind {
        self.version
            .as_ref()
            .map_or(VersionKind::Object, |version| version.kind)
    }

    /// Returns what the decision that wrote this value says of other versions.
    pub fn changes(&self) -> &[VersionChange] {
        self.version
            .as_ref()
            .map_or(&[], |version| &version.changes)
    }
}

/// The name of a version among the versions of a key: the stamp of the attempt that sent it first,
/// or `None` for the null version.
pub type VersionName = Option<Stamp>;

/// Returns the last bytes of a kept row's key: newer names are lower, and the null version is the
/// lowest.
pub fn name_bytes(name: VersionName) -> [u8; 16] {
    name.map_or([0; 16], |at| at.to_bytes().map(|byte| !byte))
}

/// The largest number of changes that one value carries.
pub const MAX_VERSION_CHANGES: usize = 64;

/// A version of an object, as its row's value describes it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct RowVersion {
    /// Its name.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub at: VersionName,
    /// Its kind.
    #[serde(rename = "k", default, skip_serializing_if = "VersionKind::is_object")]
    pub kind: VersionKind,
    /// The changes of other versions of the key that the decision that wrote the value makes. A
    /// replica that accepts the value applies them.
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<VersionChange>,
    /// Of a kept null version: the stamp that it had when another version replaced it. It orders
    /// the null version among the others.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Stamp>,
    /// Of a kept version: the stamp of the object's row under which it was last current.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Stamp>,
}

impl Versioned for RowVersion {
    const VERSION: u8 = 1;
}

/// The kind of a version.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum VersionKind {
    /// An object.
    #[default]
    #[serde(rename = "o")]
    Object,
    /// A delete marker.
    #[serde(rename = "m")]
    Marker,
    /// Nothing. The row has a value only because it carries changes of other versions.
    #[serde(rename = "n")]
    Void,
}

impl VersionKind {
    /// Returns true for an object.
    pub fn is_object(&self) -> bool {
        *self == VersionKind::Object
    }
}

/// A decision's change of another version of its key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct VersionChange {
    /// The version.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub of: VersionName,
    /// Its state after the change.
    #[serde(rename = "s")]
    pub state: VersionState,
    /// Which null version gets the metadata: the [stamp](RowVersion::since) that tells null versions
    /// apart, because they all have one name.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Stamp>,
    /// Beside metadata: the stamp under which the version was [last](RowVersion::last) current.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Stamp>,
}

/// The state of a kept version after a change.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum VersionState {
    /// It is deleted for good.
    #[serde(rename = "d")]
    Dead,
    /// It lives and has this metadata.
    #[serde(rename = "m")]
    Changed(Bytes),
}

/// The payload of a value: the part that only a GET needs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Payload {
    /// No payload.
    #[default]
    Empty,
    /// Bytes in the row: a small object's content, or a list that the model encodes.
    Inline(Bytes),
    /// At most 64 blocks, in order. The row holds one reference for each mention of a block.
    Blocks(Vec<BlockRef>),
    /// Blocks, and bytes in which the model encodes the location of the rest of a large object.
    BlocksAnd(Vec<BlockRef>, Bytes),
}

impl Payload {
    /// Returns the blocks that this payload refers to.
    pub fn blocks(&self) -> &[BlockRef] {
        match self {
            Payload::Blocks(blocks) | Payload::BlocksAnd(blocks, _) => blocks,
            Payload::Empty | Payload::Inline(_) => &[],
        }
    }
}

/// A mention of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct BlockRef {
    /// The block's name.
    pub hash: BlockHash,
    /// The length of the content before compression, in bytes: 1 byte to 1 MiB.
    pub len: u32,
}

/// The share of a row in a counter. A partition's counters are exact for this replica. They are
/// never replicated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct UsageDelta {
    /// The counter's identity: a bucket.
    pub group: Id,
    /// The number of objects that the row counts as.
    pub objects: u32,
    /// The number of bytes that the row counts as.
    pub bytes: u64,
}

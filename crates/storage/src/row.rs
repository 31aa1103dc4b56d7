//! Rows: the versioned keys and values of a replica.

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
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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
}

/// The payload of a value: the part that only a GET needs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct BlockRef {
    /// The block's name.
    pub hash: BlockHash,
    /// The length of the content before compression, in bytes: 1 byte to 1 MiB.
    pub len: u32,
}

/// The share of a row in a counter. A partition's counters are exact for this replica. They are
/// never replicated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UsageDelta {
    /// The counter's identity: a bucket.
    pub group: Id,
    /// The number of objects that the row counts as.
    pub objects: u32,
    /// The number of bytes that the row counts as.
    pub bytes: u64,
}

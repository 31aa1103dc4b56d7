//! Rows: what a replica keeps for a key.

use archipel_base::{BlockHash, Id, PartitionId, Stamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The longest key of a row, in bytes: an S3 key of 1024 bytes and what goes before and after it.
pub const MAX_ROW_KEY_BYTES: usize = 1152;

/// The name of a row: a partition, and a key within it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RowKey {
    /// The slice of the hash space that the row lives in.
    pub partition: PartitionId,
    /// The key within the partition; sorts bytewise. At most [`MAX_ROW_KEY_BYTES`].
    pub key: Bytes,
}

/// A row as one replica holds it: the register's state and the value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// The highest ballot promised; writes below it are refused.
    pub promised: Stamp,
    /// The stamp of the value; [`Stamp::ZERO`] if the row was only ever promised.
    pub stamp: Stamp,
    /// The identity of the write that made the value (it keeps it when it is written again under a higher stamp).
    pub write: Id,
    /// The value; `None` is a tombstone, or a row never written.
    pub value: Option<Value>,
}

/// What a row holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Value {
    /// What a listing or a HEAD needs; opaque here, encoded by the model.
    pub head: Bytes,
    /// What only a GET needs; kept in a tree of its own so that heads stay lean.
    pub body: Body,
    /// What the row adds to a counter, if anything.
    pub tally: Option<Tally>,
}

/// The part of a value that only a GET needs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Body {
    /// Nothing.
    #[default]
    Empty,
    /// Bytes kept in the row: a small object's content, or a list that the model encodes.
    Inline(Bytes),
    /// Blocks in order, at most 64. The row holds one reference to each mention of a block.
    Blocks(Vec<BlockRef>),
    /// Blocks, and bytes that the model encodes (where the rest of a large object is).
    BlocksAnd(Vec<BlockRef>, Bytes),
}

impl Body {
    /// The blocks that this body refers to.
    pub fn blocks(&self) -> &[BlockRef] {
        match self {
            Body::Blocks(blocks) | Body::BlocksAnd(blocks, _) => blocks,
            Body::Empty | Body::Inline(_) => &[],
        }
    }
}

/// A mention of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct BlockRef {
    /// The block's name.
    pub hash: BlockHash,
    /// The length of its content in bytes, before compression: 1 to 1 MiB.
    pub len: u32,
}

/// A row's share in a counter. The counters of a partition are exact for this replica and never replicated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// Which counter: a bucket.
    pub group: Id,
    /// How many objects the row counts as.
    pub objects: u32,
    /// How many bytes.
    pub bytes: u64,
}

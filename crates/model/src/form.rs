//! The form of an object's content: where its bytes are, as rows describe it.
//!
//! Small content is inline in the row. Up to 64 blocks (one extent) belong to the row itself. The
//! bytes after them are a **tail**: extents of 64 blocks, each a row of its own in a partition of
//! its own. A multipart object has no content itself: its row lists the rows of its parts, whose
//! content has one of these three forms.

use archipel_base::Id;
use archipel_base::codec::{self, Versioned};
use archipel_cluster::Intent;
use archipel_storage::Payload;
use serde::{Deserialize, Serialize};

use crate::checksum::Checksum;
use crate::error::{Error, damaged_row};
use crate::owner::Owner;

/// The largest content that is inline in its row, in bytes.
pub const INLINE_BYTES: usize = 16 * 1024;
/// The size of a block.
pub const BLOCK_BYTES: usize = 1 << 20;
/// The number of blocks of a full extent that a node writes. Content tells the size of its own
/// extents: all but the last one are as long as the first.
pub const EXTENT_BLOCKS: usize = 64;
/// The size of such an extent.
pub const EXTENT_BYTES: u64 = (BLOCK_BYTES * EXTENT_BLOCKS) as u64;

/// The form of an object's or a part's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum ContentForm {
    /// Inline in the row, or empty.
    #[serde(rename = "i")]
    Inline,
    /// Blocks of the row.
    #[serde(rename = "b")]
    Blocks,
    /// Blocks of the row, then a [`Tail`].
    #[serde(rename = "t")]
    Tail,
    /// A [`PartList`].
    #[serde(rename = "p")]
    Parts,
}

/// The extents after the first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Tail {
    /// The name that its extents have in common.
    #[serde(rename = "g")]
    pub group: Id,
    /// The number of extents; all but the last are full.
    #[serde(rename = "n")]
    pub extents: u32,
}

impl Versioned for Tail {
    const VERSION: u8 = 1;
}

/// A part of a completed object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartInfo {
    /// The part's number.
    #[serde(rename = "n")]
    pub number: u16,
    /// Bytes of content.
    #[serde(rename = "s")]
    pub size: u64,
    /// The part's checksum, if the client gave one.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    #[serde(rename = "t")]
    pub(crate) attempt: Id,
}

/// The parts of a multipart object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PartList {
    /// The upload that the parts belong to.
    #[serde(rename = "u")]
    pub upload: Id,
    /// The parts, in order.
    #[serde(rename = "p")]
    pub parts: Vec<PartInfo>,
    /// The write that completed the upload. A replica that accepts it marks the upload's row with
    /// it, also if another replica brought it.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub write: Option<Intent>,
}

impl Versioned for PartList {
    const VERSION: u8 = 1;
}

/// The metadata of an extent's row. It names the owner, which decides whether the extent is still
/// needed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ExtentHead {
    #[serde(rename = "o")]
    pub owner: Owner,
    /// The store of the node that wrote the extent. Its queue holds the GC task.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Id>,
}

impl Versioned for ExtentHead {
    const VERSION: u8 = 1;
}

/// Returns the tail that a payload of [`ContentForm::Tail`] names.
pub(crate) fn decode_tail(payload: &Payload) -> Result<Tail, Error> {
    match payload {
        Payload::BlocksAnd(_, rest) => codec::decode(rest).map_err(damaged_row),
        _ => Err(Error::Damaged("a row lacks the list of its extents".into())),
    }
}

/// Returns the parts that a payload of [`ContentForm::Parts`] lists.
pub(crate) fn decode_parts(payload: &Payload) -> Result<PartList, Error> {
    match payload {
        Payload::Inline(list) => codec::decode(list).map_err(damaged_row),
        _ => Err(Error::Damaged("a row lacks the list of its parts".into())),
    }
}

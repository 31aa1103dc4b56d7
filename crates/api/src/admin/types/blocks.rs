//! Answers about single blocks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A block: the nodes that have it, and the objects that refer to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct BlockInfo {
    /// Its hash.
    pub hash: String,
    /// The bytes of its content before compression, if anything refers to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// True if its content is gone: something refers to it, every node of the layout answered, and none has a
    /// copy that can be read and is good. False also if a node did not answer: see `away` of the nodes.
    pub lost: bool,
    /// The objects and uploads that refer to it: `object photos/cat.jpg`. At most eight for each node.
    pub used_by: Vec<String>,
    /// The nodes of the layout.
    pub nodes: Vec<BlockNode>,
}

/// A node's answer about a block.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct BlockNode {
    /// The node's id.
    pub node: String,
    /// Its first digits.
    pub short: String,
    /// The node's copy.
    pub copy: CopyState,
    /// The references that its index counts.
    pub references: u64,
    /// The reason why the node could not be asked; absent if it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<String>,
}

/// A node's copy of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CopyState {
    /// The node was not asked, or did not answer.
    #[default]
    Unknown,
    /// Nothing on the node refers to the block.
    Unneeded,
    /// It was read and is good.
    Good,
    /// It is damaged.
    Damaged,
    /// Something refers to it, and it is not there.
    Missing,
    /// It could not be read: its disk fails, for example.
    Unreadable,
}

impl CopyState {
    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            CopyState::Unknown => "unknown",
            CopyState::Unneeded => "unneeded",
            CopyState::Good => "good",
            CopyState::Damaged => "damaged",
            CopyState::Missing => "missing",
            CopyState::Unreadable => "unreadable",
        }
    }
}

//! The messages of the membership. Their fields have names; unknown fields are skipped.

use std::collections::BTreeMap;

use archipel_base::codec::{self, DecodeError, Versioned};
use archipel_base::{Id, NodeId};
use serde::{Deserialize, Serialize};

use super::node_info::NodeInfo;

/// The most nodes that the lines of a request name.
pub(super) const MAX_LINES: usize = 256;
/// The most bytes of node info in one message.
pub(super) const MAX_INFO_BYTES: usize = 64 << 10;
/// The longest message that is read: lines, lines asked for, and node info.
pub(super) const MAX_MESSAGE_BYTES: usize = 128 << 10;

/// The edition of a node's info: the run of the node, and how often the info changed within it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Edition {
    pub generation: u64,
    pub revision: u64,
}

/// A node in a list of lines: the first eight bytes of its id.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub(super) struct Short(pub u64);

impl Short {
    pub fn of(node: &NodeId) -> Short {
        let mut first = [0; 8];
        first.copy_from_slice(&node.as_bytes()[..8]);
        Short(u64::from_be_bytes(first))
    }

    /// Returns the first and the last id with these first bytes.
    pub fn range(self) -> std::ops::RangeInclusive<NodeId> {
        let fill = |with: u8| {
            let mut id = NodeId([with; 32]);
            id.0[..8].copy_from_slice(&self.0.to_be_bytes());
            id
        };
        fill(0)..=fill(u8::MAX)
    }
}

/// The sender's knowledge of a node, without its node info. A generation of 0 means nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Line {
    #[serde(rename = "n")]
    pub node: Short,
    #[serde(rename = "g")]
    pub generation: u64,
    #[serde(rename = "r")]
    pub revision: u64,
    /// The age of its run, in tenths of a second. It tells which news are newer.
    #[serde(rename = "h")]
    pub heartbeat: u64,
    /// The time since the node said so, in tenths of a second, including the time on the way to the
    /// sender.
    #[serde(rename = "a", default)]
    pub age: u64,
}

impl Line {
    pub fn edition(&self) -> Edition {
        Edition {
            generation: self.generation,
            revision: self.revision,
        }
    }

    /// Returns a request: the sender knows nothing of that node.
    pub fn unknown(node: Short) -> Line {
        Line {
            node,
            ..Line::default()
        }
    }
}

/// A node with its info.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Told {
    #[serde(rename = "k")]
    pub node: NodeId,
    #[serde(rename = "l")]
    pub line: Line,
    #[serde(rename = "f")]
    pub info: NodeInfo,
    /// True if the node said that it leaves.
    #[serde(rename = "x", default)]
    pub leaving: bool,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gossip {
    /// The sender's cluster; `None` for a node that has not joined yet.
    #[serde(rename = "c")]
    pub cluster: Option<Id>,
    /// The number of nodes that the sender knows. If there are as many lines, the sender does not
    /// know any other node.
    #[serde(rename = "t", default)]
    pub total: u64,
    #[serde(rename = "l")]
    pub lines: Vec<Line>,
    #[serde(rename = "f")]
    pub infos: Vec<Told>,
    /// The time on the sender's own clock in milliseconds since 1970; 0 if it does not say.
    #[serde(rename = "w", default)]
    pub wall_ms: u64,
    /// True if the sender knows no layout. So it hears everybody, and what it tells of others may
    /// come from anybody.
    #[serde(rename = "o", default, skip_serializing_if = "is_false")]
    pub outside: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Versioned for Gossip {
    const VERSION: u8 = 1;
}

impl Gossip {
    /// Decodes a message.
    ///
    /// # Errors
    /// A text if it is too long, or is no message.
    pub fn decode(bytes: &[u8]) -> Result<Gossip, String> {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(format!("gossip of {} bytes", bytes.len()));
        }
        codec::decode(bytes).map_err(|error: DecodeError| error.to_string())
    }

    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Returns true if its lines name all nodes that the sender knows.
    pub fn is_complete(&self) -> bool {
        self.total > 0 && self.lines.len() as u64 >= self.total
    }

    /// Returns the editions that the sender has of the nodes that it names.
    pub fn editions(&self) -> BTreeMap<Short, Edition> {
        let lines = self.lines.iter();
        lines.map(|line| (line.node, line.edition())).collect()
    }
}

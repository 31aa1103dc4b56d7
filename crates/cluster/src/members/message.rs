//! What nodes say to one another. Named fields; what is not known is skipped.

use std::collections::BTreeMap;

use archipel_base::codec::{self, DecodeError, Versioned};
use archipel_base::{Id, NodeId};
use serde::{Deserialize, Serialize};

use super::facts::Facts;

/// How many nodes a list of lines names at most, when it is told unasked.
pub(super) const MAX_LINES: usize = 256;
/// How many bytes of facts go into one message.
pub(super) const MAX_FACTS_BYTES: usize = 64 << 10;
/// The longest message that is listened to: lines, lines asked for, and facts.
pub(super) const MAX_MESSAGE_BYTES: usize = 128 << 10;

/// How new facts are: the run of the node that told them, and how often they changed within it.
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

    /// The first and the last id that begin so.
    pub fn range(self) -> std::ops::RangeInclusive<NodeId> {
        let fill = |with: u8| {
            let mut id = NodeId([with; 32]);
            id.0[..8].copy_from_slice(&self.0.to_be_bytes());
            id
        };
        fill(0)..=fill(u8::MAX)
    }
}

/// What the teller knows of a node, but for its facts. Generation 0: nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Line {
    #[serde(rename = "n")]
    pub node: Short,
    #[serde(rename = "g")]
    pub generation: u64,
    #[serde(rename = "r")]
    pub revision: u64,
    /// Tenths of a second that its run has lasted: tells which news are newer.
    #[serde(rename = "h")]
    pub heartbeat: u64,
    /// Tenths of a second since it said so, on its way to the teller and there.
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

    /// A question: the teller knows nothing of that node.
    pub fn unknown(node: Short) -> Line {
        Line {
            node,
            ..Line::default()
        }
    }
}

/// A node with its facts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Told {
    #[serde(rename = "k")]
    pub node: NodeId,
    #[serde(rename = "l")]
    pub line: Line,
    #[serde(rename = "f")]
    pub facts: Facts,
    /// It said that it goes.
    #[serde(rename = "x", default)]
    pub leaving: bool,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gossip {
    /// The teller's cluster; none yet for one that joins.
    #[serde(rename = "c")]
    pub cluster: Option<Id>,
    /// How many nodes the teller knows: if there are as many lines, what they do not name it does not know.
    #[serde(rename = "t", default)]
    pub total: u64,
    #[serde(rename = "l")]
    pub lines: Vec<Line>,
    #[serde(rename = "f")]
    pub facts: Vec<Told>,
    /// What the teller's own clock shows, in milliseconds since 1970; 0 if it does not say.
    #[serde(rename = "w", default)]
    pub wall_ms: u64,
}

impl Versioned for Gossip {
    const VERSION: u8 = 1;
}

impl Gossip {
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

    /// Whether its lines name all nodes that the teller knows.
    pub fn is_complete(&self) -> bool {
        self.total > 0 && self.lines.len() as u64 >= self.total
    }

    /// Which editions the teller has of the nodes that it names.
    pub fn editions(&self) -> BTreeMap<Short, Edition> {
        let lines = self.lines.iter();
        lines.map(|line| (line.node, line.edition())).collect()
    }
}

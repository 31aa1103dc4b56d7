//! Messages of models, which nodes ask one another for.

use archipel_base::codec::Versioned;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Position;

/// Asks for the messages of a node's model. The answer comes at once if there are some, and
/// otherwise after the next one, or after a few seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RelayCall {
    /// The position up to which the caller has them; `None` asks for the present position.
    #[serde(rename = "a", default)]
    pub after: Option<Position>,
}

impl Versioned for RelayCall {
    const VERSION: u8 = 1;
}

/// The answer to a [`RelayCall`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RelayReply {
    /// The messages, as far as they are known.
    #[serde(rename = "m")]
    pub messages: Vec<Bytes>,
    /// The position after them.
    #[serde(rename = "n")]
    pub next: Position,
}

impl Versioned for RelayReply {
    const VERSION: u8 = 1;
}

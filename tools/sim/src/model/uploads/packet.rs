//! Messages.

use archipel_cluster::register::{Answer, Intent, Request, Version};

use super::{Row, Value};

/// A coordinator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Asker {
    /// The one that serves this client.
    Client(usize),
    /// This replica's own, which brings a row that the replica lacks.
    Node(usize),
}

/// A message under way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Packet {
    /// A request of a coordinator to a replica.
    Ask {
        /// The coordinator that asks.
        by: Asker,
        /// The number of its operation.
        operation: u32,
        /// The epoch.
        epoch: u64,
        /// The replica.
        to: usize,
        /// The operation's round.
        round: u32,
        /// The row.
        row: Row,
        /// The intent of the operation, if it changes both rows.
        intent: Option<Intent>,
        /// The request.
        request: Request<Value>,
    },
    /// A replica's answer.
    Answer {
        /// The coordinator that asked.
        to: Asker,
        /// The number of its operation.
        operation: u32,
        /// The replica.
        from: usize,
        /// The round that it answers.
        round: u32,
        /// The answer.
        answer: Answer<Value>,
    },
    /// A row that one replica sends to another.
    Spread {
        /// The epoch.
        epoch: u64,
        /// The receiving replica.
        to: usize,
        /// The row.
        row: Row,
        /// The version.
        version: Version<Value>,
        /// True if a quorum is known to hold it.
        settled: bool,
    },
}

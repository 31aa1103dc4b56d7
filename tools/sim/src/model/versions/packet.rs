//! Messages, and the rows of a replica.

use std::collections::BTreeMap;

use archipel_base::Stamp;
use archipel_cluster::register::{Answer, Request, Version};
use archipel_storage::{Value, VersionName};

/// A row of the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Row {
    /// The object's.
    Object,
    /// That of a kept version.
    Kept(VersionName),
}

/// A message under way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Packet {
    /// A request of a client's coordinator to a replica, about the object's row.
    Ask {
        /// The client.
        client: usize,
        /// The number of its operation.
        operation: u32,
        /// The epoch.
        epoch: u64,
        /// The replica.
        to: usize,
        /// The operation's round.
        round: u32,
        /// The version that the request asks about, besides those that the replica holds.
        about: Option<VersionName>,
        /// True if it follows the settings after the change.
        by_new: bool,
        /// The request.
        request: Request<Value>,
    },
    /// A replica's answer.
    Answer {
        /// The client.
        client: usize,
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

/// The rows of a replica up to a floor.
pub type Digest = BTreeMap<Row, Stamp>;

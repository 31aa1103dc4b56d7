//! Requests and answers between a coordinator and a replica about one row.

use archipel_base::{Id, Stamp};
use archipel_storage::VersionName;
use serde::{Deserialize, Serialize};

use super::versions::VersionReport;

/// One version of a row: the result of one write.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Version<V> {
    /// The stamp under which it is held; [`Stamp::ZERO`] if the row was never written or is gone.
    pub stamp: Stamp,
    /// The write that made it. A value keeps this id when it is written again under a higher stamp.
    pub write: Id,
    /// The value; `None` is a tombstone, or a row never written.
    pub value: Option<V>,
}

impl<V> Version<V> {
    /// Returns the version of a row that was never written.
    pub fn absent() -> Version<V> {
        Version {
            stamp: Stamp::ZERO,
            write: Id::default(),
            value: None,
        }
    }
}

/// A request of a coordinator to a replica.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Request<V> {
    /// Asks for the version that the replica holds. Changes nothing.
    Read {
        /// Asks for the value, too, instead of only the stamps.
        with_value: bool,
    },
    /// Asks for a promise to accept nothing below `ballot`, and for the version held.
    Prepare {
        /// A fresh stamp of the coordinator.
        ballot: Stamp,
        /// Also asks under which stamps the replica accepted this write.
        asking: Option<Id>,
        /// Refuse unless the row that guards the operation is live here.
        guarded: bool,
    },
    /// Asks the replica to hold this version.
    Write {
        /// The version. Its stamp is fresh, or a prepared ballot, or (in a write-back) the stamp
        /// under which other replicas hold it.
        version: Version<V>,
        /// Refuse unless the row that guards the operation is live here.
        guarded: bool,
    },
}

impl<V> Answer<V> {
    /// Returns the answer with what the replica tells of the versions that the request asks about.
    #[must_use]
    pub fn telling(mut self, told: Vec<VersionReport>) -> Answer<V> {
        if let Answer::Found { versions, .. } | Answer::Promised { versions, .. } = &mut self {
            *versions = told;
        }
        self
    }
}

/// A replica's memory of one write.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Remembered {
    /// The stamps under which the replica accepted the write.
    #[serde(rename = "a")]
    pub accepted: Vec<Stamp>,
    /// The replica remembers all acceptances at or above this stamp. Earlier ones are unknown.
    #[serde(rename = "k")]
    pub known_from: Stamp,
}

/// A replica's answer. Everything that it says is durable before it is sent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Answer<V> {
    /// Answers `Read`.
    Found {
        /// The version held. Its value may be missing if the request did not ask for it.
        version: Version<V>,
        /// True if the version held has a value (is no tombstone).
        live: bool,
        /// Tombstones at or below this stamp are gone on all replicas.
        floor: Stamp,
        /// The agreed floor. When it was agreed, all replicas held the same rows up to it. So a
        /// version at or below it that is newer than the row held here was read earlier from
        /// another replica, and is gone by now.
        #[serde(default)]
        agreed: Stamp,
        /// The versions that the request asked about.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        versions: Vec<VersionReport>,
    },
    /// Answers `Prepare`: this replica accepts nothing below the ballot any more.
    Promised {
        /// The version held, with its value.
        version: Version<V>,
        /// The stamps under which this replica accepted the write in question, as far as it
        /// remembers.
        accepted: Vec<Stamp>,
        /// The replica remembers all acceptances at or above this stamp. Earlier ones are unknown.
        known_from: Stamp,
        /// Tombstones at or below this stamp are gone on all replicas.
        floor: Stamp,
        /// As in `Found`.
        #[serde(default)]
        agreed: Stamp,
        /// The versions that the request asked about.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        versions: Vec<VersionReport>,
    },
    /// Answers `Write`: the replica holds the version under its stamp, or held it before a newer
    /// one.
    Accepted,
    /// The stamp is too old for this replica.
    Stale {
        /// The stamp that a new one must exceed.
        highest: Stamp,
        /// The answer to a `Prepare` also tells what the replica remembers of the write in
        /// question. The replica accepts nothing below the ballot any more, as if it had promised
        /// it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remembered: Option<Remembered>,
    },
    /// The stamp is further ahead of this replica's clock than the bound allows.
    Ahead,
    /// The value changes a version that this replica lacks. Nothing was changed.
    Lacking {
        /// The version.
        name: VersionName,
    },
    /// A row must point to the write, and this replica lacks that row. Nothing was changed. The
    /// replica's node then learns from a quorum what the row is, and answers again.
    LacksPointing,
    /// The replica holds a version that does not permit the operation. Nothing was changed.
    Held,
    /// The guarding row is not live on this replica. Nothing was changed.
    Guarded,
    /// The replica knows a newer layout than the request's. Nothing was changed. A node that is not
    /// or no longer a replica of the row gives this answer, too.
    Superseded {
        /// The epoch that the replica knows.
        epoch: u64,
    },
}

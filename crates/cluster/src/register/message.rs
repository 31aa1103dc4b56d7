//! What goes between a coordinator and a replica about one row.

use archipel_base::{Id, Stamp};
use serde::{Deserialize, Serialize};

/// One version of a row: what a write made.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Version<V> {
    /// Under which stamp it is held; [`Stamp::ZERO`] if the row was never written (or is gone).
    pub stamp: Stamp,
    /// Which write made it. A value keeps this when it is written again under a higher stamp.
    pub write: Id,
    /// The value; `None` is a tombstone, or a row never written.
    pub value: Option<V>,
}

impl<V> Version<V> {
    /// What a row holds that was never written.
    pub fn absent() -> Version<V> {
        Version {
            stamp: Stamp::ZERO,
            write: Id::default(),
            value: None,
        }
    }
}

/// What a coordinator asks of a replica.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Request<V> {
    /// What do you hold? Changes nothing.
    Read {
        /// Whether the value is wanted, too, or only stamps.
        with_value: bool,
    },
    /// Promise to accept nothing below `ballot`, and tell what you hold.
    Prepare {
        /// A fresh stamp of the coordinator.
        ballot: Stamp,
        /// Also tell under which stamps you accepted this write.
        asking: Option<Id>,
        /// Refuse if the row that guards the operation is not live here.
        guarded: bool,
    },
    /// Hold this version.
    Write {
        /// The version. Its stamp is fresh, or a ballot that was prepared, or (writing back what
        /// was read) the stamp under which others hold it.
        version: Version<V>,
        /// Refuse if the row that guards the operation is not live here.
        guarded: bool,
    },
}

/// What a replica answers. All of it was durable before it was said.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Answer<V> {
    /// To `Read`.
    Found {
        /// What is held; its value may be missing if it was not asked for.
        version: Version<V>,
        /// Whether what is held has a value (is not a tombstone).
        live: bool,
        /// Tombstones at or below this are gone everywhere.
        floor: Stamp,
        /// Up to this all replicas held the same when it was agreed: a version at or below it that is newer than what is
        /// held here was told before, and is gone by now.
        #[serde(default)]
        agreed: Stamp,
    },
    /// To `Prepare`: nothing below the ballot will be accepted here any more.
    Promised {
        /// What is held, with its value.
        version: Version<V>,
        /// Stamps under which the write asked about was accepted here, as far as remembered.
        accepted: Vec<Stamp>,
        /// All acceptances at or above this stamp are remembered; what was accepted below is not known.
        known_from: Stamp,
        /// Tombstones at or below this are gone everywhere.
        floor: Stamp,
        /// As in `Found`.
        #[serde(default)]
        agreed: Stamp,
    },
    /// To `Write`: it is held (or was, and a newer one is by now) under its stamp.
    Accepted,
    /// The stamp is too old here.
    Stale {
        /// The stamp that a new one must exceed.
        highest: Stamp,
    },
    /// The stamp is further ahead of this replica's clock than the bound allows.
    Ahead,
    /// The guarding row is not live here; nothing was changed.
    Guarded,
    /// A newer layout is known than the request was made for; nothing was changed. Nodes that are no
    /// replica of the row (any more) say so, too.
    Superseded {
        /// The epoch that it knows.
        epoch: u64,
    },
}

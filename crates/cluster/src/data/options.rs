//! The options of a write of a row.

use std::sync::Arc;

use archipel_storage::RowKey;
use archipel_storage::engine::Durability;
use bytes::Bytes;

use crate::data::block_writer::BlockWriter;
use crate::data::bundle::Bundle;
use crate::node::companions::Companion;
use crate::node::options::Taking;
use crate::node::wire::{GuardKey, Pointer};
use crate::register::Intent;
use crate::register::coordinator::Repeat;

/// The other row that an update changes: it points to the update's write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointingRow {
    /// The row. It is in the partition of the row that is written.
    pub row: RowKey,
    /// The update's write: see [`Data::announce`].
    pub intent: Intent,
    /// True if the value that is written [names](crate::Hooks::points) the row and the write.
    pub is_named: bool,
    /// True if the write makes a version with a name of its own. Then the row points to the write
    /// before the write goes out.
    pub is_announced: bool,
}

impl PointingRow {
    pub(crate) fn pointer(&self) -> Pointer {
        Pointer {
            key: self.row.key.clone(),
            intent: self.intent,
            is_announced: self.is_announced,
        }
    }
}

/// A row of the same partition that must [hold](crate::Hooks::holds) for a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guard {
    /// The row.
    pub row: RowKey,
    /// The write's expectation of the row, in the model's encoding.
    pub expects: Bytes,
    /// True if a [limit](crate::Hooks::limit) that the row sets does not concern the write, because
    /// it adds nothing. A replica that lacks the row of the write would take it for an addition.
    pub is_unlimited: bool,
}

impl Guard {
    /// Returns a guard of which nothing else is expected.
    pub fn of(row: RowKey) -> Guard {
        Guard {
            row,
            expects: Bytes::new(),
            is_unlimited: false,
        }
    }

    /// Returns the guard for a write that adds nothing, which limits do not concern.
    #[must_use]
    pub fn unlimited(self) -> Guard {
        Guard {
            is_unlimited: true,
            ..self
        }
    }

    pub(crate) fn to_wire(&self) -> GuardKey {
        GuardKey {
            key: self.row.key.clone(),
            expects: self.expects.clone(),
            is_unlimited: self.is_unlimited,
        }
    }
}

/// The options of a write of a row: durability, guards, blocks.
#[derive(Clone)]
pub struct WriteOptions<'a> {
    /// The durability before the write is acknowledged.
    pub durability: Durability,
    /// Rows of the same partition that must hold.
    pub guards: Vec<Guard>,
    /// True if the write gives up, without effect, once another version overtakes it. This is for
    /// values that refer to content in other rows, because that content is dropped then.
    pub yields: bool,
    /// The row that points to this write. Updates only.
    pub pointing: Option<PointingRow>,
    /// The writer of the blocks that the value refers to.
    pub upload: Option<&'a BlockWriter>,
    /// The operations that it runs together with: see [`Bundle`].
    pub bundle: Option<Arc<Bundle>>,
    /// True if no client waits for it.
    pub background: bool,
    /// True if the write takes no room and lets space become free. It is done even while disks are
    /// nearly full.
    pub frees: bool,
    /// The thing that an update would take from a version of an object.
    pub taking: Option<Taking>,
    /// True if a decision about a version must be promised by all replicas, not only by a quorum.
    pub by_all: bool,
    /// True if replicas need not tell other versions than the one that a decision is about: it only
    /// changes that version, or most likely another one is current.
    pub unlisted: bool,
    /// The version of an object that a write without a condition makes.
    pub versioning: Versioning,
    /// Rows that the write brings with it.
    pub companions: Vec<Companion>,
}

/// The version of an object that a write makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Versioning {
    /// The null version, in a bucket that never kept versions. Also for all other rows.
    #[default]
    Plain,
    /// The null version, in a bucket that keeps no further versions. Replicas keep the other
    /// versions. The write is not sent again if others overtook it.
    Null,
    /// A new version, which gets the name of its attempt.
    New,
}

impl WriteOptions<'_> {
    /// Returns whether the write is sent again if an attempt took no effect.
    pub(crate) fn repeat(&self) -> Repeat {
        match (&self.pointing, self.yields) {
            (Some(_), _) => Repeat::Never,
            (None, _) if self.versioning == Versioning::Null => Repeat::UnlessOvertaken,
            (None, true) => Repeat::UnlessOvertaken,
            (None, false) => Repeat::Always,
        }
    }

    /// Returns options with this durability, without guards or blocks.
    pub fn durable(durability: Durability) -> WriteOptions<'static> {
        WriteOptions {
            durability,
            guards: Vec::new(),
            yields: false,
            pointing: None,
            upload: None,
            bundle: None,
            background: false,
            frees: false,
            taking: None,
            by_all: false,
            unlisted: false,
            versioning: Versioning::Plain,
            companions: Vec::new(),
        }
    }
}

//! An operation's requests to its driver, its outcome, and its phase.

use archipel_base::{Id, Stamp};
use archipel_storage::VersionName;

use crate::register::message::{Remembered, Request, Version};
use crate::register::quorum::{Quorums, ReplicaSet};
use crate::register::rules::{Mutant, Rules};
use crate::register::versions::VersionReport;

/// The next action of a driver.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Output<V> {
    /// Send a request.
    Send {
        /// The replica (the driver's index).
        to: usize,
        /// The round. The driver returns it with the answer.
        round: u32,
        /// The request.
        request: Request<V>,
    },
    /// Evaluate the condition of an update on this version.
    Decide(Version<V>),
    /// An attempt took no effect, and a replica may hold it. Return the version shown with the
    /// death of the attempt.
    Bury {
        /// The newest version.
        newest: Version<V>,
        /// True if a quorum holds it.
        is_chosen: bool,
        /// The name of the attempt.
        attempt: Stamp,
    },
    /// Wait a random time that doubles with `attempt`, then resume. With a slower growth, many
    /// coordinators that contend for one row hinder one another for ever.
    Pause {
        /// The number of times in a row that others were in the way.
        attempt: u32,
    },
    /// Fetch the layout of this epoch or a later one, then restart.
    Refresh {
        /// The epoch that a replica knows.
        epoch: u64,
    },
    /// The operation is over.
    Done(Outcome<V>),
}

/// The outcome of an operation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome<V> {
    /// A look at a version of an object gave this final state.
    Seen(VersionReport),
    /// A look at a version of an object gave this state, which must be settled.
    Open(VersionReport),
    /// A read returned the newest version. Its value is `None` if there is no such object.
    Value(Version<V>),
    /// The write took effect, once.
    Written {
        /// A stamp under which a quorum held it.
        stamp: Stamp,
    },
    /// The condition of an update failed on this version. Nothing was or will be written.
    Kept(Version<V>),
    /// The guarding row is not live. Nothing was or will be written.
    Guarded,
    /// So many replicas refused what the operation would take from a version that no quorum can
    /// permit it. Nothing was or will be written.
    Held,
    /// An attempt took no effect on the row and never will, and the operation does not
    /// [repeat](Repeat) it. But a replica may hold the changes of other versions that the attempt
    /// carried, and a look at such a version may settle them later. So a sender of changes must not
    /// say that nothing was done.
    Overtaken,
    /// No quorum answered, or others were in the way for too long. Nothing was or will be written.
    Unavailable,
    /// The write may have taken effect, or may yet, at most once.
    Unknown,
}

/// The decision of an update's condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision<V> {
    /// Write this (`None` deletes).
    Write(Option<V>),
    /// Leave the row as it is.
    Keep,
}

/// The next step of an operation if an attempt took no effect: to write again, or to end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Repeat {
    /// It does.
    Always,
    /// It does unless another writer's version is newer than its first attempt. This is for values
    /// that refer to content in other rows. A replica that accepted the attempt and then the newer
    /// version has that content dropped, so the value must not be written again.
    UnlessOvertaken,
    /// It does not. This is for writes with an [intent](crate::register::intent).
    Never,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Kind<V> {
    Read,
    Write {
        id: Id,
        value: Option<V>,
    },
    Update {
        id: Id,
    },
    /// Reads a version of an object.
    Look {
        name: VersionName,
    },
    /// Finds out the fate of another operation's write.
    Resolve {
        id: Id,
        /// The version that the write makes, if it has a name of its own.
        name: VersionName,
    },
}

/// The reason why a version is written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Purpose<V> {
    /// It is the operation's own.
    Put,
    /// A read found it, and the operation will act on it. Prepare again afterwards.
    Prepare,
    /// A read found it. Once a quorum holds it, the operation ends so.
    End(Outcome<V>),
}

impl<V> Purpose<V> {
    /// Returns true if the operation is acknowledged once a quorum accepts the version.
    pub fn is_own_write(&self) -> bool {
        matches!(self, Purpose::Put | Purpose::End(Outcome::Written { .. }))
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Promise<V> {
    pub(super) report: Report<V>,
    pub(super) remembered: Remembered,
}

/// A replica's memory of the operation's writes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Memory {
    pub(super) from: usize,
    pub(super) remembered: Remembered,
}

/// A version that a replica reported.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Report<V> {
    pub(super) from: usize,
    pub(super) version: Version<V>,
    pub(super) live: bool,
    /// The agreed floor of that replica.
    pub(super) agreed: Stamp,
    /// The versions of the object that it tells.
    pub(super) versions: Vec<VersionReport>,
}

/// A replica's answer about versions: its index, the reports, its agreed floor.
pub type Told = (usize, Vec<VersionReport>, Stamp);

/// The replicas that a read asks for the value. The others tell only its stamp.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Values {
    OfNearest,
    OfAll,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Phase<V> {
    Reading {
        values: Values,
        found: Vec<Report<V>>,
    },
    Preparing {
        ballot: Stamp,
        promises: Vec<Promise<V>>,
    },
    Deciding {
        ballot: Stamp,
        newest: Version<V>,
        versions: Vec<Told>,
    },
    Burying {
        ballot: Stamp,
        newest: Version<V>,
        outcome: Outcome<V>,
    },
    Writing {
        version: Version<V>,
        purpose: Purpose<V>,
        accepted: ReplicaSet,
    },
    Pausing,
    Refreshing,
    Over,
}

/// Returns the layouts whose majorities count: all, except for a mutant.
pub(super) fn counted(rules: Rules, quorums: Quorums) -> Quorums {
    if rules.breaks(Mutant::OneLayoutQuorum) {
        quorums.newest_only()
    } else {
        quorums
    }
}

/// The start parameters of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Start {
    /// The rules: [`Rules::CORRECT`] except in checkers.
    pub rules: Rules,
    /// The replicas in the current layouts.
    pub quorums: Quorums,
}

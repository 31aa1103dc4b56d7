//! What an operation asks of its driver, how it ends, and where it stands.

use archipel_base::{Id, Stamp};

use crate::register::message::{Request, Version};
use crate::register::quorum::{Quorums, ReplicaSet};
use crate::register::rules::{Mutant, Rules};

/// What a driver does next.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Output<V> {
    /// Send a request.
    Send {
        /// To which replica (the driver's index).
        to: usize,
        /// To be handed back with the answer.
        round: u32,
        /// What.
        request: Request<V>,
    },
    /// Evaluate the condition of an update on what the row holds.
    Decide(Version<V>),
    /// Wait a random time that doubles with the number, then resume. (Growing slower, many that
    /// contend for one row hinder one another for ever.)
    Pause {
        /// How many times in a row others were in the way.
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

/// How an operation ended.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome<V> {
    /// A read: the newest version. Its value is `None` if there is no such object.
    Value(Version<V>),
    /// The write took effect, once.
    Written {
        /// A stamp under which a quorum held it.
        stamp: Stamp,
    },
    /// An update whose condition failed on this version. Nothing was or will be written.
    Kept(Version<V>),
    /// The guarding row is not live. Nothing was or will be written.
    Guarded,
    /// No quorum answered, or others were in the way for too long. Nothing was or will be written.
    Unavailable,
    /// The write may have taken effect, or may yet, at most once.
    Unknown,
}

/// What the condition of an update says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision<V> {
    /// Write this (`None` deletes).
    Write(Option<V>),
    /// Leave the row as it is.
    Keep,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Kind<V> {
    Read,
    Write { id: Id, value: Option<V> },
    Update { id: Id },
}

/// Why a version is being written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Purpose<V> {
    /// It is the operation's own.
    Put,
    /// It was found, and is to be acted upon: then prepare again.
    Prepare,
    /// It was found: once a quorum holds it, this is how the operation ends.
    End(Outcome<V>),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Promise<V> {
    pub(super) told: Told<V>,
    pub(super) accepted: Vec<Stamp>,
    pub(super) known_from: Stamp,
}

/// What a replica told that it holds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Told<V> {
    pub(super) from: usize,
    pub(super) version: Version<V>,
    pub(super) live: bool,
    /// The floor that was agreed there.
    pub(super) agreed: Stamp,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Phase<V> {
    Reading {
        with_values: bool,
        found: Vec<Told<V>>,
    },
    Preparing {
        ballot: Stamp,
        promises: Vec<Promise<V>>,
    },
    Deciding {
        ballot: Stamp,
        newest: Version<V>,
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

/// The layouts whose majorities count: all, but for a mutant.
pub(super) fn counted(rules: Rules, quorums: Quorums) -> Quorums {
    if rules.breaks(Mutant::OneLayoutQuorum) {
        quorums.newest_only()
    } else {
        quorums
    }
}

/// What an operation is begun with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Start {
    /// [`Rules::CORRECT`].
    pub rules: Rules,
    /// The replicas in the layouts in force.
    pub quorums: Quorums,
}

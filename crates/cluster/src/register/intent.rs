//! Intents: how an operation changes two rows of one partition although one row decides.
//!
//! The operation is a conditional write of the **deciding row**. Another row, the **pointing row**,
//! stays as it is and gets an *intent* that names the write. The intent means nothing by itself:
//! if the write is chosen, the pointing row is over; if it can no longer be chosen, the pointing
//! row is as it was before; if nobody can know any more, the pointing row is over, because "at
//! most once" comes first. An operation that meets an intent finds out
//! ([`Operation::resolve`](super::Operation::resolve)), and then writes the pointing row.
//!
//! # Rules at a replica, each in one transaction
//! - A `Prepare` of such an operation promises its ballot for both rows. It is refused unless the
//!   pointing row is live here and has no intent ([`promise`]).
//! - If the write makes a [version](super::versions) with a name of its own, the `Prepare` already
//!   gives the pointing row the intent, with that name ([`announce`]). A replica may keep an
//!   attempt that no quorum accepted, so who meets the upload later must know which attempt to
//!   bury.
//! - A replica that accepts the operation's write gives the pointing row the intent, under the
//!   write's stamp, whatever brought the write. If the pointing row cannot take the intent under
//!   that stamp, the replica does not accept the write. Nor does it accept the write if it lacks
//!   the pointing row: it could get that row later, without the intent. First it brings that row,
//!   or learns from a quorum that it is over ([`mark`]).
//!
//! # Rules for the coordinator
//! - It sends its write once. If the write takes no effect, it begins again with a new id.
//! - `docs/internals/consistency.md` gives the argument.

use archipel_base::{Id, Stamp};
use archipel_storage::VersionName;
use serde::{Deserialize, Serialize};

use super::coordinator::Outcome;
use super::message::Answer;
use super::replica::Cell;
use super::rules::{Mutant, Rules};

/// A write of the deciding row, as the pointing row names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Intent {
    /// The id of the write.
    #[serde(rename = "w")]
    pub write: Id,
    /// The write went out under higher stamps than this one only.
    #[serde(rename = "a")]
    pub after: Stamp,
    /// The write went out in this epoch or later ones only.
    #[serde(rename = "e")]
    pub epoch: u64,
    /// The name of the version that the write makes; `None` for the null version, and if it makes
    /// none.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub name: VersionName,
}

/// The state of a pointing row at a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pointing {
    /// The row is over.
    Over,
    /// The row was never here, or is over and its tombstone is gone.
    Absent,
    /// The row is live and points to nothing.
    Live,
    /// The row points to this write.
    To(Id),
}

/// Promises a ballot for a pointing row. Returns the row's new state, or the answer that refuses
/// the ballot for both rows.
#[expect(clippy::result_large_err, reason = "the answer is sent as it is")]
pub fn promise<V: Clone>(
    rules: Rules,
    row: &Cell<V>,
    state: Pointing,
    ballot: Stamp,
) -> Result<Cell<V>, Answer<V>> {
    if state != Pointing::Live {
        return Err(Answer::Guarded);
    }
    if ballot <= row.stamp || ballot < row.promised {
        return Err(stale(row));
    }
    let promised = if rules.breaks(Mutant::PromiseOneRow) {
        row.promised
    } else {
        ballot
    };
    Ok(Cell {
        promised,
        ..row.clone()
    })
}

/// Promises a ballot for a pointing row that gets the intent of `write` at once, under the ballot.
/// Returns true if the row changes, or the answer that refuses the ballot for both rows.
#[expect(clippy::result_large_err, reason = "the answer is sent as it is")]
pub fn announce<V: Clone>(
    rules: Rules,
    row: &Cell<V>,
    state: Pointing,
    ballot: Stamp,
    write: Id,
) -> Result<bool, Answer<V>> {
    let state = match state {
        // A repeated message.
        Pointing::To(id) if id == write && row.stamp == ballot => return Ok(false),
        Pointing::To(id) if id == write => Pointing::Live,
        other => other,
    };
    promise(rules, row, state, ballot).map(|_| true)
}

/// The effect on a pointing row when a replica accepts a write of the deciding row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Marking<V> {
    /// It stays as it is.
    Stay,
    /// It gets the intent, under the write's stamp.
    Mark,
    /// It cannot get the intent, so the replica refuses the write.
    Refuse(Answer<V>),
}

/// Says what happens to a pointing row if `write` is accepted under `stamp`. `may_lack` is true if
/// the replica may lack the row: a quorum has told that it is over, or a later write names this
/// one.
pub fn mark<V>(
    rules: Rules,
    row: &Cell<V>,
    state: Pointing,
    (stamp, write): (Stamp, Id),
    may_lack: bool,
) -> Marking<V> {
    match state {
        Pointing::Over => Marking::Stay,
        Pointing::Absent if may_lack || rules.breaks(Mutant::MarkAbsent) => Marking::Stay,
        Pointing::Absent => Marking::Refuse(Answer::LacksPointing),
        Pointing::To(id) if id == write && row.stamp >= stamp => Marking::Stay,
        _ if stamp <= row.stamp || stamp < row.promised => Marking::Refuse(stale(row)),
        _ => Marking::Mark,
    }
}

fn stale<V>(row: &Cell<V>) -> Answer<V> {
    Answer::Stale {
        highest: row.promised.max(row.stamp),
        // The deciding row may accept writes below the ballot yet.
        remembered: None,
    }
}

/// The fate of the write that an intent names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It took effect.
    Chosen,
    /// It did not take effect and never will.
    Never,
    /// Nobody can know any more. It will not take effect from now on.
    Unknown,
}

impl Fate {
    /// Returns the fate that the outcome of [`Operation::resolve`](super::Operation::resolve)
    /// tells, or `None` if too few replicas answered.
    pub fn of<V>(rules: Rules, outcome: &Outcome<V>) -> Option<Fate> {
        match outcome {
            Outcome::Written { .. } => Some(Fate::Chosen),
            Outcome::Kept(_) => Some(Fate::Never),
            Outcome::Unknown if rules.breaks(Mutant::UndoUnknown) => Some(Fate::Never),
            Outcome::Unknown => Some(Fate::Unknown),
            _ => None,
        }
    }

    /// Returns true if the pointing row is over.
    pub fn ends(self) -> bool {
        self != Fate::Never
    }
}

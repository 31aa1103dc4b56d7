//! Floors: tombstones and unused promises are dropped by agreement, not by age.
//!
//! A partition's floor moves to a stamp F in four steps. *Every* replica of *every* live layout
//! version answers each step durably. While one replica is unreachable, the floor waits.
//! 1. **close**: the replica refuses new stamps at or below F from then on.
//! 2. **compare**: each replica returns a digest of its rows up to F. If digests differ, the round
//!    ends. The replicas exchange rows ([`spread`](super::replica::spread)), and a new round
//!    begins.
//! 3. **freeze**: each replica whose digest is still the same applies no rows at or below F from
//!    peers any more. A replica whose digest has changed refuses, and the round ends.
//! 4. **agree**: tombstones and promises at or below F count as gone.
//!
//! Once all replicas have closed and frozen F, their rows up to F only ever get newer. All of them
//! were the same when each replica froze. So no replica holds an older version than any tombstone
//! up to F, nor ever will. The tombstones are not needed any more. And a row up to F that one
//! replica lacks was overwritten or deleted there: what another one reported earlier is of the
//! past.
//!
//! A round may end between the steps. A row that a frozen replica lacks then cannot be applied; it
//! is written again by a quorum under a stamp above F.
//!
//! A replica that joins with a new layout version brings no floor and needs none. The older
//! replicas agreed before any of them knew the new epoch, so their agreement did not need the new
//! replica. Nothing of an earlier epoch reaches it (an operation that learns of a new epoch begins
//! again, see [`epoch`](super::epoch)). It applies rows below the older replicas' floors, and takes
//! part in the next floor.

use archipel_base::Stamp;
use serde::{Deserialize, Serialize};

use super::quorum::{Quorums, ReplicaSet};
use super::rules::{Mutant, Rules};

/// A replica's floors of one partition. Durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Floors {
    /// New stamps at or below this are refused.
    pub closed: Stamp,
    /// Rows at or below this are not applied from peers any more. At least `agreed`.
    pub frozen: Stamp,
    /// Rows at or below this are complete here, and promises are void.
    pub agreed: Stamp,
    /// The epoch in which `agreed` was agreed.
    pub agreed_epoch: u64,
    /// Tombstones at or below this are gone, or may be dropped. At least `agreed`.
    pub gone: Stamp,
    /// The epoch in which the replica joined the partition. It took no part in earlier agreements.
    pub joined_epoch: u64,
}

impl Floors {
    /// Returns the floors of an empty replica that joins with the layout of `epoch`.
    pub fn joining(epoch: u64) -> Floors {
        Floors {
            closed: Stamp::ZERO,
            frozen: Stamp::ZERO,
            agreed: Stamp::ZERO,
            agreed_epoch: 0,
            gone: Stamp::ZERO,
            joined_epoch: epoch,
        }
    }

    /// Learns from a peer of the same epoch that `floor` was agreed in `epoch`. Its tombstones are
    /// gone. If this replica took part, it also holds all other rows up to the floor.
    pub fn hear(&mut self, floor: Stamp, epoch: u64) {
        if floor > self.closed {
            return;
        }
        self.gone = self.gone.max(floor);
        if self.joined_epoch <= epoch && floor > self.agreed {
            self.agreed = floor;
            self.agreed_epoch = epoch;
            self.frozen = self.frozen.max(floor);
        }
    }
}

/// A request of a floor round to a replica. The epoch fences it as any other request. `F` is a
/// digest of a set of rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum FloorRequest<F> {
    /// Asks the replica to refuse new stamps at or below `floor`.
    Close {
        /// F.
        floor: Stamp,
    },
    /// Asks for the digest of the rows up to `floor`, without tombstones up to `gone`.
    Compare {
        /// F.
        floor: Stamp,
        /// The highest floor that a member has agreed to already.
        gone: Stamp,
        /// The epoch of that agreement.
        gone_epoch: u64,
    },
    /// Asks the replica to apply no rows up to `floor` from peers any more, if their digest is
    /// still this one.
    Freeze {
        /// F.
        floor: Stamp,
        /// The digest that all replicas returned.
        rows: F,
    },
    /// Tells the replica that all replicas froze the same rows up to `floor`.
    Agree {
        /// F.
        floor: Stamp,
    },
}

/// A replica's answer to a floor round. `F` is a digest of a set of rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum FloorAnswer<F> {
    /// The floor is closed, durably.
    Closed {
        /// The highest floor agreed by this replica.
        agreed: Stamp,
        /// The epoch of that agreement.
        agreed_epoch: u64,
    },
    /// The digest of the rows up to the floor. To `Freeze`: it has changed.
    Rows(F),
    /// The rows up to the floor are frozen, durably.
    Frozen,
    /// The floor is agreed, durably.
    Agreed,
}

/// Answers a floor round's request and changes `floors`, which must be durable before the answer
/// leaves.
///
/// `rows_up_to(floor, gone)` returns the digest of the replica's rows with stamps up to `floor`,
/// without tombstones up to `gone`. It runs in the same transaction. For floors on the hour, the
/// digests of storage's windows add up to it once the droppable tombstones are dropped.
///
/// # Errors
/// The error of `rows_up_to`. Changes of `floors` until then count.
pub fn answer<F: PartialEq, E>(
    rules: Rules,
    floors: &mut Floors,
    epoch: u64,
    request: FloorRequest<F>,
    rows_up_to: impl FnOnce(Stamp, Stamp) -> Result<F, E>,
) -> Result<FloorAnswer<F>, E> {
    Ok(match request {
        FloorRequest::Close { floor } => {
            floors.closed = floors.closed.max(floor);
            if rules.breaks(Mutant::DropTombstoneEarly) {
                floors.gone = floors.gone.max(floor);
            }
            FloorAnswer::Closed {
                agreed: floors.agreed,
                agreed_epoch: floors.agreed_epoch,
            }
        }
        FloorRequest::Compare {
            floor,
            gone,
            gone_epoch,
        } => {
            floors.hear(gone, gone_epoch);
            FloorAnswer::Rows(rows_up_to(floor, floors.gone)?)
        }
        FloorRequest::Freeze { floor, rows } => {
            let now = rows_up_to(floor, floors.gone)?;
            if now != rows || floor > floors.closed {
                return Ok(FloorAnswer::Rows(now));
            }
            floors.frozen = floors.frozen.max(floor);
            FloorAnswer::Frozen
        }
        FloorRequest::Agree { floor } => {
            floors.hear(floor, epoch);
            FloorAnswer::Agreed
        }
    })
}

/// The next action of a floor round's driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FloorOutput<F> {
    /// Send this request to all of [`FloorRound::waiting`]. Repeat it as often as messages are
    /// lost.
    Ask(FloorRequest<F>),
    /// The replicas' rows differ. Exchange rows up to the floor, and begin a new round.
    Differ,
    /// All replicas agreed.
    Agreed,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Stage {
    Close,
    Compare,
    Freeze,
    Agree,
    Over,
}

/// One attempt to move a partition's floor. Any node may run one, several at once, and may give up
/// at any time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FloorRound<F> {
    rules: Rules,
    members: Quorums,
    floor: Stamp,
    gone: Stamp,
    gone_epoch: u64,
    stage: Stage,
    answered: ReplicaSet,
    digest: Option<F>,
}

impl<F: Clone + PartialEq> FloorRound<F> {
    /// Begins to move the floor to `floor`, which should lie well in the past.
    pub fn new(rules: Rules, members: Quorums, floor: Stamp) -> (FloorRound<F>, FloorOutput<F>) {
        let round = FloorRound {
            rules,
            members,
            floor,
            gone: Stamp::ZERO,
            gone_epoch: 0,
            stage: Stage::Close,
            answered: ReplicaSet::EMPTY,
            digest: None,
        };
        (round, FloorOutput::Ask(FloorRequest::Close { floor }))
    }

    /// Returns the replicas that have not answered the current request.
    pub fn waiting(&self) -> ReplicaSet {
        self.members.all().without(self.answered)
    }

    /// Counts a replica's answer to the current request. The driver filters out answers to earlier
    /// ones.
    pub fn on_answer(&mut self, from: usize, answer: FloorAnswer<F>) -> Option<FloorOutput<F>> {
        match (self.stage, answer) {
            (
                Stage::Close,
                FloorAnswer::Closed {
                    agreed,
                    agreed_epoch,
                },
            ) => {
                if agreed > self.gone {
                    (self.gone, self.gone_epoch) = (agreed, agreed_epoch);
                }
            }
            (Stage::Compare, FloorAnswer::Rows(rows)) => {
                if *self.digest.get_or_insert_with(|| rows.clone()) != rows {
                    self.stage = Stage::Over;
                    return Some(FloorOutput::Differ);
                }
            }
            (Stage::Freeze, FloorAnswer::Rows(_)) => {
                self.stage = Stage::Over;
                return Some(FloorOutput::Differ);
            }
            (Stage::Freeze, FloorAnswer::Frozen) | (Stage::Agree, FloorAnswer::Agreed) => {}
            _ => return None,
        }
        self.answered.insert(from);
        self.next_stage()
    }

    fn next_stage(&mut self) -> Option<FloorOutput<F>> {
        let all = self.waiting().is_empty();
        let enough =
            self.rules.breaks(Mutant::FloorWithoutAbsent) && self.members.is_quorum(self.answered);
        if !all && !enough {
            return None;
        }
        self.answered = ReplicaSet::EMPTY;
        let (stage, output) = match self.stage {
            Stage::Close => (
                Stage::Compare,
                FloorOutput::Ask(FloorRequest::Compare {
                    floor: self.floor,
                    gone: self.gone,
                    gone_epoch: self.gone_epoch,
                }),
            ),
            Stage::Compare if !self.rules.breaks(Mutant::AgreeUnfrozen) => (
                Stage::Freeze,
                FloorOutput::Ask(FloorRequest::Freeze {
                    floor: self.floor,
                    rows: self.digest.clone()?,
                }),
            ),
            Stage::Compare | Stage::Freeze => (
                Stage::Agree,
                FloorOutput::Ask(FloorRequest::Agree { floor: self.floor }),
            ),
            Stage::Agree | Stage::Over => (Stage::Over, FloorOutput::Agreed),
        };
        self.stage = stage;
        Some(output)
    }
}

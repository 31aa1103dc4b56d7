//! Floors: how tombstones and unused promises go by agreement, not by age.
//!
//! A partition's floor moves to a stamp F in three steps, each answered durably by *every* replica
//! of *every* live layout version (while one is away, the floor waits):
//! 1. **close**: new stamps at or below F are refused from then on;
//! 2. **compare**: each tells a fingerprint of its rows up to F; where they differ, rows are
//!    exchanged ([`spread`](super::replica::spread)) and the step is made again;
//! 3. **agree**: tombstones and promises at or below F count as gone, and rows at or below F are
//!    not taken from peers any more.
//!
//! Once all have closed F, what a replica holds for a key only ever gets newer, so fingerprints
//! that are equal, though taken at different times, say that no replica holds an older version
//! than any tombstone up to F. The tombstones are not needed any more.
//!
//! A replica that joins with a new layout version brings no floor and needs none: what its elders
//! agreed was the same at all of them before any of them knew the new epoch, and nothing of an
//! earlier epoch reaches it (an operation that learns of a new epoch begins anew, see
//! [`epoch`](super::epoch)). It takes rows below its elders' floors, and has part in the next.

use archipel_base::Stamp;
use serde::{Deserialize, Serialize};

use super::quorum::{Quorums, ReplicaSet};
use super::rules::{Mutant, Rules};

/// A replica's floors of one partition. Durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Floors {
    /// New stamps at or below this are refused.
    pub closed: Stamp,
    /// Rows at or below this are complete here: none is taken from a peer, promises are void.
    pub agreed: Stamp,
    /// In which epoch that was agreed.
    pub agreed_epoch: u64,
    /// Tombstones at or below this are gone, or may go. At least `agreed`.
    pub gone: Stamp,
    /// In which epoch the replica joined the partition: earlier agreements were not with it.
    pub joined_epoch: u64,
}

impl Floors {
    /// The floors of a replica that comes, empty, with the layout of `epoch`.
    pub fn joining(epoch: u64) -> Floors {
        Floors {
            closed: Stamp::ZERO,
            agreed: Stamp::ZERO,
            agreed_epoch: 0,
            gone: Stamp::ZERO,
            joined_epoch: epoch,
        }
    }

    /// A peer of the same epoch says that `floor` was agreed in `epoch`: its tombstones are gone,
    /// and if this replica was asked, then it holds all else, too.
    pub fn hear(&mut self, floor: Stamp, epoch: u64) {
        if floor > self.closed {
            return;
        }
        self.gone = self.gone.max(floor);
        if self.joined_epoch <= epoch && floor > self.agreed {
            self.agreed = floor;
            self.agreed_epoch = epoch;
        }
    }
}

/// What a floor round asks of a replica. Fenced by epoch like all else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum FloorRequest {
    /// Refuse new stamps at or below `floor`.
    Close {
        /// F.
        floor: Stamp,
    },
    /// Tell the fingerprint of the rows up to `floor`, without tombstones up to `gone`.
    Compare {
        /// F.
        floor: Stamp,
        /// The highest floor that a member has agreed already.
        gone: Stamp,
        /// In which epoch.
        gone_epoch: u64,
    },
    /// All hold the same up to `floor`.
    Agree {
        /// F.
        floor: Stamp,
    },
}

/// What a replica answers to a floor round. `F` is a fingerprint of a set of rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum FloorAnswer<F> {
    /// Closed, durably.
    Closed {
        /// The highest floor agreed here.
        agreed: Stamp,
        /// In which epoch.
        agreed_epoch: u64,
    },
    /// The rows up to the floor.
    Rows(F),
    /// Agreed, durably.
    Agreed,
}

/// Answers a floor round's request, changing `floors` (durable before the answer leaves).
///
/// `rows_up_to(floor, gone)` is the fingerprint of the replica's rows with stamps up to `floor`,
/// without tombstones up to `gone`; it is taken in the same transaction. With floors on the hour the
/// windows that storage keeps add up to it, once the tombstones that may go are dropped.
pub fn answer<F>(
    rules: Rules,
    floors: &mut Floors,
    epoch: u64,
    request: FloorRequest,
    rows_up_to: impl FnOnce(Stamp, Stamp) -> F,
) -> FloorAnswer<F> {
    match request {
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
            FloorAnswer::Rows(rows_up_to(floor, floors.gone))
        }
        FloorRequest::Agree { floor } => {
            floors.hear(floor, epoch);
            FloorAnswer::Agreed
        }
    }
}

/// What a floor round's driver does next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FloorOutput {
    /// Send this to all of [`FloorRound::waiting`]; call again as often as messages are lost.
    Ask(FloorRequest),
    /// Their rows differ: exchange those up to the floor, and begin a new round.
    Differ,
    /// Agreed by all.
    Agreed,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Stage {
    Close,
    Compare,
    Agree,
    Over,
}

/// One attempt to move a partition's floor. Any node may run it, several at once, and give up at
/// any time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FloorRound<F> {
    rules: Rules,
    members: Quorums,
    floor: Stamp,
    gone: Stamp,
    gone_epoch: u64,
    stage: Stage,
    answered: ReplicaSet,
    fingerprint: Option<F>,
}

impl<F: Clone + PartialEq> FloorRound<F> {
    /// Begins to move the floor to `floor`, which should lie well in the past.
    pub fn new(rules: Rules, members: Quorums, floor: Stamp) -> (FloorRound<F>, FloorOutput) {
        let round = FloorRound {
            rules,
            members,
            floor,
            gone: Stamp::ZERO,
            gone_epoch: 0,
            stage: Stage::Close,
            answered: ReplicaSet::EMPTY,
            fingerprint: None,
        };
        (round, FloorOutput::Ask(FloorRequest::Close { floor }))
    }

    /// Who has not answered the request in force.
    pub fn waiting(&self) -> ReplicaSet {
        self.members.all().without(self.answered)
    }

    /// A replica answered the request in force (the driver tells answers to earlier ones apart).
    pub fn on_answer(&mut self, from: usize, answer: FloorAnswer<F>) -> Option<FloorOutput> {
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
                if *self.fingerprint.get_or_insert_with(|| rows.clone()) != rows {
                    self.stage = Stage::Over;
                    return Some(FloorOutput::Differ);
                }
            }
            (Stage::Agree, FloorAnswer::Agreed) => {}
            _ => return None,
        }
        self.answered.insert(from);
        self.next_stage()
    }

    fn next_stage(&mut self) -> Option<FloorOutput> {
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
            Stage::Compare => (
                Stage::Agree,
                FloorOutput::Ask(FloorRequest::Agree { floor: self.floor }),
            ),
            Stage::Agree | Stage::Over => (Stage::Over, FloorOutput::Agreed),
        };
        self.stage = stage;
        Some(output)
    }
}

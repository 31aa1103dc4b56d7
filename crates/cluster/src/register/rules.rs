//! The rules of the protocol as data, so that a checker can break each and must notice.

/// A way to break the protocol. Only checkers use them: each must be caught.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mutant {
    /// A read returns the newest value that it saw, though no quorum holds it.
    SkipWriteBack,
    /// A conditional write decides on a value that no quorum holds.
    ActOnMinority,
    /// A quorum that accepted a write under different stamps counts as one that accepted it.
    CountById,
    /// A refused write is tried again without finding out what became of it.
    BlindRetry,
    /// A replica accepts a write below its promise.
    AcceptBelowPromise,
    /// Acceptances under different layouts add up to a quorum of the last one.
    CountAcrossLayouts,
    /// A replica that forgot what it accepted says that it never did.
    ForgetMeansNever,
    /// A failed condition is answered while an earlier attempt of the same write may still surface.
    LeaveAttemptBehind,
    /// Only the newest of the live layout versions must give a majority.
    OneLayoutQuorum,
    /// A replica answers requests of a layout that it knows to be superseded.
    NoFence,
    /// An old layout version retires before its rows have moved.
    RetireEarly,
    /// Of a layout version with a skipped replica, one of those that are left is enough.
    SkippedAgree,
    /// A replica drops its tombstones when it closes a floor, before all agree.
    DropTombstoneEarly,
    /// A floor is agreed without the replicas that are away.
    FloorWithoutAbsent,
    /// What a replica told before a floor was agreed counts beside what another tells afterwards.
    BelievePast,
    /// A replica takes rows from a peer below a floor that was agreed; and they count, as with [`BelievePast`](Mutant::BelievePast).
    TakeBelowFloor,
    /// Anti-entropy hands a row to a replica over its promise.
    SpreadOverPromise,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 17] = [
        Mutant::SkipWriteBack,
        Mutant::ActOnMinority,
        Mutant::CountById,
        Mutant::BlindRetry,
        Mutant::AcceptBelowPromise,
        Mutant::CountAcrossLayouts,
        Mutant::ForgetMeansNever,
        Mutant::LeaveAttemptBehind,
        Mutant::OneLayoutQuorum,
        Mutant::NoFence,
        Mutant::RetireEarly,
        Mutant::SkippedAgree,
        Mutant::DropTombstoneEarly,
        Mutant::FloorWithoutAbsent,
        Mutant::BelievePast,
        Mutant::TakeBelowFloor,
        Mutant::SpreadOverPromise,
    ];
}

/// The rules in force. The only public way to get them gives the correct ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rules {
    broken: Option<Mutant>,
}

impl Rules {
    /// The protocol as it is.
    pub const CORRECT: Rules = Rules { broken: None };

    /// The protocol with one rule broken, for checkers only.
    #[doc(hidden)]
    pub fn broken(mutant: Mutant) -> Rules {
        Rules {
            broken: Some(mutant),
        }
    }

    /// Whether this rule is broken.
    pub(crate) fn breaks(&self, mutant: Mutant) -> bool {
        self.broken == Some(mutant)
    }
}

//! The rules of the protocol as data. A checker breaks each rule and must notice.

/// A way to break the protocol. Only checkers use it, and they must catch each one.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mutant {
    /// A read returns the newest value that it saw, although no quorum holds it.
    SkipWriteBack,
    /// A conditional write decides on a value that no quorum holds.
    ActOnMinority,
    /// Acceptances of one write under different stamps count together as a quorum.
    CountById,
    /// A coordinator tries a refused write again without resolving its fate first.
    BlindRetry,
    /// A replica accepts a write below its promise.
    AcceptBelowPromise,
    /// Acceptances under different layouts count together as a quorum of the last one.
    CountAcrossLayouts,
    /// A replica that forgot an acceptance answers that it never accepted the write.
    ForgetMeansNever,
    /// A failed condition is answered while an earlier attempt of the same write may still take
    /// effect.
    LeaveAttemptBehind,
    /// A majority of the newest live layout version alone counts as a quorum.
    OneLayoutQuorum,
    /// A replica answers requests of a layout that it knows to be superseded.
    NoFence,
    /// An old layout version retires before its rows have moved.
    RetireEarly,
    /// One remaining replica is enough in a layout version with a skipped replica.
    SkippedAgree,
    /// A replica drops its tombstones when it closes a floor, before all agree.
    DropTombstoneEarly,
    /// A floor is agreed without the replicas that are unreachable.
    FloorWithoutAbsent,
    /// An answer from before a floor was agreed counts beside an answer from afterwards.
    BelievePast,
    /// A replica applies rows below an agreed floor, and readers count them as with
    /// [`BelievePast`](Mutant::BelievePast).
    TakeBelowFloor,
    /// Anti-entropy gives a replica a row against its promise.
    SpreadOverPromise,
    /// A floor is agreed although a replica may have applied a row below it since the comparison.
    AgreeUnfrozen,
    /// A purged replica keeps its floors until its last row is gone.
    FloorOutlivesRows,
    /// An intent counts as undone although the fate of its write is unknown.
    UndoUnknown,
    /// An intent is undone without a read of the deciding row.
    UndoUnasked,
    /// A replica marks the pointing row in a second transaction, which a restart may prevent.
    MarkApart,
    /// A replica that another replica gives a value does not mark the pointing row.
    SpreadUnmarked,
    /// A `Prepare` promises nothing for the pointing row.
    PromiseOneRow,
    /// A write with an intent is sent again after it took no effect, without a new look at the
    /// pointing row.
    RepeatIntent,
    /// A write whose value does not name the pointing row is acknowledged although readers may have
    /// brought it to replicas that did not mark that row.
    TrustUnmarked,
    /// A replica that lacks a pointing row takes it for one that is over, and asks nobody.
    MarkAbsent,
    /// A replica drops the version that a newer one replaces.
    DropDisplaced,
    /// A replica does not apply the changes that a value carries.
    IgnoreChanges,
    /// A replica accepts a value that changes a version which it lacks.
    AcceptLacking,
    /// A change of a null version is applied to whichever null version the replica has.
    MixNullVersions,
    /// A copy of a kept version counts as an acceptance.
    CopiesAreFinal,
    /// The newest state of a version counts although too few replicas hold it.
    TrustMinority,
    /// The death of an attempt is written without the changes that the version found carries.
    ForgetChanges,
    /// The deletion of the current version leaves no version current.
    NoPromotion,
    /// An attempt that took no effect is not buried.
    LeaveGhost,
    /// A decision that took no effect is made again under the same id, and may mean another thing.
    RepeatDecision,
    /// A replica that another replica gives a value of the object's row keeps nothing.
    SpreadUnkept,
    /// A quorum of promises is enough to protect a null version.
    HoldByQuorum,
    /// A change of a bucket's settings is answered before every node knows of it.
    AnswerEarly,
    /// A write that guards refused ends without effect although a replica may hold its attempt, and
    /// may keep it as a version.
    RetryRefused,
    /// A deletion of a version that no promise shows writes nothing.
    KillKnown,
    /// A deletion of a version ends as refused although a replica may hold the death that an
    /// earlier attempt of it sent.
    RefuseOvertaken,
    /// A deletion of the null version that was overtaken is decided again.
    KillNullTwice,
    /// A row that held no version becomes a tombstone although it was written since.
    RetireWritten,
    /// A layout change moves the newest value of an object's row alone, not the version that was
    /// listed in it.
    MoveRowsAlone,
}

impl Mutant {
    /// All mutants that the register's own state machines can show.
    pub const ALL: [Mutant; 16] = [
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
        Mutant::SpreadOverPromise,
    ];

    /// The mutants that the model of two rows shows.
    pub const OF_TWO_ROWS: [Mutant; 8] = [
        Mutant::UndoUnknown,
        Mutant::UndoUnasked,
        Mutant::MarkApart,
        Mutant::SpreadUnmarked,
        Mutant::PromiseOneRow,
        Mutant::RepeatIntent,
        Mutant::TrustUnmarked,
        Mutant::MarkAbsent,
    ];

    /// The mutants that the model of versions shows.
    pub const OF_VERSIONS: [Mutant; 17] = [
        Mutant::DropDisplaced,
        Mutant::IgnoreChanges,
        Mutant::AcceptLacking,
        Mutant::MixNullVersions,
        Mutant::CopiesAreFinal,
        Mutant::TrustMinority,
        Mutant::ForgetChanges,
        Mutant::NoPromotion,
        Mutant::LeaveGhost,
        Mutant::RepeatDecision,
        Mutant::SpreadUnkept,
        Mutant::HoldByQuorum,
        Mutant::AnswerEarly,
        Mutant::RetireWritten,
        Mutant::KillKnown,
        Mutant::RefuseOvertaken,
        Mutant::KillNullTwice,
    ];

    /// The mutants that the model does not show, because its scenarios are too small. A test of
    /// each shows it with one schedule.
    pub const BY_SCHEDULE: [Mutant; 5] = [
        Mutant::TakeBelowFloor,
        Mutant::AgreeUnfrozen,
        Mutant::FloorOutlivesRows,
        Mutant::RetryRefused,
        Mutant::MoveRowsAlone,
    ];
}

/// The rules in force. The only public constant is the correct protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rules {
    broken: Option<Mutant>,
}

impl Rules {
    /// The correct protocol.
    pub const CORRECT: Rules = Rules { broken: None };

    /// Returns the protocol with one rule broken. For checkers only.
    #[doc(hidden)]
    pub fn broken(mutant: Mutant) -> Rules {
        Rules {
            broken: Some(mutant),
        }
    }

    /// Returns true if this rule is broken. For checkers only.
    #[doc(hidden)]
    pub fn breaks(&self, mutant: Mutant) -> bool {
        self.broken == Some(mutant)
    }
}

//! The coordinator: reads, writes and conditional writes of one row, on the node that took the
//! request.
//!
//! # For the author of a driver
//! [`Operation::read`], `write`, `update` or `resolve` starts an [`Operation`] and returns the
//! first [`Output`]s. Every later call returns more, until [`Output::Done`]:
//!
//! | output | what the driver does |
//! |---|---|
//! | `Send` | sends the request to that replica and calls [`on_answer`](Operation::on_answer) with the same `round`, or [`on_failure`](Operation::on_failure) if no answer can come |
//! | `Decide` | evaluates the condition on the version shown, at once, and calls [`decided`](Operation::decided) |
//! | `Bury` | composes the version shown with the death of the attempt, and calls [`buried`](Operation::buried) |
//! | `Pause` | other coordinators contend: waits a random time that starts near a round trip and doubles with `attempt`, then calls [`resume`](Operation::resume) |
//! | `Refresh` | a replica knows a newer layout: fetches it and calls [`restart`](Operation::restart) |
//! | `Done` | answers the client |
//!
//! If no answer arrives for a few round trips, call [`on_timeout`](Operation::on_timeout), and when
//! the client's time is over, [`give_up`](Operation::give_up). Messages may be lost, repeated and
//! reordered.
//!
//! `next` must return a stamp that this process never returned before and that is above its
//! argument: `|seen| { clock.observe(seen); clock.next(wall) }`.
//!
//! Updates of one row that pass through one node should queue there, or they disturb one another.

use archipel_base::{Id, Stamp};

use super::intent::Intent;
use super::message::Answer;
use super::quorum::{Quorums, ReplicaSet};
use super::rules::Rules;

mod advance;
mod fate;
mod promised;
mod rounds;
mod state;
mod versions;

pub use fate::PastFate;
use promised::Promised;
pub use state::{Decision, Outcome, Output, Repeat, Start, Told};
use state::{Kind, Memory, Phase, Values, counted};
use versions::OfVersions;
pub use versions::RowValue;

/// Returns a fresh stamp above its argument.
pub type NextStamp<'a> = dyn FnMut(Stamp) -> Stamp + 'a;

/// One read, write or conditional write of one row, in progress.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Operation<V> {
    rules: Rules,
    kind: Kind<V>,
    guarded: bool,
    /// The layouts since the operation's first own write went out. The last is in force.
    layouts: Vec<Quorums>,
    /// True if an epoch passed since then under which the operation did not run.
    skipped_epochs: bool,
    phase: Phase<V>,
    round: u32,
    /// The replicas that refused in this round.
    refused: ReplicaSet,
    /// The memories of the operation's writes, of those replicas that told them.
    memories: Vec<Memory>,
    /// The replicas that could not be asked in this round.
    failed: ReplicaSet,
    /// The replicas that the operation does without: others cannot store what these hold.
    left_out: ReplicaSet,
    /// The highest stamp seen, and the highest floor.
    highest: Stamp,
    floor: Stamp,
    /// The operation's own writes that went out: stamps, and replicas known to have accepted.
    attempts: Vec<(Stamp, ReplicaSet)>,
    /// No quorum held one of them below this stamp, nor ever will.
    never_below: Stamp,
    /// True if the guard refused one of them.
    guard_refused: bool,
    /// The operation's next step if an attempt took no effect.
    repeat: Repeat,
    /// True if only a quorum that accepted the operation's own messages acknowledges it.
    own_quorum: bool,
    of_versions: OfVersions,
    pauses: u32,
}

/// The number of times that an operation yields to others before it gives up.
const MAX_PAUSES: u32 = 64;
/// The number of pauses up to which an operation resolves an interrupted write again.
const MAX_SECOND_LOOKS: u32 = 8;
/// The number of own writes that an operation sends before it gives up.
const MAX_ATTEMPTS: usize = 32;

impl<V: RowValue> Operation<V> {
    /// Reads the newest version. Asks the replica with the lowest index for the value at once, and
    /// the others for their stamps.
    pub fn read(start: Start) -> (Operation<V>, Vec<Output<V>>) {
        let mut operation = Operation::new(start, Kind::Read, false);
        let outputs = operation.begin_reading(Values::OfNearest);
        (operation, outputs)
    }

    /// Writes `value` (`None` deletes) unconditionally: one round if nobody contends. `id` is fresh
    /// and random, and names this write. A `guarded` write takes effect only while the guarding row
    /// that the driver names is live.
    pub fn write(
        start: Start,
        id: Id,
        value: Option<V>,
        guarded: bool,
        next: &mut NextStamp<'_>,
    ) -> (Operation<V>, Vec<Output<V>>) {
        let kind = Kind::Write {
            id,
            value: value.clone(),
        };
        let mut operation = Operation::new(start, kind, guarded);
        let stamp = next(Stamp::ZERO);
        let outputs = operation.put(stamp, value);
        (operation, outputs)
    }

    /// Reads, decides and writes in one atomic step: two rounds if nobody contends.
    /// The operation may ask for the decision more than once. A later decision replaces the earlier
    /// one, which has not taken effect then. If the outcome is `Written`, one of the decided values
    /// took effect on the version that it was decided on.
    pub fn update(
        start: Start,
        id: Id,
        guarded: bool,
        next: &mut NextStamp<'_>,
    ) -> (Operation<V>, Vec<Output<V>>) {
        let mut operation = Operation::new(start, Kind::Update { id }, guarded);
        let outputs = operation.prepare(next);
        (operation, outputs)
    }

    /// Finds out what became of the write that an intent names, so that it is known for good:
    /// the outcome is `Written`, `Kept` (it took no effect) or `Unknown`. None of them changes any
    /// more. `Unavailable` means that too few replicas answered. If the write makes a version with
    /// a name of its own and took no effect, the version is dead. If the outcome is `Unknown`, the
    /// version may live.
    /// `epoch` is the current one. `seen` is the stamp of the intent.
    pub fn resolve(
        start: Start,
        intent: &Intent,
        epoch: u64,
        seen: Stamp,
        next: &mut NextStamp<'_>,
    ) -> (Operation<V>, Vec<Output<V>>) {
        let kind = Kind::Resolve {
            id: intent.write,
            name: intent.name,
        };
        let mut operation = Operation::new(start, kind, false);
        operation.attempts = vec![(intent.after, ReplicaSet::EMPTY)];
        operation.skipped_epochs = intent.epoch != epoch;
        operation.highest = seen.max(intent.after);
        let outputs = operation.prepare(next);
        (operation, outputs)
    }

    /// Returns the operation. `repeat` says whether it writes again if an attempt took no effect.
    #[must_use]
    pub fn repeating(self, repeat: Repeat) -> Operation<V> {
        Operation { repeat, ..self }
    }

    /// Returns the operation. If `own_quorum` is true, only a quorum that accepted its own messages
    /// acknowledges it. It is for writes that mark another row, if their value does not name that
    /// row: a reader brings such a value to other replicas without the mark.
    #[must_use]
    pub fn by_own_quorum(self, own_quorum: bool) -> Operation<V> {
        Operation { own_quorum, ..self }
    }

    fn new(start: Start, kind: Kind<V>, guarded: bool) -> Operation<V> {
        Operation {
            rules: start.rules,
            kind,
            guarded,
            layouts: vec![counted(start.rules, start.quorums)],
            skipped_epochs: false,
            phase: Phase::Over,
            round: 0,
            refused: ReplicaSet::EMPTY,
            memories: Vec::new(),
            failed: ReplicaSet::EMPTY,
            left_out: ReplicaSet::EMPTY,
            highest: Stamp::ZERO,
            floor: Stamp::ZERO,
            attempts: Vec::new(),
            never_below: Stamp::ZERO,
            guard_refused: false,
            repeat: Repeat::Always,
            own_quorum: false,
            of_versions: OfVersions::default(),
            pauses: 0,
        }
    }

    /// Returns true if the operation has ended.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Returns true while the operation reads and has changed nothing.
    pub fn is_reading(&self) -> bool {
        matches!(self.phase, Phase::Reading { .. })
    }

    /// Returns the current round. Answers to earlier rounds only raise the highest stamp seen.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Returns the replicas without which this round goes on: they hold what the others cannot
    /// store.
    pub fn goes_without(&self) -> ReplicaSet {
        match self.phase {
            Phase::Writing { .. } => ReplicaSet::EMPTY,
            _ => self.left_out,
        }
    }

    /// Handles an answer of `from` to the request of `round`. Ignores repeated and late answers.
    pub fn on_answer(
        &mut self,
        from: usize,
        round: u32,
        answer: Answer<V>,
        next: &mut NextStamp<'_>,
    ) -> Vec<Output<V>> {
        if let Answer::Stale { highest, .. } = &answer {
            self.highest = self.highest.max(*highest);
        }
        if round != self.round || self.is_over() {
            return Vec::new();
        }
        if let Answer::Superseded { epoch } = answer {
            // This also counts from a former replica, because a newer layout is a fact.
            return self.refresh(epoch);
        }
        if !self.quorums().all().contains(from) {
            return Vec::new();
        }
        if let Answer::Guarded = answer {
            return self.on_guarded(from, next);
        }
        self.note(from, answer);
        self.advance(false, next)
    }

    /// Notes that `from` will not answer the request of `round` (unreachable, or its storage
    /// failed).
    pub fn on_failure(
        &mut self,
        from: usize,
        round: u32,
        next: &mut NextStamp<'_>,
    ) -> Vec<Output<V>> {
        if round != self.round {
            return Vec::new();
        }
        self.failed.insert(from);
        self.advance(false, next)
    }

    /// Goes on after a silence with the answers it has, or repeats the unanswered requests.
    pub fn on_timeout(&mut self, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        let outputs = self.advance(true, next);
        if !outputs.is_empty() {
            return outputs;
        }
        self.failed = self.goes_without();
        self.send_to(self.unanswered())
    }

    /// Ends the operation when the client's time is over. Returns the best outcome that is certain.
    pub fn give_up(&mut self) -> Vec<Output<V>> {
        if self.is_over() {
            return Vec::new();
        }
        self.end(self.cannot_go_on())
    }

    /// Goes on after the wait that `Pause` asked for.
    pub fn resume(&mut self, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        if self.phase != Phase::Pausing {
            return Vec::new();
        }
        self.prepare(next)
    }

    /// Goes on under a newer layout. `successive` is true if its epoch directly follows the current
    /// one. The indices of known replicas must not change.
    pub fn restart(
        &mut self,
        quorums: Quorums,
        successive: bool,
        next: &mut NextStamp<'_>,
    ) -> Vec<Output<V>> {
        if self.is_over() {
            return Vec::new();
        }
        if self.attempts.is_empty() {
            self.layouts.clear();
        } else {
            self.skipped_epochs |= !successive;
        }
        self.layouts.push(counted(self.rules, quorums));
        self.never_below = Stamp::ZERO;
        self.left_out = ReplicaSet::EMPTY;
        match self.kind {
            Kind::Read => self.begin_reading(Values::OfNearest),
            Kind::Look { .. } => self.begin_reading(Values::OfAll),
            Kind::Write { .. } | Kind::Update { .. } | Kind::Resolve { .. } => self.prepare(next),
        }
    }

    /// Returns the stamp under which a decided value is written first, while a decision is awaited.
    /// It is above the stamp of the version that `Decide` showed, and above the floors that the
    /// quorum has closed, so above every tombstone that it has dropped.
    pub fn deciding_under(&self) -> Option<Stamp> {
        match &self.phase {
            Phase::Deciding { ballot, .. } => Some(*ballot),
            _ => None,
        }
    }

    /// Applies an update's decision on the version that `Decide` showed.
    pub fn decided(&mut self, decision: Decision<V>) -> Vec<Output<V>> {
        let Phase::Deciding { ballot, newest, .. } = &self.phase else {
            return Vec::new();
        };
        let (ballot, newest) = (*ballot, newest.clone());
        match decision {
            Decision::Write(value) => self.put(ballot, value),
            Decision::Keep => {
                let promised = Promised {
                    ballot,
                    newest: newest.clone(),
                    is_held: true,
                    promises: &[],
                };
                self.settle(promised, Outcome::Kept(newest))
            }
        }
    }

    fn quorums(&self) -> &Quorums {
        // `new` adds one layout, and `restart` leaves at least one.
        self.layouts.last().expect("a layout")
    }

    fn write_id(&self) -> Option<Id> {
        match self.kind {
            Kind::Read | Kind::Look { .. } => None,
            Kind::Write { id, .. } | Kind::Update { id } | Kind::Resolve { id, .. } => Some(id),
        }
    }
}

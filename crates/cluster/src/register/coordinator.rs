//! The coordinator: reads, writes and conditional writes of one row, from the side of the node
//! that took the request.
//!
//! # For the author of a driver
//! An [`Operation`] is started by [`Operation::read`], [`write`](Operation::write) or
//! [`update`](Operation::update), each of which gives the first [`Output`]s; every later call gives
//! more, until [`Output::Done`]:
//!
//! | output | what the driver does |
//! |---|---|
//! | `Send` | sends the request to that replica and calls [`on_answer`](Operation::on_answer) with the same `round`, or [`on_failure`](Operation::on_failure) once it is known that none will come |
//! | `Decide` | evaluates the condition on the version shown, at once, and calls [`decided`](Operation::decided) |
//! | `Pause` | others contend: waits a random time, doubling with `attempt` from about a round trip, then calls [`resume`](Operation::resume) |
//! | `Refresh` | a replica knows a newer layout: fetches it and calls [`restart`](Operation::restart) |
//! | `Done` | answers the client |
//!
//! When nothing came for a while (a few round trips), call [`on_timeout`](Operation::on_timeout): it
//! goes on with the answers there are, or sends again what is unanswered. When the client's time
//! is over, call [`give_up`](Operation::give_up): it says what can be said. Messages may be lost,
//! repeated and reordered at will.
//!
//! `next` must give a stamp that this process never gave before and that is above its argument:
//! `|seen| { clock.observe(seen); clock.next(wall) }`.
//!
//! Updates of one row that pass through one node should queue there: they would only disturb one
//! another. Nothing rests on it.

use archipel_base::{Id, Stamp};

use super::message::Answer;
use super::quorum::{Quorums, ReplicaSet};
use super::rules::Rules;

mod advance;
mod rounds;
mod state;

pub use state::{Decision, Outcome, Output, Start};
use state::{Kind, Phase, Promise, Told, counted};

/// Gives a fresh stamp above the one shown.
pub type NextStamp<'a> = dyn FnMut(Stamp) -> Stamp + 'a;

/// One read, write or conditional write of one row, in progress.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Operation<V> {
    rules: Rules,
    kind: Kind<V>,
    guarded: bool,
    /// The layouts that the operation ran under since its first own write went out; the last is in force.
    layouts: Vec<Quorums>,
    /// Epochs passed since then under which it did not run.
    skipped_epochs: bool,
    phase: Phase<V>,
    round: u32,
    /// Who refused in this round.
    refused: ReplicaSet,
    /// Who could not be asked in this round.
    failed: ReplicaSet,
    /// The highest stamp heard of, and the highest floor.
    highest: Stamp,
    floor: Stamp,
    /// The operation's own writes that went out: stamps, and who is known to have accepted.
    attempts: Vec<(Stamp, ReplicaSet)>,
    /// The guard refused one of them.
    guard_refused: bool,
    pauses: u32,
}

/// How often an operation yields to others before it gives up.
const MAX_PAUSES: u32 = 64;
/// Up to how many pauses an operation asks again what became of its write where others got in the way of asking.
const MAX_SECOND_LOOKS: u32 = 8;
/// How many own writes an operation sends out before it gives up.
const MAX_ATTEMPTS: usize = 32;

impl<V: Clone + Eq> Operation<V> {
    /// Reads the newest version. The replica with the lowest index is asked for the value at once,
    /// the others for their stamps.
    pub fn read(start: Start) -> (Operation<V>, Vec<Output<V>>) {
        let mut operation = Operation::new(start, Kind::Read, false);
        let outputs = operation.begin_reading(false);
        (operation, outputs)
    }

    /// Writes `value` (`None` deletes) whatever is there: one round if nobody contends.
    /// `id` is fresh and random: it names this write. `guarded`: only where the row that the
    /// driver names beside the request is live.
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

    /// Reads, decides and writes in one atomic act: two rounds if nobody contends.
    ///
    /// The decision may be asked for more than once; a later one replaces the one before, which
    /// then has not taken effect. If the outcome is `Written`, one of the values decided took
    /// effect on the version that it was decided on.
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
            failed: ReplicaSet::EMPTY,
            highest: Stamp::ZERO,
            floor: Stamp::ZERO,
            attempts: Vec::new(),
            guard_refused: false,
            pauses: 0,
        }
    }

    /// Whether the operation has ended.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether it looks at what there is, and has not begun to change anything.
    pub fn is_reading(&self) -> bool {
        matches!(self.phase, Phase::Reading { .. })
    }

    /// The round in force: answers to earlier ones change nothing but what stamps are known of.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// An answer of `from` to the request of `round` came in. Repeated and late ones are ignored.
    pub fn on_answer(
        &mut self,
        from: usize,
        round: u32,
        answer: Answer<V>,
        next: &mut NextStamp<'_>,
    ) -> Vec<Output<V>> {
        if let Answer::Stale { highest } = &answer {
            self.highest = self.highest.max(*highest);
        }
        if round != self.round || self.is_over() {
            return Vec::new();
        }
        if let Answer::Superseded { epoch } = answer {
            // Also from one who is no replica any more: that there is a newer layout is a fact.
            return self.refresh(epoch);
        }
        if !self.quorums().all().contains(from) {
            return Vec::new();
        }
        match answer {
            Answer::Superseded { .. } => {}
            Answer::Stale { .. } => self.refused.insert(from),
            Answer::Ahead => self.failed.insert(from),
            Answer::Guarded => return self.on_guarded(from, next),
            Answer::Found {
                version,
                live,
                floor,
                agreed,
            } => {
                let told = Told {
                    from,
                    version,
                    live,
                    agreed,
                };
                self.on_found(told, floor);
            }
            Answer::Promised {
                version,
                accepted,
                known_from,
                floor,
                agreed,
            } => {
                self.floor = self.floor.max(floor);
                let told = Told {
                    from,
                    live: version.value.is_some(),
                    version,
                    agreed,
                };
                self.on_promised(Promise {
                    told,
                    accepted,
                    known_from,
                });
            }
            Answer::Accepted => self.on_accepted(from),
        }
        self.advance(false, next)
    }

    /// No answer of `from` to the request of `round` will come (unreachable, or its storage failed).
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

    /// Nothing came for a while: goes on with the answers there are, or sends again what is unanswered.
    pub fn on_timeout(&mut self, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        let outputs = self.advance(true, next);
        if !outputs.is_empty() {
            return outputs;
        }
        self.failed = ReplicaSet::EMPTY;
        self.send_to(self.unanswered())
    }

    /// The client's time is over: ends the operation with what can be said.
    pub fn give_up(&mut self) -> Vec<Output<V>> {
        if self.is_over() {
            return Vec::new();
        }
        self.end(self.cannot_go_on())
    }

    /// The wait that `Pause` asked for is over.
    pub fn resume(&mut self, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        if self.phase != Phase::Pausing {
            return Vec::new();
        }
        self.prepare(next)
    }

    /// Goes on under a newer layout, `successive` if its epoch is the very next after the one in force.
    /// The indices of replicas that were known before must not change.
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
        match self.kind {
            Kind::Read => self.begin_reading(false),
            Kind::Write { .. } | Kind::Update { .. } => self.prepare(next),
        }
    }

    /// What the condition of an update says about the version shown by `Decide`.
    pub fn decided(&mut self, decision: Decision<V>) -> Vec<Output<V>> {
        let Phase::Deciding { ballot, newest } = &self.phase else {
            return Vec::new();
        };
        let (ballot, newest) = (*ballot, newest.clone());
        match decision {
            Decision::Write(value) => self.put(ballot, value),
            Decision::Keep => self.settle(ballot, newest.clone(), true, Outcome::Kept(newest)),
        }
    }

    fn quorums(&self) -> &Quorums {
        // `new` puts one in, and `restart` leaves at least one.
        self.layouts.last().expect("a layout")
    }

    fn write_id(&self) -> Option<Id> {
        match self.kind {
            Kind::Read => None,
            Kind::Write { id, .. } | Kind::Update { id } => Some(id),
        }
    }
}

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
//! | `Pause` | others contend: waits a random time that grows with `attempt`, then calls [`resume`](Operation::resume) |
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

use super::message::{Answer, Request, Version};
use super::quorum::{Quorums, ReplicaSet};
use super::rules::{Mutant, Rules};

mod advance;

/// Gives a fresh stamp above the one shown.
pub type NextStamp<'a> = dyn FnMut(Stamp) -> Stamp + 'a;

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
    /// Wait a random time that grows with the number, then resume.
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
enum Kind<V> {
    Read,
    Write { id: Id, value: Option<V> },
    Update { id: Id },
}

/// Why a version is being written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Purpose<V> {
    /// It is the operation's own.
    Put,
    /// It was found, and is to be acted upon: then prepare again.
    Prepare,
    /// It was found: once a quorum holds it, this is how the operation ends.
    End(Outcome<V>),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Promise<V> {
    from: usize,
    version: Version<V>,
    accepted: Vec<Stamp>,
    known_from: Stamp,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Phase<V> {
    Reading {
        with_values: bool,
        found: Vec<(usize, Version<V>, bool)>,
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

/// One read, write or conditional write of one row, in progress.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Operation<V> {
    rules: Rules,
    kind: Kind<V>,
    guarded: bool,
    /// The layouts that the operation ran under since its first own write went out; the last is in force.
    layouts: Vec<Quorums>,
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
/// How many own writes an operation sends out before it gives up.
const MAX_ATTEMPTS: usize = 32;

/// The layouts whose majorities count: all, but for a mutant.
fn counted(rules: Rules, quorums: Quorums) -> Quorums {
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
            } => self.on_found(from, version, live, floor),
            Answer::Promised {
                version,
                accepted,
                known_from,
                floor,
            } => {
                self.floor = self.floor.max(floor);
                self.on_promised(Promise {
                    from,
                    version,
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

    /// Goes on under a newer layout. The indices of replicas that were known before must not change.
    pub fn restart(&mut self, quorums: Quorums, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        if self.is_over() {
            return Vec::new();
        }
        if self.attempts.is_empty() {
            self.layouts.clear();
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

    fn enter(&mut self, phase: Phase<V>, to: ReplicaSet) -> Vec<Output<V>> {
        self.phase = phase;
        self.round += 1;
        self.refused = ReplicaSet::EMPTY;
        self.failed = ReplicaSet::EMPTY;
        self.send_to(to)
    }

    fn begin_reading(&mut self, with_values: bool) -> Vec<Output<V>> {
        let phase = Phase::Reading {
            with_values,
            found: Vec::new(),
        };
        self.enter(phase, self.quorums().all())
    }

    fn prepare(&mut self, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        let ballot = next(self.highest);
        self.highest = self.highest.max(ballot);
        let phase = Phase::Preparing {
            ballot,
            promises: Vec::new(),
        };
        self.enter(phase, self.quorums().all())
    }

    fn put(&mut self, stamp: Stamp, value: Option<V>) -> Vec<Output<V>> {
        if self.attempts.len() >= MAX_ATTEMPTS {
            return self.end(Outcome::Unknown);
        }
        self.highest = self.highest.max(stamp);
        self.attempts.push((stamp, ReplicaSet::EMPTY));
        let write = self.write_id().unwrap_or_default();
        let version = Version {
            stamp,
            write,
            value,
        };
        self.write_version(version, Purpose::Put, ReplicaSet::EMPTY)
    }

    /// Writes `version` to all but those who hold it already.
    fn write_version(
        &mut self,
        version: Version<V>,
        purpose: Purpose<V>,
        holders: ReplicaSet,
    ) -> Vec<Output<V>> {
        let phase = Phase::Writing {
            version,
            purpose,
            accepted: holders,
        };
        self.enter(phase, self.quorums().all().without(holders))
    }

    fn refresh(&mut self, epoch: u64) -> Vec<Output<V>> {
        self.round += 1;
        self.phase = Phase::Refreshing;
        vec![Output::Refresh { epoch }]
    }

    fn pause(&mut self) -> Vec<Output<V>> {
        self.pauses += 1;
        if self.pauses > MAX_PAUSES {
            return self.end(self.cannot_go_on());
        }
        self.round += 1;
        self.phase = Phase::Pausing;
        vec![Output::Pause {
            attempt: self.pauses,
        }]
    }

    fn end(&mut self, outcome: Outcome<V>) -> Vec<Output<V>> {
        self.phase = Phase::Over;
        vec![Output::Done(outcome)]
    }

    /// What to say when no more can be done: without an own write out there, nothing happened.
    fn cannot_go_on(&self) -> Outcome<V> {
        if self.attempts.is_empty() {
            Outcome::Unavailable
        } else {
            Outcome::Unknown
        }
    }

    fn send_to(&self, to: ReplicaSet) -> Vec<Output<V>> {
        let nearest = self.quorums().all().iter().next();
        let send = |to: usize| {
            let request = self.request(Some(to) == nearest)?;
            let round = self.round;
            Some(Output::Send { to, round, request })
        };
        to.iter().filter_map(send).collect()
    }

    fn request(&self, nearest: bool) -> Option<Request<V>> {
        match &self.phase {
            Phase::Reading { with_values, .. } => Some(Request::Read {
                with_value: *with_values || nearest,
            }),
            Phase::Preparing { ballot, .. } => Some(Request::Prepare {
                ballot: *ballot,
                asking: self.write_id().filter(|_| !self.attempts.is_empty()),
                guarded: self.guarded && self.attempts.is_empty(),
            }),
            Phase::Writing {
                version, purpose, ..
            } => Some(Request::Write {
                version: version.clone(),
                guarded: self.guarded && *purpose == Purpose::Put,
            }),
            _ => None,
        }
    }

    fn unanswered(&self) -> ReplicaSet {
        let answered = match &self.phase {
            Phase::Reading { found, .. } => found.iter().map(|(from, ..)| *from).collect(),
            Phase::Preparing { promises, .. } => promises.iter().map(|p| p.from).collect(),
            Phase::Writing { accepted, .. } => *accepted,
            _ => return ReplicaSet::EMPTY,
        };
        let silent = self.quorums().all().without(answered);
        silent.without(self.refused).without(self.failed)
    }

    fn on_found(&mut self, from: usize, version: Version<V>, live: bool, floor: Stamp) {
        self.floor = self.floor.max(floor);
        self.highest = self.highest.max(version.stamp);
        if let Phase::Reading { found, .. } = &mut self.phase
            && found.iter().all(|(f, ..)| *f != from)
        {
            found.push((from, version, live));
        }
    }

    fn on_promised(&mut self, promise: Promise<V>) {
        if let Phase::Preparing { promises, .. } = &mut self.phase
            && promises.iter().all(|p| p.from != promise.from)
        {
            promises.push(promise);
        }
    }

    fn on_accepted(&mut self, from: usize) {
        let Phase::Writing {
            version, accepted, ..
        } = &mut self.phase
        else {
            return;
        };
        accepted.insert(from);
        let own = self.attempts.iter_mut().find(|(s, _)| *s == version.stamp);
        if let Some((_, acceptors)) = own {
            acceptors.insert(from);
        }
    }

    fn on_guarded(&mut self, from: usize, next: &mut NextStamp<'_>) -> Vec<Output<V>> {
        if self.attempts.is_empty() {
            return self.end(Outcome::Guarded);
        }
        self.guard_refused = true;
        self.refused.insert(from);
        self.advance(false, next)
    }
}

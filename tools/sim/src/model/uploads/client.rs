//! Clients and the coordinators that serve them, as `archipel_model::uploads` does.

mod answer;
mod begin;

use archipel_base::Stamp;
use archipel_cluster::register::intent::Fate;
use archipel_cluster::register::rules::Mutant;
use archipel_cluster::register::{Decision, Intent, Operation, Outcome, Output, Version};
pub use begin::next_stamp;
use begin::{id, operation_of};

use super::check::{Call, Event, Reply};
use super::{Asker, Packet, Row, Task, Uploads, Value, World};

/// An upload in progress that points to nothing.
pub const LIVE: Value = Value {
    number: 0,
    intent: None,
};

/// The number of times that a coordinator begins again.
const TRIES: u8 = 4;

/// A client and the coordinator that serves it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Client {
    next_task: usize,
    doing: Option<Doing>,
    running: Option<Running>,
    operations: u32,
    epoch: u64,
    last_stamp: u64,
    pub(super) timeouts: u8,
}

/// An operation on one row, in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Running {
    operation: Operation<Value>,
    row: Row,
    intent: Option<Intent>,
}

/// A task in progress.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Doing {
    task: Task,
    called: u64,
    number: u32,
    step: Step,
    tries: u8,
    /// The write that completes or aborts the upload.
    own: Intent,
    /// True if that write may have gone out.
    sent: bool,
    /// The object that an update saw last.
    saw: Option<Value>,
    answered: bool,
}

/// What the coordinator does for a task now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    /// The write of the object, for all tasks that write it.
    Write,
    Read,
    /// Reads the upload.
    Look,
    /// Asks the object what became of the upload's intent.
    Resolve(Intent),
    /// Writes the upload: it is over, or live again.
    Finish(Intent, bool),
    /// Makes the upload live again, because its own write took no effect. Then answers that, or
    /// tries again.
    Undo {
        again: bool,
    },
    /// Reads whether the upload became the object.
    CompletedBy,
}

impl Client {
    pub(super) fn new(lead: u64) -> Client {
        Client {
            next_task: 0,
            doing: None,
            running: None,
            operations: 0,
            epoch: 1,
            last_stamp: lead,
            timeouts: 0,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    pub(super) fn has_more(&self, tasks: &[Task]) -> bool {
        self.next_task < tasks.len()
    }

    pub(super) fn crash(&mut self) {
        (self.doing, self.running) = (None, None);
    }

    pub(super) fn waits_for(&self, operation: u32, round: u32) -> bool {
        let running = self.running.as_ref();
        self.operations == operation && running.is_some_and(|r| r.operation.round() == round)
    }

    fn stamp(&mut self, c: usize, seen: Stamp) -> Stamp {
        next_stamp(&mut self.last_stamp, c)(seen)
    }
}

impl Uploads {
    pub(super) fn begin(&self, world: &mut World, c: usize) {
        world.now += 1;
        let client = &mut world.clients[c];
        let task = self.clients[c].1[client.next_task];
        client.next_task += 1;
        let number = 10 * (c as u32 + 1) + client.next_task as u32;
        let call = match task {
            Task::Put => Call::Put(number, false),
            Task::Create => Call::Put(number, true),
            Task::Read => Call::Read,
            Task::Look => Call::Look,
            Task::Complete => Call::Complete(number, false),
            Task::CompleteIfNone => Call::Complete(number, true),
            Task::Abort => Call::Abort,
            Task::Collect => Call::Collect,
        };
        let step = match task {
            Task::Put | Task::Create => Step::Write,
            Task::Read => Step::Read,
            _ => Step::Look,
        };
        let own = client.announce(c);
        client.doing = Some(Doing {
            task,
            called: world.now,
            number,
            step,
            tries: 0,
            own,
            sent: false,
            saw: None,
            answered: false,
        });
        world.history.push(Event {
            client: c,
            call,
            called: world.now,
            reply: None,
        });
        self.run(world, c, step, Stamp::ZERO);
    }

    /// Begins the operation of a step.
    fn run(&self, world: &mut World, c: usize, step: Step, seen: Stamp) {
        let client = &mut world.clients[c];
        let Some(doing) = client.doing.as_mut() else {
            return;
        };
        doing.step = step;
        let doing = *doing;
        let start = self.start(client.epoch);
        client.operations += 1;
        let id = id(c, client.operations);
        let epoch = client.epoch;
        let (row, intent, (operation, outputs)) = {
            let next = &mut next_stamp(&mut client.last_stamp, c);
            operation_of(start, &doing, epoch, id, seen, next)
        };
        client.running = Some(Running {
            operation,
            row,
            intent,
        });
        self.carry_out(world, c, outputs);
    }

    /// Lets a client's operation make a step, and carries out its outputs.
    pub(super) fn drive(
        &self,
        world: &mut World,
        c: usize,
        step: impl FnOnce(&mut Operation<Value>, &mut dyn FnMut(Stamp) -> Stamp) -> Vec<Output<Value>>,
    ) {
        let client = &mut world.clients[c];
        let Some(running) = client.running.as_mut() else {
            return;
        };
        let outputs = {
            let next = &mut next_stamp(&mut client.last_stamp, c);
            step(&mut running.operation, next)
        };
        self.carry_out(world, c, outputs);
    }

    fn carry_out(&self, world: &mut World, c: usize, outputs: Vec<Output<Value>>) {
        for output in outputs {
            let client = &mut world.clients[c];
            let Some(running) = client.running.as_ref() else {
                return;
            };
            match output {
                Output::Send { to, round, request } => {
                    if round > self.rounds {
                        // Bounds the space: the client gives up.
                        client.crash();
                        return;
                    }
                    let packet = Packet::Ask {
                        by: Asker::Client(c),
                        operation: client.operations,
                        epoch: client.epoch,
                        to,
                        round,
                        row: running.row,
                        intent: running.intent,
                        request,
                    };
                    world.network.insert(packet);
                }
                Output::Decide(version) => {
                    let decision = match client.doing.as_mut() {
                        Some(doing) => doing.decide(version.value),
                        None => Decision::Keep,
                    };
                    self.drive(world, c, |operation, _| operation.decided(decision));
                }
                Output::Bury { .. } => unreachable!("no replica keeps anything here"),
                Output::Pause { .. } => {
                    self.drive(world, c, |operation, next| operation.resume(next));
                }
                Output::Refresh { epoch } => {
                    let successive = epoch == client.epoch + 1;
                    client.epoch = epoch;
                    let quorums = self.start(epoch).quorums;
                    self.drive(world, c, |operation, next| {
                        operation.restart(quorums, successive, next)
                    });
                }
                Output::Done(outcome) => {
                    client.running = None;
                    self.done(world, c, outcome);
                    return;
                }
            }
        }
    }

    /// Goes on with a task after one of its operations.
    fn done(&self, world: &mut World, c: usize, outcome: Outcome<Value>) {
        let Some(doing) = world.clients[c].doing else {
            return;
        };
        match (doing.step, outcome) {
            (Step::Write, outcome) => self.wrote(world, c, &doing, outcome),
            (Step::Read, Outcome::Value(version)) => {
                let saw = version.value.map(|value| value.number);
                self.answer_client(world, c, Reply::Saw(saw));
            }
            (Step::Look, Outcome::Value(version)) => self.looked(world, c, &doing, &version),
            (Step::Resolve(intent), outcome) => match Fate::of(self.rules, &outcome) {
                Some(fate) => self.run(world, c, Step::Finish(intent, fate.ends()), Stamp::ZERO),
                None => self.give_up(world, c, &doing),
            },
            (Step::Finish(_, ends), Outcome::Written { .. }) => {
                self.found(world, c, &doing, !ends);
            }
            (Step::Finish(..), Outcome::Kept(_)) => self.look_again(world, c),
            (Step::Undo { again: true }, Outcome::Written { .. }) => self.try_again(world, c),
            (Step::Undo { again: false }, Outcome::Written { .. }) => {
                self.answer_client(world, c, Reply::Failed);
            }
            (Step::CompletedBy, Outcome::Value(version)) => {
                let by_completion = version.value.is_some_and(|value| value.intent.is_some());
                let reply = if by_completion {
                    Reply::Again
                } else {
                    Reply::Gone
                };
                self.answer_client(world, c, reply);
            }
            _ => self.give_up(world, c, &doing),
        }
    }

    fn wrote(&self, world: &mut World, c: usize, doing: &Doing, outcome: Outcome<Value>) {
        let crosses = matches!(
            doing.task,
            Task::Complete | Task::CompleteIfNone | Task::Abort
        );
        match outcome {
            Outcome::Written { .. } if doing.task == Task::Collect => {
                match doing.saw.and_then(|saw| saw.intent) {
                    Some(_) => self.void(world, c),
                    None => self.answer_client(world, c, Reply::Done),
                }
            }
            Outcome::Written { .. } if crosses => {
                self.reply(world, c, Reply::Done);
                self.run(world, c, Step::Finish(doing.own, true), Stamp::ZERO);
            }
            Outcome::Written { .. } => self.answer_client(world, c, Reply::Done),
            Outcome::Kept(_) if doing.sent => {
                self.run(world, c, Step::Undo { again: false }, Stamp::ZERO);
            }
            Outcome::Kept(_) => self.answer_client(world, c, Reply::Failed),
            Outcome::Overtaken => self.run(world, c, Step::Undo { again: true }, Stamp::ZERO),
            Outcome::Guarded => self.look_again(world, c),
            Outcome::Unavailable | Outcome::Held => self.void(world, c),
            Outcome::Unknown | Outcome::Value(_) | Outcome::Seen(_) | Outcome::Open(_) => {
                self.give_up(world, c, doing)
            }
        }
    }

    fn looked(&self, world: &mut World, c: usize, doing: &Doing, version: &Version<Value>) {
        match version.value {
            None => self.found(world, c, doing, false),
            Some(Value { intent: None, .. }) => self.found(world, c, doing, true),
            Some(Value {
                intent: Some(intent),
                ..
            }) if self.rules.breaks(Mutant::UndoUnasked) => {
                self.run(world, c, Step::Finish(intent, false), Stamp::ZERO);
            }
            Some(Value {
                intent: Some(intent),
                ..
            }) => self.run(world, c, Step::Resolve(intent), version.stamp),
        }
    }

    /// Goes on once it is known whether the upload is live.
    fn found(&self, world: &mut World, c: usize, doing: &Doing, live: bool) {
        match (doing.task, live) {
            _ if doing.answered => world.clients[c].crash(),
            (Task::Look, true) => self.answer_client(world, c, Reply::Live),
            (Task::Look | Task::Abort, false) => self.answer_client(world, c, Reply::Gone),
            (Task::Collect, true) => self.void(world, c),
            (Task::Complete | Task::CompleteIfNone, false) => {
                self.run(world, c, Step::CompletedBy, Stamp::ZERO);
            }
            _ => self.try_again(world, c),
        }
    }

    fn look_again(&self, world: &mut World, c: usize) {
        if self.may_try(world, c) {
            self.run(world, c, Step::Look, Stamp::ZERO);
        }
    }

    /// Begins the write of the object (again), under a new id.
    fn try_again(&self, world: &mut World, c: usize) {
        if !self.may_try(world, c) {
            return;
        }
        let client = &mut world.clients[c];
        let own = client.announce(c);
        if let Some(doing) = client.doing.as_mut() {
            (doing.own, doing.sent) = (own, false);
        }
        self.run(world, c, Step::Write, Stamp::ZERO);
    }

    fn may_try(&self, world: &mut World, c: usize) -> bool {
        let Some(doing) = world.clients[c].doing.as_mut() else {
            return false;
        };
        doing.tries += 1;
        if doing.tries > TRIES {
            world.clients[c].crash();
            return false;
        }
        true
    }
}

impl Client {
    fn announce(&mut self, c: usize) -> Intent {
        self.operations += 1;
        Intent {
            write: id(c, self.operations),
            after: self.stamp(c, Stamp::ZERO),
            epoch: self.epoch,
            name: None,
        }
    }
}

//! The tasks of clients, as `archipel_model::uploads` does them.

mod answer;
mod begin;

use archipel_base::Stamp;
use archipel_cluster::register::intent::Fate;
use archipel_cluster::register::rules::Mutant;
use archipel_cluster::register::{Intent, Outcome, Version};

use super::check::{Call, Reply};
use super::{Task, Uploads, Value};
use crate::model::client::Client;
use crate::model::scenario::Scenario;
use crate::model::world::World;

/// The number of times that a coordinator begins again.
const TRIES: u8 = 4;

/// A task in progress.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Doing {
    task: Task,
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

/// The current operation of a coordinator for a task.
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

impl Client<Uploads> {
    /// Returns the intent of a new write.
    fn announce(&mut self, c: usize) -> Intent {
        Intent {
            write: self.fresh_id(c),
            after: self.stamp(c, Stamp::ZERO),
            epoch: self.epoch,
            name: None,
        }
    }
}

impl Scenario<Uploads> {
    pub(super) fn begin_task(&self, world: &mut World<Uploads>, c: usize, task: Task) {
        let client = &mut world.clients[c];
        let number = client.number(c);
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
            number,
            step,
            tries: 0,
            own,
            sent: false,
            saw: None,
            answered: false,
        });
        world.call(c, call);
        self.run(world, c, step, Stamp::ZERO);
    }

    /// Begins the operation of a step.
    fn run(&self, world: &mut World<Uploads>, c: usize, step: Step, seen: Stamp) {
        let client = &mut world.clients[c];
        let Some(doing) = client.doing.as_mut() else {
            return;
        };
        doing.step = step;
        let (doing, epoch) = (*doing, client.epoch);
        self.start_operation(world, c, |start, id, next| {
            doing.operation(start, epoch, id, seen, next)
        });
    }

    /// Goes on with a task after one of its operations.
    pub(super) fn continue_task(
        &self,
        world: &mut World<Uploads>,
        c: usize,
        outcome: Outcome<Value>,
    ) {
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

    fn wrote(&self, world: &mut World<Uploads>, c: usize, doing: &Doing, outcome: Outcome<Value>) {
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

    fn looked(
        &self,
        world: &mut World<Uploads>,
        c: usize,
        doing: &Doing,
        version: &Version<Value>,
    ) {
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
    fn found(&self, world: &mut World<Uploads>, c: usize, doing: &Doing, live: bool) {
        match (doing.task, live) {
            _ if doing.answered => world.clients[c].end(),
            (Task::Look, true) => self.answer_client(world, c, Reply::Live),
            (Task::Look | Task::Abort, false) => self.answer_client(world, c, Reply::Gone),
            (Task::Collect, true) => self.void(world, c),
            (Task::Complete | Task::CompleteIfNone, false) => {
                self.run(world, c, Step::CompletedBy, Stamp::ZERO);
            }
            _ => self.try_again(world, c),
        }
    }

    fn look_again(&self, world: &mut World<Uploads>, c: usize) {
        if self.may_try(world, c) {
            self.run(world, c, Step::Look, Stamp::ZERO);
        }
    }

    /// Begins the write of the object (again), under a new id.
    fn try_again(&self, world: &mut World<Uploads>, c: usize) {
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

    fn may_try(&self, world: &mut World<Uploads>, c: usize) -> bool {
        let Some(doing) = world.clients[c].doing.as_mut() else {
            return false;
        };
        doing.tries += 1;
        if doing.tries > TRIES {
            world.clients[c].end();
            return false;
        }
        true
    }
}

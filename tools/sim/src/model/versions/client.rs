//! The tasks of clients, as the cluster does them.

mod decide;

use archipel_base::Stamp;
use archipel_cluster::register::versions::{self, VersionReport};
use archipel_cluster::register::{Answer, Outcome};
use archipel_storage::Value;

use decide::numbers_of;

use super::check::{Attempt, Call, Reply};
use super::{Change, Task, Versions};
use crate::model::client::Client;
use crate::model::scenario::Scenario;
use crate::model::world::World;

/// The number of times that a coordinator begins again.
const TRIES: u8 = 4;

/// A task in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Doing {
    call: Call,
    tries: u8,
    step: Step,
    /// True if the task follows the settings after the change.
    pub(super) by_new: bool,
    /// The put's last attempt.
    attempt: Option<Stamp>,
    /// True if another write overtook an attempt of the deletion.
    is_overtaken: bool,
    /// Of a listing: the reports of replicas.
    told: Vec<(usize, Vec<VersionReport>, Stamp)>,
    /// The answer if the last decision takes effect.
    means: Option<Reply>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Step {
    /// The task's own operation.
    Main,
    /// A decision that settles a version which a look found open.
    Settle,
}

impl Client<Versions> {
    /// Begins work that is no task of a client's own.
    pub(super) fn work_on(&mut self, call: Call, epoch: u64) {
        self.epoch = epoch;
        self.doing = Some(Doing::new(call, self.memory.knows));
    }
}

impl Doing {
    fn new(call: Call, by_new: bool) -> Doing {
        Doing {
            call,
            tries: 0,
            step: Step::Main,
            by_new,
            attempt: None,
            is_overtaken: false,
            told: Vec::new(),
            means: None,
        }
    }

    /// Notes a replica's report for a listing.
    pub(super) fn note(&mut self, from: usize, answer: &Answer<Value>) {
        if let Answer::Found {
            agreed, versions, ..
        } = answer
            && self.call == Call::List
            && self.told.iter().all(|(other, ..)| *other != from)
        {
            self.told.push((from, versions.clone(), *agreed));
        }
    }
}

impl World<Versions> {
    /// Notes the attempt that a client's put sends now.
    pub(super) fn note_attempt(&mut self, c: usize) {
        let client = &mut self.clients[c];
        let (Some(running), Some(doing)) = (&client.running, &mut client.doing) else {
            return;
        };
        let is_kept = matches!(doing.call, Call::Put(_) | Call::Create(_));
        if let (true, Some(name)) = (is_kept, running.attempt())
            && doing.attempt != Some(name)
        {
            doing.attempt = Some(name);
            let called = self.last_call(c).map_or(0, |event| event.called);
            self.extra.sent.push(Attempt { name, called });
        }
    }

    /// Returns the name of an attempt by its place among all, the latest first.
    fn named(&self, back: usize) -> Option<Stamp> {
        let at = self.extra.sent.len().checked_sub(back + 1)?;
        self.extra.sent.get(at).map(|attempt| attempt.name)
    }

    /// Returns the request of a client's task; `None` if it has nothing to do.
    fn call_of(&self, c: usize, task: Task) -> Option<Call> {
        let client = &self.clients[c];
        let (number, knows) = (client.number(c), client.memory.knows);
        Some(match task {
            Task::Put => Call::Put(number),
            Task::Create => Call::Create(number),
            Task::PutNull if knows => Call::Put(number),
            Task::PutNull => Call::PutNull(number),
            // A node knows of the lock once it knows of the versions.
            Task::HoldNull => return knows.then_some(Call::Hold(number)),
            Task::Enable => Call::Enable,
            Task::Move | Task::AddLayout => return None,
            Task::Retire => Call::Retire(self.void_row()?),
            Task::Get => Call::Get,
            Task::List => Call::List,
            Task::LookNull => Call::Look(None),
            Task::KillNull => Call::Kill(None),
            Task::ChangeNull => Call::Change(None, number),
            Task::Look(back) => Call::Look(Some(self.named(back)?)),
            Task::Kill(back) => Call::Kill(Some(self.named(back)?)),
            Task::Remove(back) => Call::Remove(Some(self.named(back)?)),
            Task::Change(back) => Call::Change(Some(self.named(back)?), number),
        })
    }
}

impl Scenario<Versions> {
    pub(super) fn begin_task(&self, world: &mut World<Versions>, c: usize, task: Task) {
        world.stop_moving(c);
        match task {
            Task::Move => return self.begin_move(world, c),
            Task::AddLayout => return self.add_layout(world),
            _ => {}
        }
        let Some(call) = world.call_of(c, task) else {
            return;
        };
        world.call(c, call);
        let client = &mut world.clients[c];
        if call == Call::Enable {
            client.memory.knows = true;
            world.extra.change = Some(Change {
                client: c,
                is_answered: false,
            });
            return;
        }
        client.doing = Some(Doing::new(call, client.memory.knows));
        self.run(world, c, Step::Main);
    }

    /// Begins the operation of a step.
    pub(super) fn run(&self, world: &mut World<Versions>, c: usize, step: Step) {
        let client = &mut world.clients[c];
        let Some(doing) = client.doing.as_mut() else {
            return;
        };
        doing.step = step;
        doing.attempt = None;
        doing.tries += 1;
        if doing.tries > TRIES {
            return client.end();
        }
        let work = (step, doing.call);
        self.start_operation(world, c, |start, id, next| {
            self.operation_of(work, start, id, next)
        });
    }

    /// Goes on with a task after one of its operations.
    pub(super) fn continue_task(
        &self,
        world: &mut World<Versions>,
        c: usize,
        outcome: Outcome<Value>,
    ) {
        let Some(doing) = world.clients[c].doing.clone() else {
            return;
        };
        if world.is_moving(c) {
            return self.moved(world, outcome);
        }
        match (doing.step, doing.call, outcome) {
            (_, Call::Put(_), Outcome::Written { .. }) => {
                self.answer_client(world, c, Reply::Done(doing.attempt));
            }
            (_, Call::PutNull(_), Outcome::Written { .. }) => {
                self.answer_client(world, c, Reply::Done(None));
            }
            (_, Call::Get, Outcome::Value(version)) => {
                let numbers = version.value.as_ref().and_then(numbers_of);
                self.answer_client(world, c, Reply::Saw(numbers));
            }
            (_, Call::List, Outcome::Value(_)) => {
                let shown = self.listed(&doing.told);
                self.answer_client(world, c, Reply::Listed(shown));
            }
            (_, Call::Look(_), Outcome::Seen(report)) => {
                let numbers = report.value.as_ref().and_then(numbers_of);
                self.answer_client(world, c, Reply::Saw(numbers));
            }
            (_, Call::Look(name), Outcome::Open(report)) => {
                self.hand_round(world, c, name, report);
                self.run(world, c, Step::Settle);
            }
            (step, Call::Kill(name) | Call::Remove(name), Outcome::Overtaken)
                if versions::is_decided_again(self.rules, name) =>
            {
                if let Some(doing) = &mut world.clients[c].doing {
                    doing.is_overtaken = true;
                }
                self.run(world, c, step);
            }
            (step, Call::Put(_) | Call::Create(_) | Call::Look(_), Outcome::Overtaken) => {
                self.run(world, c, step);
            }
            (_, Call::Create(_), Outcome::Written { .. }) => {
                self.answer_client(world, c, Reply::Done(doing.attempt));
            }
            (_, _, Outcome::Written { .. } | Outcome::Kept(_)) => {
                match doing.means.clone().unwrap_or(Reply::Failed) {
                    Reply::Gone if !self.may_be_refused(&doing) => world.clients[c].end(),
                    reply => self.answer_client(world, c, reply),
                }
            }
            (_, Call::PutNull(number), Outcome::Guarded) => self.follow(world, c, number),
            (_, Call::Get | Call::List | Call::Look(_), _)
            | (_, _, Outcome::Unavailable | Outcome::Guarded)
                if self.may_be_refused(&doing) =>
            {
                self.void(world, c);
            }
            _ => world.clients[c].end(),
        }
    }

    /// Puts a version instead of the null version, because the settings have changed.
    fn follow(&self, world: &mut World<Versions>, c: usize, number: u32) {
        let client = &mut world.clients[c];
        client.memory.knows = true;
        if let Some(doing) = client.doing.as_mut() {
            (doing.call, doing.by_new) = (Call::Put(number), true);
        }
        if let Some(event) = world.last_call(c) {
            event.call = Call::Put(number);
        }
        self.run(world, c, Step::Main);
    }

    /// Returns true if a task that wrote nothing in its last operation wrote nothing before,
    /// either.
    fn may_be_refused(&self, doing: &Doing) -> bool {
        versions::may_be_refused(self.rules, doing.is_overtaken)
    }

    /// Ends a task that certainly did nothing, apart from its attempts.
    fn void(&self, world: &mut World<Versions>, c: usize) {
        let called = world.last_call(c).map(|event| event.called);
        let sent = &world.extra.sent;
        if sent.iter().all(|attempt| Some(attempt.called) != called) {
            world.forget_call(c);
        }
        world.clients[c].end();
    }

    fn answer_client(&self, world: &mut World<Versions>, c: usize, reply: Reply) {
        world.clients[c].end();
        world.reply(c, reply);
    }
}

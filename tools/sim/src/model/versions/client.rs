//! Clients and the coordinators that serve them, as the cluster does.

mod decide;

use archipel_base::{Stamp, Writer};
use archipel_cluster::register::versions::{self, Promises, VersionReport};
use archipel_cluster::register::{Answer, Operation, Outcome, Output, Request};
use archipel_storage::Value;

use decide::{id, numbers_of};

use super::check::{self, Call, Event, Reply};
use super::{Change, Packet, Task, Versions, World};

/// The number of times that a coordinator begins again.
const TRIES: u8 = 4;

/// A client and the coordinator that serves it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Client {
    next_task: usize,
    doing: Option<Doing>,
    running: Option<Operation<Value>>,
    operations: u32,
    epoch: u64,
    last_stamp: u64,
    pub(super) timeouts: u8,
    /// True once its node knows of the change of the settings.
    pub(super) knows: bool,
}

/// A task in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Doing {
    call: Call,
    called: u64,
    tries: u8,
    step: Step,
    /// True if the task follows the settings after the change.
    by_new: bool,
    /// The put's last attempt.
    attempt: Option<Stamp>,
    /// Of a listing: what the replicas told.
    told: Vec<(usize, Vec<VersionReport>, Stamp)>,
    /// What the last decision means if it takes effect.
    means: Option<Reply>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Step {
    /// The task's own operation.
    Main,
    /// A decision that settles a version which a look found open.
    Settle,
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
            knows: false,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.doing.is_none()
    }

    /// Begins work that is no task of a client's own.
    pub(super) fn work_on(&mut self, call: Call, epoch: u64) {
        self.epoch = epoch;
        self.doing = Some(Doing::new(call, 0, self.knows));
    }

    pub(super) fn next_of(&self, tasks: &[Task]) -> Option<Task> {
        tasks.get(self.next_task).copied()
    }

    pub(super) fn crash(&mut self) {
        (self.doing, self.running) = (None, None);
    }

    pub(super) fn waits_for(&self, operation: u32, round: u32) -> bool {
        let running = self.running.as_ref();
        self.operations == operation && running.is_some_and(|r| r.round() == round)
    }

    /// Notes what a replica tells a listing.
    pub(super) fn note(&mut self, from: usize, answer: &Answer<Value>) {
        if let (
            Some(doing),
            Answer::Found {
                agreed, versions, ..
            },
        ) = (&mut self.doing, answer)
            && doing.call == Call::List
            && doing.told.iter().all(|(other, ..)| *other != from)
        {
            doing.told.push((from, versions.clone(), *agreed));
        }
    }
}

impl Doing {
    fn new(call: Call, called: u64, by_new: bool) -> Doing {
        Doing {
            call,
            called,
            tries: 0,
            step: Step::Main,
            by_new,
            attempt: None,
            told: Vec::new(),
            means: None,
        }
    }
}

fn next_stamp(last: &mut u64, client: usize) -> impl FnMut(Stamp) -> Stamp + '_ {
    move |seen| {
        *last = (*last).max(seen.time) + 1;
        Stamp {
            time: *last,
            writer: Writer(client as u64 + 1),
        }
    }
}

impl Versions {
    pub(super) fn begin(&self, world: &mut World, c: usize) {
        world.now += 1;
        let void = self.void_row(world);
        let client = &mut world.clients[c];
        let task = self.clients[c].1[client.next_task];
        client.next_task += 1;
        let number = 10 * (c as u32 + 1) + client.next_task as u32;
        let sent = world.sent.len();
        let named = |back: usize| {
            let at = sent.checked_sub(back + 1)?;
            world.sent.get(at).copied()
        };
        let call = match task {
            Task::Put => Call::Put(number),
            Task::Create => Call::Create(number),
            Task::PutNull if client.knows => Call::Put(number),
            Task::PutNull => Call::PutNull(number),
            // A node knows of the lock once it knows of the versions.
            Task::HoldNull if !client.knows => return,
            Task::HoldNull => Call::Hold(number),
            Task::Enable => Call::Enable,
            Task::Move => return self.begin_move(world, c),
            Task::Retire => match void {
                Some(stamp) => Call::Retire(stamp),
                None => return,
            },
            Task::Get => Call::Get,
            Task::List => Call::List,
            Task::LookNull => Call::Look(None),
            Task::KillNull => Call::Kill(None),
            Task::ChangeNull => Call::Change(None, number),
            Task::Look(back) => match named(back) {
                Some(name) => Call::Look(Some(name)),
                None => return,
            },
            Task::Kill(back) => match named(back) {
                Some(name) => Call::Kill(Some(name)),
                None => return,
            },
            Task::Change(back) => match named(back) {
                Some(name) => Call::Change(Some(name), number),
                None => return,
            },
        };
        client.doing = Some(Doing::new(call, world.now, client.knows));
        world.history.push(Event {
            client: c,
            call,
            attempts: Vec::new(),
            called: world.now,
            reply: None,
        });
        if call == Call::Enable {
            world.clients[c].doing = None;
            world.clients[c].knows = true;
            world.change = Some(Change {
                client: c,
                is_answered: false,
            });
            return;
        }
        self.run(world, c, Step::Main);
    }

    /// Begins the operation of a step.
    pub(super) fn run(&self, world: &mut World, c: usize, step: Step) {
        let client = &mut world.clients[c];
        let Some(doing) = client.doing.as_mut() else {
            return;
        };
        doing.step = step;
        doing.attempt = None;
        doing.tries += 1;
        let (call, tries) = (doing.call, doing.tries);
        if tries > TRIES {
            return client.crash();
        }
        let start = self.start(client.epoch);
        client.operations += 1;
        let id = id(c, client.operations);
        let (operation, outputs) = self.operation_of(client, c, start, id, (step, call));
        client.running = Some(operation);
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
        let outputs = step(running, &mut next_stamp(&mut client.last_stamp, c));
        self.carry_out(world, c, outputs);
    }

    fn carry_out(&self, world: &mut World, c: usize, outputs: Vec<Output<Value>>) {
        for output in outputs {
            let client = &mut world.clients[c];
            let (Some(running), Some(doing)) = (client.running.as_mut(), client.doing.as_mut())
            else {
                return;
            };
            match output {
                Output::Send { to, round, request } => {
                    if round > self.rounds {
                        // Bounds the space: the client gives up.
                        client.crash();
                        return;
                    }
                    let is_kept = matches!(doing.call, Call::Put(_) | Call::Create(_));
                    if let (true, Some(attempt)) = (is_kept, running.attempt())
                        && doing.attempt != Some(attempt)
                    {
                        doing.attempt = Some(attempt);
                        world.sent.push(attempt);
                        let own = |e: &&mut Event| e.client == c;
                        if let Some(event) = world.history.iter_mut().rev().find(own) {
                            event.attempts.push(attempt);
                        }
                    }
                    let packet = Packet::Ask {
                        client: c,
                        operation: client.operations,
                        epoch: client.epoch,
                        to,
                        round,
                        about: match request {
                            Request::Write { .. } => None,
                            _ => doing.about(),
                        },
                        by_new: doing.by_new,
                        request,
                    };
                    world.network.insert(packet);
                }
                Output::Decide(version) => {
                    let promises = Promises {
                        current: &version,
                        ballot: running.deciding_under().unwrap_or_default(),
                        reports: running.told(),
                    };
                    let decision = doing.decide(&promises, self.rules);
                    self.drive(world, c, |operation, _| operation.decided(decision));
                }
                Output::Bury {
                    newest,
                    is_chosen,
                    attempt,
                } => {
                    let buried = versions::bury(self.rules, &newest, is_chosen, Some(attempt));
                    self.drive(world, c, |operation, _| operation.buried(buried));
                }
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
            (
                step,
                Call::Put(_) | Call::Create(_) | Call::Kill(_) | Call::Look(_),
                Outcome::Overtaken,
            ) => self.run(world, c, step),
            (_, Call::Create(_), Outcome::Written { .. }) => {
                self.answer_client(world, c, Reply::Done(doing.attempt));
            }
            (_, _, Outcome::Written { .. } | Outcome::Kept(_)) => {
                let reply = doing.means.clone().unwrap_or(Reply::Failed);
                self.answer_client(world, c, reply);
            }
            (_, Call::PutNull(number), Outcome::Guarded) => self.follow(world, c, number),
            (_, Call::Get | Call::List | Call::Look(_), _)
            | (_, _, Outcome::Unavailable | Outcome::Guarded) => {
                self.void(world, c);
            }
            _ => world.clients[c].crash(),
        }
    }

    /// Puts a version instead of the null version, because the settings have changed.
    fn follow(&self, world: &mut World, c: usize, number: u32) {
        let client = &mut world.clients[c];
        client.knows = true;
        if let Some(doing) = client.doing.as_mut() {
            (doing.call, doing.by_new) = (Call::Put(number), true);
        }
        let own = |e: &&mut Event| e.client == c;
        if let Some(event) = world.history.iter_mut().rev().find(own) {
            event.call = Call::Put(number);
        }
        self.run(world, c, Step::Main);
    }

    /// Ends a task that certainly did nothing.
    fn void(&self, world: &mut World, c: usize) {
        if let Some(doing) = &world.clients[c].doing {
            let own = |e: &Event| e.client == c && e.called == doing.called && e.reply.is_none();
            world
                .history
                .retain(|event| !own(event) || !event.attempts.is_empty());
        }
        world.clients[c].crash();
    }

    fn answer_client(&self, world: &mut World, c: usize, reply: Reply) {
        world.clients[c].crash();
        world.now += 1;
        let now = world.now;
        let own = |e: &&mut Event| e.client == c;
        if let Some(event) = world.history.iter_mut().rev().find(own) {
            event.reply = Some((now, reply));
        }
        world.violated |= !check::is_linearizable(&world.history);
    }
}

//! Clients and the coordinators that serve them.

use archipel_base::{Id, Stamp, Writer};
use archipel_cluster::register::epoch::Retirement;
use archipel_cluster::register::{Decision, Operation, Outcome, Output};

use super::{Packet, World};
use crate::linear::{self, Call, Event, Reply};
use crate::model::scenario::{Scenario, Task};

impl Scenario {
    pub(super) fn may_begin(&self, world: &World, c: usize) -> bool {
        let Some(task) = self.clients[c].tasks.get(world.clients[c].next_task) else {
            return false;
        };
        match task {
            // A client must know an epoch before it can propose the next.
            Task::Retire => world.chosen == self.retiring(),
            _ => true,
        }
    }

    pub(super) fn begin(&self, world: &mut World, c: usize) {
        let task = self.clients[c].tasks[world.clients[c].next_task];
        world.now += 1;
        let client = &mut world.clients[c];
        let id = task_id(c, client.next_task);
        client.asked = false;
        client.next_task += 1;
        let call = match task {
            Task::Read => Some(Call::Read),
            Task::Fickle(value) => Some(Call::Write(Some(value))),
            Task::Retire => {
                client.epoch = self.retiring();
                if self.retirement().is_complete(self.rules()) {
                    world.chosen = self.retiring() + 1;
                    return;
                }
                None
            }
            Task::Write(value) => Some(Call::Write(value)),
            Task::Swap(expected, value) => Some(Call::Swap(expected, value)),
        };
        if let Some(call) = call {
            world.history.push(Event {
                client: c,
                call,
                called: world.now,
                reply: None,
            });
        }
        let start = self.start(client.epoch);
        let mut last = client.last_stamp;
        let (operation, outputs) = {
            let next = &mut next_stamp(&mut last, c);
            match task {
                Task::Read | Task::Retire => Operation::read(start),
                Task::Write(value) => Operation::write(start, id, value, false, next),
                Task::Swap(..) | Task::Fickle(_) => Operation::update(start, id, false, next),
            }
        };
        client.last_stamp = last;
        client.operation = Some(operation);
        self.carry_out(world, c, outputs);
    }

    /// Lets a client's operation make a step, and carries out its outputs.
    pub(super) fn drive(
        &self,
        world: &mut World,
        c: usize,
        step: impl FnOnce(&mut Operation<u32>, &mut dyn FnMut(Stamp) -> Stamp) -> Vec<Output<u32>>,
    ) {
        let client = &mut world.clients[c];
        let Some(operation) = client.operation.as_mut() else {
            return;
        };
        let outputs = step(operation, &mut next_stamp(&mut client.last_stamp, c));
        self.carry_out(world, c, outputs);
    }

    fn carry_out(&self, world: &mut World, c: usize, outputs: Vec<Output<u32>>) {
        for output in outputs {
            let client = &world.clients[c];
            match output {
                Output::Send { to, round, request } => {
                    if round > self.rounds {
                        // Bounds the space: the client gives up, and its operation stays open.
                        world.clients[c].operation = None;
                        return;
                    }
                    world.network.insert(Packet::Ask {
                        client: c,
                        task: client.next_task - 1,
                        epoch: client.epoch,
                        to,
                        round,
                        request,
                    });
                }
                Output::Decide(version) => {
                    let task = self.clients[c].tasks[client.next_task - 1];
                    let decision = decide(task, client.asked, version.value);
                    world.clients[c].asked = true;
                    self.drive(world, c, |operation, _| operation.decided(decision));
                }
                Output::Bury { .. } => unreachable!("no replica keeps anything here"),
                Output::Pause { .. } => {
                    self.drive(world, c, |operation, next| operation.resume(next));
                }
                Output::Refresh { epoch } => {
                    let successive = epoch == world.clients[c].epoch + 1;
                    world.clients[c].epoch = epoch;
                    let quorums = self.start(epoch).quorums;
                    self.drive(world, c, |operation, next| {
                        operation.restart(quorums, successive, next)
                    });
                }
                Output::Done(outcome) => self.finish(world, c, &outcome),
            }
        }
    }

    fn finish(&self, world: &mut World, c: usize, outcome: &Outcome<u32>) {
        let task = self.clients[c].tasks[world.clients[c].next_task - 1];
        world.clients[c].operation = None;
        if task == Task::Retire {
            if matches!(outcome, Outcome::Value(_)) {
                self.retire(world);
            }
            return;
        }
        let reply = match outcome {
            Outcome::Value(version) | Outcome::Kept(version) => Reply::Saw(version.value),
            Outcome::Written { .. } => Reply::Done,
            Outcome::Unknown | Outcome::Seen(_) | Outcome::Open(_) => return,
            Outcome::Unavailable | Outcome::Overtaken | Outcome::Held | Outcome::Guarded => {
                world.history.retain(|e| e.client != c || e.reply.is_some());
                return;
            }
        };
        world.now += 1;
        let now = world.now;
        let open = |e: &&mut Event| e.client == c;
        if let Some(event) = world.history.iter_mut().rev().find(open) {
            event.reply = Some((now, reply));
            if let (Task::Fickle(_), Reply::Saw(_)) = (task, reply) {
                // It left the row alone, so it only read.
                event.call = Call::Read;
            }
        }
        world.violated |= !linear::is_linearizable(&world.history);
    }

    /// Returns the epoch in which the first layout version retires: the last but one.
    fn retiring(&self) -> u64 {
        self.epochs.len() as u64 - 1
    }

    fn retirement(&self) -> Retirement<()> {
        let config = self.config(self.retiring());
        Retirement::of(config.oldest(self.rules(), |m| m.node))
    }

    /// Retires the first version, because all rows (there is one) were read under both.
    fn retire(&self, world: &mut World) {
        let mut retirement = self.retirement();
        // The read's quorum has a majority of the oldest version. All of its replicas know the
        // epoch.
        let config = self.config(self.retiring());
        let oldest = config.oldest(self.rules(), |m| m.node);
        for replica in oldest.iter().flat_map(|set| set.iter()) {
            retirement.on_listed(replica, [()]);
        }
        retirement.on_read(());
        if retirement.is_complete(self.rules()) {
            world.chosen = self.retiring() + 1;
        }
    }
}

fn decide(task: Task, asked: bool, value: Option<u32>) -> Decision<u32> {
    match task {
        Task::Swap(expected, new) if expected == value => Decision::Write(new),
        Task::Fickle(new) if !asked => Decision::Write(Some(new)),
        _ => Decision::Keep,
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

fn task_id(client: usize, task: usize) -> Id {
    let mut id = [0; 16];
    id[0] = client as u8 + 1;
    id[1] = task as u8 + 1;
    Id(id)
}

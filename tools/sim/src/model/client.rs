//! Clients and the coordinators that serve them.

use archipel_base::{Id, Stamp, Writer};
use archipel_cluster::register::{NextStamp, Operation, Output, Request, Start};

use super::network::{Asker, Packet};
use super::protocol::Protocol;
use super::scenario::Scenario;
use super::world::World;

/// An operation that has begun, and its first outputs.
pub type Begun<V> = (Operation<V>, Vec<Output<V>>);

/// A client and the coordinator that serves it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Client<P: Protocol> {
    next_task: usize,
    pub(super) doing: Option<P::Doing>,
    pub(super) running: Option<Operation<P::Value>>,
    operations: u32,
    pub(super) epoch: u64,
    last_stamp: u64,
    pub(super) timeouts: u8,
    pub(super) memory: P::Memory,
}

impl<P: Protocol> Client<P> {
    /// Returns a client whose clock is ahead by `lead`.
    pub(super) fn new(lead: u64) -> Client<P> {
        Client {
            next_task: 0,
            doing: None,
            running: None,
            operations: 0,
            epoch: 1,
            last_stamp: lead,
            timeouts: 0,
            memory: P::Memory::default(),
        }
    }

    /// Returns true if no task is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.doing.is_none()
    }

    /// Returns the next of these tasks.
    pub(super) fn next_of(&self, tasks: &[P::Task]) -> Option<P::Task> {
        tasks.get(self.next_task).copied()
    }

    /// Returns the number of the value that the current task writes. No other task writes it.
    pub(super) fn number(&self, c: usize) -> u32 {
        10 * (c as u32 + 1) + self.next_task as u32
    }

    /// Ends the task without an answer, or after it.
    pub(super) fn end(&mut self) {
        (self.doing, self.running) = (None, None);
    }

    /// Returns true if the current operation waits for answers to this round.
    pub(super) fn waits_for(&self, operation: u32, round: u32) -> bool {
        let running = self.running.as_ref();
        self.operations == operation && running.is_some_and(|r| r.round() == round)
    }

    /// Returns a fresh id.
    pub(super) fn fresh_id(&mut self, c: usize) -> Id {
        self.operations += 1;
        let mut id = [0; 16];
        id[0] = c as u8 + 1;
        id[1..5].copy_from_slice(&self.operations.to_be_bytes());
        Id(id)
    }

    /// Returns a fresh stamp of the client's clock, above the one seen.
    pub(super) fn stamp(&mut self, c: usize, seen: Stamp) -> Stamp {
        next_stamp(&mut self.last_stamp, c)(seen)
    }
}

/// Returns the clock of a coordinator, by its index.
pub(super) fn next_stamp(last: &mut u64, coordinator: usize) -> impl FnMut(Stamp) -> Stamp + '_ {
    move |seen| {
        *last = (*last).max(seen.time) + 1;
        Stamp {
            time: *last,
            writer: Writer(coordinator as u64 + 1),
        }
    }
}

impl<P: Protocol> Scenario<P> {
    /// Begins a client's next task.
    pub(super) fn begin(&self, world: &mut World<P>, c: usize) {
        world.now += 1;
        let client = &mut world.clients[c];
        let task = self.clients[c].tasks[client.next_task];
        client.next_task += 1;
        P::begin(self, world, c, task);
    }

    /// Begins an operation of a client.
    pub(super) fn start_operation(
        &self,
        world: &mut World<P>,
        c: usize,
        begin: impl FnOnce(Start, Id, &mut NextStamp<'_>) -> Begun<P::Value>,
    ) {
        let client = &mut world.clients[c];
        let (start, id) = (self.start(client.epoch), client.fresh_id(c));
        let (operation, outputs) = begin(start, id, &mut next_stamp(&mut client.last_stamp, c));
        client.running = Some(operation);
        self.carry_out(world, c, outputs);
    }

    /// Lets a client's operation make a step, and carries out its outputs.
    pub(super) fn drive(
        &self,
        world: &mut World<P>,
        c: usize,
        step: impl FnOnce(&mut Operation<P::Value>, &mut NextStamp<'_>) -> Vec<Output<P::Value>>,
    ) {
        let client = &mut world.clients[c];
        let Some(operation) = client.running.as_mut() else {
            return;
        };
        let outputs = step(operation, &mut next_stamp(&mut client.last_stamp, c));
        self.carry_out(world, c, outputs);
    }

    fn carry_out(&self, world: &mut World<P>, c: usize, outputs: Vec<Output<P::Value>>) {
        for output in outputs {
            let client = &mut world.clients[c];
            if client.running.is_none() {
                return;
            }
            match output {
                // Bounds the space: the client gives up, and its request stays open.
                Output::Send { round, .. } if round > self.rounds => return client.end(),
                Output::Send { to, round, request } => send(world, c, to, round, request),
                Output::Decide(version) => {
                    let decision = P::decide(self.rules, client, &version);
                    self.drive(world, c, |operation, _| operation.decided(decision));
                }
                Output::Bury {
                    newest,
                    is_chosen,
                    attempt,
                } => {
                    let buried = P::bury(self.rules, &newest, is_chosen, attempt);
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
                    return P::done(self, world, c, outcome);
                }
            }
        }
    }
}

/// Sends a request of a client's operation.
fn send<P: Protocol>(
    world: &mut World<P>,
    c: usize,
    to: usize,
    round: u32,
    request: Request<P::Value>,
) {
    let about = P::about(world, c, &request);
    let client = &world.clients[c];
    world.network.insert(Packet::Ask {
        by: Asker::Client(c),
        operation: client.operations,
        epoch: client.epoch,
        to,
        round,
        about,
        request,
    });
}

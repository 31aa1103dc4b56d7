//! Messages, and the replicas that receive them.
//!
//! A message is delivered at any time after it was sent, or never. Some scenarios also repeat
//! requests.

use archipel_cluster::register::epoch::{Fence, fence};
use archipel_cluster::register::{Answer, Request, Version};

use super::protocol::{Protocol, Rows};
use super::scenario::Scenario;
use super::world::{Node, World};

/// A coordinator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Asker {
    /// The one that serves this client.
    Client(usize),
    /// This replica's own, which brings a row that the replica lacks.
    Node(usize),
}

/// A message under way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Packet<P: Protocol> {
    /// A request of a coordinator to a replica.
    Ask {
        /// The coordinator that asks.
        by: Asker,
        /// The number of its operation.
        operation: u32,
        /// The epoch.
        epoch: u64,
        /// The replica.
        to: usize,
        /// The operation's round.
        round: u32,
        /// The rows that it concerns.
        about: P::About,
        /// The request.
        request: Request<P::Value>,
    },
    /// A replica's answer.
    Answer {
        /// The coordinator that asked.
        to: Asker,
        /// The number of its operation.
        operation: u32,
        /// The replica.
        from: usize,
        /// The round that it answers.
        round: u32,
        /// The answer.
        answer: Answer<P::Value>,
    },
    /// A row that one replica sends to another.
    Spread {
        /// The epoch.
        epoch: u64,
        /// The receiving replica.
        to: usize,
        /// The row.
        row: P::Row,
        /// The version.
        version: Version<P::Value>,
        /// True if a quorum is known to hold it.
        settled: bool,
    },
}

impl<P: Protocol> World<P> {
    /// Returns true if a coordinator waits for answers to this round.
    fn is_awaited(&self, asker: Asker, operation: u32, round: u32) -> bool {
        match asker {
            Asker::Client(c) => self.clients[c].waits_for(operation, round),
            Asker::Node(n) => self.nodes[n].rows.waits_for(operation, round),
        }
    }

    /// Removes answers to rounds that are over, because they change nothing.
    pub(super) fn drop_late_answers(&mut self) {
        let mut network = std::mem::take(&mut self.network);
        network.retain(|packet| match packet {
            Packet::Answer {
                to,
                operation,
                round,
                ..
            } => self.is_awaited(*to, *operation, *round),
            _ => true,
        });
        self.network = network;
    }
}

impl<P: Protocol> Scenario<P> {
    /// Lets a message arrive.
    pub(super) fn deliver(&self, world: &mut World<P>, packet: Packet<P>) {
        match packet {
            Packet::Answer {
                to,
                operation,
                from,
                round,
                answer,
            } => {
                if !world.is_awaited(to, operation, round) {
                    return;
                }
                match to {
                    Asker::Client(c) => {
                        P::note(&mut world.clients[c], from, &answer);
                        self.drive(world, c, |operation, next| {
                            operation.on_answer(from, round, answer, next)
                        });
                    }
                    Asker::Node(n) => P::on_brought(self, world, n, from, round, answer),
                }
            }
            packet => self.receive(world, packet),
        }
    }

    /// Lets a replica handle a request or a row.
    pub(super) fn receive(&self, world: &mut World<P>, packet: Packet<P>) {
        match &packet {
            Packet::Ask {
                by,
                operation,
                epoch,
                to,
                round,
                about,
                request,
            } => {
                let node = &mut world.nodes[*to];
                let answer = self.answer(node, *epoch, about, request.clone());
                if answer == Answer::LacksPointing {
                    return P::bring(self, world, *to, packet);
                }
                world.network.insert(Packet::Answer {
                    to: *by,
                    operation: *operation,
                    from: *to,
                    round: *round,
                    answer,
                });
            }
            Packet::Spread {
                epoch,
                to,
                row,
                version,
                settled,
            } => {
                let node = &mut world.nodes[*to];
                if self.take(node, *epoch, *row, version.clone(), *settled) {
                    P::bring(self, world, *to, packet);
                }
            }
            Packet::Answer { .. } => {}
        }
    }

    /// Returns a replica's answer to a request.
    pub(super) fn answer(
        &self,
        node: &mut Node<P>,
        epoch: u64,
        about: &P::About,
        request: Request<P::Value>,
    ) -> Answer<P::Value> {
        match fence(self.rules, node.epoch, epoch) {
            Fence::Pass => {}
            Fence::Superseded => return Answer::Superseded { epoch: node.epoch },
            Fence::Learn => node.epoch = epoch,
        }
        let bounds = node.bounds();
        node.rows.answer(self.rules, &bounds, about, request)
    }

    /// Lets a replica take a row of another one. Returns true if it must bring another row first.
    pub(super) fn take(
        &self,
        node: &mut Node<P>,
        epoch: u64,
        row: P::Row,
        version: Version<P::Value>,
        settled: bool,
    ) -> bool {
        let bounds = node.bounds();
        fence(self.rules, node.epoch, epoch) == Fence::Pass
            && node.rows.take(self.rules, &bounds, row, version, settled)
    }

    /// Sends a row of one replica to another.
    pub(super) fn spread(&self, world: &mut World<P>, from: usize, to: usize, row: P::Row) {
        let node = &world.nodes[from];
        let packet = Packet::Spread {
            epoch: node.epoch,
            to,
            row,
            version: node.rows.version(row),
            settled: self.is_settled(world, from, row),
        };
        world.network.insert(packet);
    }

    /// Returns true if a quorum holds this replica's version of a row.
    fn is_settled(&self, world: &World<P>, n: usize, row: P::Row) -> bool {
        let node = &world.nodes[n];
        let Some(stamp) = node.rows.decided(row) else {
            return false;
        };
        let same = |other: &usize| world.nodes[*other].rows.decided(row) == Some(stamp);
        let holders = (0..self.nodes).filter(same).collect();
        self.start(node.epoch).quorums.is_quorum(holders)
    }
}

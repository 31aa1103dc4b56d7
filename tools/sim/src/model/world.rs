//! One key on a few replicas, a few clients, and a network that loses, delays and reorders.
//!
//! A message is delivered at any time after it was sent, or never. Some scenarios also repeat
//! messages. The state machines are the product's. Only this driver is the model's own.

mod clients;
mod nodes;

use std::collections::BTreeSet;

use archipel_base::Stamp;
use archipel_cluster::register::epoch::Config;
use archipel_cluster::register::floor::Floors;
use archipel_cluster::register::replica::{Bounds, Cell, Recent};
use archipel_cluster::register::{Answer, Operation, Request, Rules, Start, Version};
use stateright::{Model, Property};

use super::floor::RunningFloor;
use super::scenario::Scenario;
use crate::linear::Event;

/// A replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    cell: Cell<u32>,
    recent: Recent,
    floors: Floors,
    epoch: u64,
}

/// A client and the coordinator that serves it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Client {
    next_task: usize,
    operation: Option<Operation<u32>>,
    epoch: u64,
    last_stamp: u64,
    timeouts: u8,
    asked: bool,
}

/// A message under way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Packet {
    /// A request from a client's coordinator to a replica.
    Ask {
        /// The client.
        client: usize,
        /// The index of its task.
        task: usize,
        /// The epoch.
        epoch: u64,
        /// The replica.
        to: usize,
        /// The operation's round.
        round: u32,
        /// The request.
        request: Request<u32>,
    },
    /// A replica's answer.
    Answer {
        /// The client.
        client: usize,
        /// The index of its task.
        task: usize,
        /// The replica.
        from: usize,
        /// The round that it answers.
        round: u32,
        /// The answer.
        answer: Answer<u32>,
    },
    /// A row that one replica sends to another.
    Spread {
        /// The epoch.
        epoch: u64,
        /// The receiving replica.
        to: usize,
        /// The version.
        version: Version<u32>,
        /// True if a quorum is known to hold it.
        settled: bool,
    },
}

/// The whole state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    nodes: Vec<Node>,
    clients: Vec<Client>,
    network: BTreeSet<Packet>,
    history: Vec<Event>,
    now: u64,
    restarts: u8,
    repeats: u8,
    spreads: u8,
    floor: Option<RunningFloor<Option<Stamp>>>,
    floors_begun: u8,
    /// The newest epoch that was chosen.
    chosen: u64,
    violated: bool,
}

/// A possible next step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A client begins its next task.
    Begin(usize),
    /// An idle client learns the newest epoch.
    Catch(usize),
    /// A message arrives.
    Deliver(Packet),
    /// A message arrives and will arrive again.
    Repeat(Packet),
    /// A coordinator stops waiting for further answers.
    Timeout(usize),
    /// A replica restarts. It forgets everything that is not durable.
    Restart(usize),
    /// A replica learns the newest epoch.
    Learn(usize),
    /// A replica sends its row to another.
    Spread(usize, usize),
    /// A floor round begins.
    Floor,
    /// A replica receives and answers the floor round's request.
    FloorStep(usize),
    /// The next epoch is chosen without a write.
    Choose,
}

impl Scenario {
    fn rules(&self) -> Rules {
        self.rules
    }

    fn config(&self, epoch: u64) -> &Config<usize> {
        let index = (epoch as usize - 1).min(self.epochs.len() - 1);
        &self.epochs[index]
    }

    fn start(&self, epoch: u64) -> Start {
        Start {
            rules: self.rules(),
            quorums: self.config(epoch).quorums(self.rules(), |m| m.node),
        }
    }

    fn bounds(&self, node: &Node) -> Bounds {
        Bounds::without_floors(1 << 20, 0).with_floors(&node.floors)
    }
}

impl Model for Scenario {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let first = self.config(1).members();
        let first: BTreeSet<usize> = first.into_iter().map(|m| m.node).collect();
        let nodes = (0..self.nodes).map(|n| {
            let epoch = if first.contains(&n) { 1 } else { 2 };
            let cell = Cell::default();
            let bounds = Bounds::without_floors(0, 0);
            Node {
                recent: Recent::forgotten(self.rules(), &cell, &bounds),
                cell,
                floors: Floors::joining(epoch),
                epoch,
            }
        });
        let clients = self.clients.iter().map(|c| Client {
            next_task: 0,
            operation: None,
            epoch: 1,
            last_stamp: c.skew,
            timeouts: 0,
            asked: false,
        });
        vec![World {
            nodes: nodes.collect(),
            clients: clients.collect(),
            network: BTreeSet::new(),
            history: Vec::new(),
            now: 0,
            restarts: 0,
            repeats: 0,
            spreads: 0,
            floor: None,
            floors_begun: 0,
            chosen: 1,
            violated: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (c, client) in world.clients.iter().enumerate() {
            if client.operation.is_none() && self.may_begin(world, c) {
                actions.push(Action::Begin(c));
                if client.epoch < world.chosen {
                    actions.push(Action::Catch(c));
                }
            }
            if client.operation.is_some() && client.timeouts < self.timeouts {
                actions.push(Action::Timeout(c));
            }
        }
        for packet in &world.network {
            actions.push(Action::Deliver(packet.clone()));
            if world.repeats < self.repeats && matches!(packet, Packet::Ask { .. }) {
                actions.push(Action::Repeat(packet.clone()));
            }
        }
        for n in 0..self.nodes {
            if world.restarts < self.restarts {
                actions.push(Action::Restart(n));
            }
            if world.nodes[n].epoch < world.chosen {
                actions.push(Action::Learn(n));
            }
            self.node_actions(world, n, actions);
        }
        if world.floor.is_none() && world.floors_begun < self.floors {
            actions.push(Action::Floor);
        }
        if world.chosen < self.free_epochs {
            actions.push(Action::Choose);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Begin(c) => self.begin(&mut world, c),
            Action::Catch(c) => world.clients[c].epoch = world.chosen,
            Action::Deliver(packet) => {
                world.network.remove(&packet);
                self.deliver(&mut world, packet);
            }
            Action::Repeat(packet) => {
                world.repeats += 1;
                self.deliver(&mut world, packet);
            }
            Action::Timeout(c) => {
                world.clients[c].timeouts += 1;
                self.drive(&mut world, c, |operation, next| operation.on_timeout(next));
                world.drop_late_answers();
            }
            Action::Restart(n) => {
                world.restarts += 1;
                let bounds = self.bounds(&world.nodes[n]);
                let node = &mut world.nodes[n];
                node.recent = Recent::forgotten(self.rules(), &node.cell, &bounds);
            }
            Action::Learn(n) => world.nodes[n].epoch = world.chosen,
            Action::Spread(from, to) => {
                world.spreads += 1;
                let world_before = last;
                let node = &world.nodes[from];
                world.network.insert(Packet::Spread {
                    epoch: node.epoch,
                    to,
                    version: node.cell.version(),
                    settled: self.is_settled(world_before, from),
                });
            }
            Action::Floor => self.begin_floor(&mut world),
            Action::FloorStep(n) => self.floor_step(&mut world, n),
            Action::Choose => world.chosen += 1,
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Scenario>> {
        vec![Property::always("linearizable", |_, world: &World| {
            !world.violated
        })]
    }
}

impl World {
    /// Removes answers to rounds that are over, because they change nothing.
    fn drop_late_answers(&mut self) {
        let clients = &self.clients;
        self.network.retain(|packet| match packet {
            Packet::Answer {
                client,
                task,
                round,
                ..
            } => {
                let client = &clients[*client];
                let operation = client.operation.as_ref();
                client.next_task == *task + 1 && operation.is_some_and(|o| o.round() == *round)
            }
            _ => true,
        });
    }

    /// Returns true if a broken rule led to a result that no order explains.
    pub fn is_violated(&self) -> bool {
        self.violated
    }

    /// Returns the operations and their answers.
    pub fn history(&self) -> &[Event] {
        &self.history
    }
}

impl Scenario {
    fn deliver(&self, world: &mut World, packet: Packet) {
        match packet {
            Packet::Ask {
                client,
                task,
                epoch,
                to,
                round,
                request,
            } => {
                let answer = self.answer(&mut world.nodes[to], epoch, request);
                world.network.insert(Packet::Answer {
                    client,
                    task,
                    from: to,
                    round,
                    answer,
                });
            }
            Packet::Answer {
                client,
                task,
                from,
                round,
                answer,
            } => {
                if world.clients[client].next_task == task + 1 {
                    self.drive(world, client, |operation, next| {
                        operation.on_answer(from, round, answer, next)
                    });
                }
            }
            Packet::Spread {
                epoch,
                to,
                version,
                settled,
            } => {
                self.take(&mut world.nodes[to], epoch, version, settled);
            }
        }
        world.drop_late_answers();
    }
}

//! Two rows of which one decides: an object and an upload of its key.
//!
//! Clients put and read the object, complete and abort the upload, look at it and collect its
//! garbage, as `archipel_model::uploads` does. Messages are lost, delayed, reordered and repeated;
//! replicas restart and hand rows to one another, one row at a time; floors and a layout change
//! run; coordinators crash. The state machines and the rules at a replica are the product's.

mod bringing;
mod catalogue;
mod check;
mod client;
mod packet;
mod replica;
mod scenario;

use std::collections::BTreeSet;

use archipel_base::{Stamp, Writer};
use archipel_cluster::register::epoch::Config;
use archipel_cluster::register::floor::Floors;
use archipel_cluster::register::replica::{Bounds, Cell, Recent};
use archipel_cluster::register::{Answer, Intent, Start};
use stateright::{Model, Property};

use bringing::Bringing;
pub use catalogue::{for_mutant, small, walks};
pub use check::{Call, Event, Reply};
use client::Client;
pub use packet::{Asker, Packet};
pub use scenario::{Row, Task, Uploads, Value};

use super::floor::RunningFloor;
use super::walk::Walk;

/// A replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    cells: [Cell<Value>; 2],
    recent: [Recent; 2],
    floors: Floors,
    epoch: u64,
    /// The read of the upload's row that the node does because it lacks that row.
    bringing: Bringing,
    /// With the mutant `MarkApart`: a mark that the next transaction will make.
    unmarked: Option<(Intent, Stamp)>,
}

/// The whole state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    nodes: Vec<Node>,
    clients: Vec<Client>,
    network: BTreeSet<Packet>,
    history: Vec<Event>,
    now: u64,
    crashes: u8,
    restarts: u8,
    repeats: u8,
    spreads: u8,
    floor: Option<RunningFloor<[Option<Stamp>; 2]>>,
    floors_begun: u8,
    /// The newest epoch that was chosen.
    chosen: u64,
    violated: bool,
}

impl World {
    /// Returns the operations and their answers.
    pub fn history(&self) -> &[Event] {
        &self.history
    }
}

/// A possible next step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A client begins its next task.
    Begin(usize),
    /// A message arrives.
    Deliver(Packet),
    /// A message arrives and will arrive again.
    Repeat(Packet),
    /// A coordinator stops waiting for further answers.
    Timeout(usize),
    /// A coordinator crashes. Its client gets no answer.
    Crash(usize),
    /// A replica restarts. It forgets everything that is not durable.
    Restart(usize),
    /// A replica makes a mark in a second transaction.
    MarkLater(usize),
    /// A replica learns the newest epoch.
    Learn(usize),
    /// A replica sends a row to another.
    Spread(usize, usize, Row),
    /// A floor round begins.
    Floor,
    /// A replica receives and answers the floor round's request.
    FloorStep(usize),
    /// The next epoch is chosen.
    Choose,
}

impl Uploads {
    fn config(&self, epoch: u64) -> &Config<usize> {
        let index = (epoch as usize - 1).min(self.epochs.len() - 1);
        &self.epochs[index]
    }

    fn start(&self, epoch: u64) -> Start {
        Start {
            rules: self.rules,
            quorums: self.config(epoch).quorums(self.rules, |m| m.node),
        }
    }

    fn bounds(&self, node: &Node) -> Bounds {
        Bounds::without_floors(1 << 20, 0).with_floors(&node.floors)
    }

    fn forgotten(&self, node: &Node) -> [Recent; 2] {
        let bounds = self.bounds(node);
        [0, 1].map(|row| Recent::forgotten(self.rules, &node.cells[row], &bounds))
    }

    fn first_node(&self, n: usize) -> Node {
        let first = self.config(1).members();
        let is_first = first.iter().any(|m| m.node == n);
        let epoch = if is_first { 1 } else { 2 };
        let held = is_first && !(self.is_missed && n + 1 == first.len());
        let mut cells = [Cell::default(), Cell::default()];
        if held {
            let stamp = Stamp {
                time: 1 + self.upload_ahead,
                writer: Writer(99),
            };
            cells[Row::Upload as usize] = Cell {
                promised: stamp,
                stamp,
                write: archipel_base::Id([99; 16]),
                value: Some(client::LIVE),
            };
        }
        let bounds = Bounds::without_floors(0, 0);
        Node {
            recent: [0, 1].map(|row| Recent::forgotten(self.rules, &cells[row], &bounds)),
            cells,
            floors: Floors::joining(epoch),
            epoch,
            bringing: Bringing::default(),
            unmarked: None,
        }
    }
}

impl Model for Uploads {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            nodes: (0..self.nodes).map(|n| self.first_node(n)).collect(),
            clients: self.clients.iter().map(|c| Client::new(c.0)).collect(),
            network: BTreeSet::new(),
            history: Vec::new(),
            now: 0,
            crashes: 0,
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
            if client.is_idle() {
                if client.has_more(&self.clients[c].1) {
                    actions.push(Action::Begin(c));
                }
                continue;
            }
            if client.timeouts < self.timeouts {
                actions.push(Action::Timeout(c));
            }
            if world.crashes < self.crashes {
                actions.push(Action::Crash(c));
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
        // The last version is dropped without a listing, so the model stops before that.
        if world.chosen < self.epochs.len() as u64 {
            actions.push(Action::Choose);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Begin(c) => self.begin(&mut world, c),
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
            }
            Action::Crash(c) => {
                world.crashes += 1;
                world.clients[c].crash();
            }
            Action::Restart(n) => {
                world.restarts += 1;
                world.nodes[n].recent = self.forgotten(&world.nodes[n]);
                world.nodes[n].unmarked = None;
                world.nodes[n].bringing.stop();
            }
            Action::MarkLater(n) => self.mark_later(&mut world.nodes[n]),
            Action::Learn(n) => world.nodes[n].epoch = world.chosen,
            Action::Spread(from, to, row) => {
                world.spreads += 1;
                let node = &world.nodes[from];
                world.network.insert(Packet::Spread {
                    epoch: node.epoch,
                    to,
                    row,
                    version: node.cells[row as usize].version(),
                    settled: self.is_settled(last, from, row),
                });
            }
            Action::Floor => self.begin_floor(&mut world),
            Action::FloorStep(n) => self.floor_step(&mut world, n),
            Action::Choose => world.chosen += 1,
        }
        world.drop_late_answers();
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Uploads>> {
        vec![Property::always("linearizable", |_, world: &World| {
            !world.violated
        })]
    }
}

impl Walk for Uploads {
    fn is_violated(world: &World) -> bool {
        world.violated
    }

    fn is_common(action: &Action) -> bool {
        matches!(
            action,
            Action::Begin(_) | Action::Deliver(_) | Action::FloorStep(_)
        )
    }
}

impl World {
    /// Removes answers to rounds that are over, because they change nothing.
    fn drop_late_answers(&mut self) {
        let (clients, nodes) = (&self.clients, &self.nodes);
        self.network.retain(|packet| match packet {
            Packet::Answer {
                to,
                operation,
                round,
                ..
            } => match to {
                Asker::Client(c) => clients[*c].waits_for(*operation, *round),
                Asker::Node(n) => nodes[*n].bringing.waits_for(*operation, *round),
            },
            _ => true,
        });
    }
}

impl Uploads {
    fn deliver(&self, world: &mut World, packet: Packet) {
        match packet {
            Packet::Answer {
                to,
                operation,
                from,
                round,
                answer,
            } => match to {
                Asker::Client(c) if world.clients[c].waits_for(operation, round) => {
                    self.drive(world, c, |operation, next| {
                        operation.on_answer(from, round, answer, next)
                    });
                }
                Asker::Node(n) if world.nodes[n].bringing.waits_for(operation, round) => {
                    self.drive_bringing(world, n, |operation, next| {
                        operation.on_answer(from, round, answer, next)
                    });
                }
                Asker::Client(_) | Asker::Node(_) => {}
            },
            packet => self.receive(world, packet, false),
        }
    }

    /// Lets a replica handle a request or a row. `is_over` is true if a quorum has told it that the
    /// upload is over.
    fn receive(&self, world: &mut World, packet: Packet, is_over: bool) {
        match packet.clone() {
            Packet::Ask {
                by,
                operation,
                epoch,
                to,
                round,
                row,
                intent,
                request,
            } => {
                let node = &mut world.nodes[to];
                let answer = self.answer(node, epoch, row, intent, is_over, request);
                if answer == Answer::LacksPointing {
                    return self.bring(world, to, packet);
                }
                world.network.insert(Packet::Answer {
                    to: by,
                    operation,
                    from: to,
                    round,
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
                let known = (settled, is_over);
                if self.take(&mut world.nodes[to], epoch, row, version, known) {
                    self.bring(world, to, packet);
                }
            }
            Packet::Answer { .. } => {}
        }
    }
}

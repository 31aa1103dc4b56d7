//! Versions of one key: the object's row decides, and replicas keep what they displace.
//!
//! Clients put versions with and without a condition, read, delete and change them by name, and
//! list them. Messages are lost, delayed, reordered and repeated; replicas restart and hand single
//! rows to one another; floors and a layout change run; coordinators crash. The state machines, the
//! rules at a replica and the decisions are the product's.

mod catalogue;
mod check;
mod client;
mod moving;
mod packet;
mod replica;
mod scenario;
mod settings;

use std::collections::{BTreeMap, BTreeSet};

use archipel_base::Stamp;
use archipel_cluster::register::Start;
use archipel_cluster::register::epoch::Config;
use archipel_cluster::register::floor::Floors;
use archipel_cluster::register::replica::{Bounds, Cell, Recent};
use archipel_storage::{Value, VersionName};
use stateright::{Model, Property};

pub use catalogue::{for_mutant, small, walks};
pub use check::{Call, Event, Reply};
use client::Client;
use moving::Moving;
pub use packet::{Digest, Packet, Row};
pub use scenario::{Task, Versions};
use settings::Change;

use super::floor::RunningFloor;
use super::walk::Walk;

/// A replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    current: Cell<Value>,
    recent: Recent,
    kept: BTreeMap<VersionName, Cell<Value>>,
    floors: Floors,
    epoch: u64,
    /// True once the write fence follows the change of the settings.
    has_moved: bool,
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
    floor: Option<RunningFloor<Digest>>,
    floors_begun: u8,
    /// The newest epoch that was chosen.
    chosen: u64,
    /// The names of all attempts of puts.
    sent: Vec<Stamp>,
    /// The change of the bucket's settings, once it began.
    change: Option<Change>,
    /// The move of all versions to the newest layout version, once it began.
    moving: Option<Moving>,
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
    /// A replica's fence follows the change of the settings.
    Move(usize),
    /// A client's node hears of that change.
    Hear(usize),
    /// The change is answered.
    Confirm,
    /// A step of the move to the newest layout version.
    Rebalance(moving::Step),
}

impl Versions {
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

    fn forgotten(&self, node: &Node) -> Recent {
        Recent::forgotten(self.rules, &node.current, &self.bounds(node))
    }

    fn first_node(&self, n: usize) -> Node {
        let held = self.config(1).members().iter().any(|m| m.node == n);
        let epoch = if held { 1 } else { 2 };
        let current = Cell::default();
        let bounds = Bounds::without_floors(0, 0);
        Node {
            recent: Recent::forgotten(self.rules, &current, &bounds),
            current,
            kept: BTreeMap::new(),
            floors: Floors::joining(epoch),
            epoch,
            has_moved: false,
        }
    }
}

impl Model for Versions {
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
            sent: Vec::new(),
            change: None,
            moving: None,
            violated: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (c, client) in world.clients.iter().enumerate() {
            if client.is_idle() {
                let next = client.next_of(&self.clients[c].1);
                let may_begin = match next {
                    None => false,
                    Some(Task::Retire) => self.void_row(world).is_some(),
                    Some(Task::Move) => self.may_move(world),
                    Some(_) => !world.is_changing(c),
                };
                if may_begin {
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
        if self.may_choose(world) {
            actions.push(Action::Choose);
        }
        self.settings_actions(world, actions);
        self.moving_actions(world, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Begin(c) => {
                world.stop_moving(c);
                self.begin(&mut world, c);
            }
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
            }
            Action::Learn(n) => world.nodes[n].epoch = world.chosen,
            Action::Spread(from, to, row) => {
                world.spreads += 1;
                let node = &world.nodes[from];
                world.network.insert(Packet::Spread {
                    epoch: node.epoch,
                    to,
                    row,
                    version: match row {
                        Row::Object => node.current.version(),
                        Row::Kept(name) => node.kept(name).version(),
                    },
                    settled: row == Row::Object && self.is_settled(last, from),
                });
            }
            Action::Floor => self.begin_floor(&mut world),
            Action::FloorStep(n) => self.floor_step(&mut world, n),
            Action::Choose => world.chosen += 1,
            Action::Move(n) => world.nodes[n].has_moved = true,
            Action::Hear(c) => world.clients[c].knows = true,
            Action::Confirm => self.confirm(&mut world),
            Action::Rebalance(step) => self.moving_step(&mut world, step),
        }
        world.drop_late_answers();
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Versions>> {
        vec![Property::always("linearizable", |_, world: &World| {
            !world.violated
        })]
    }
}

impl Walk for Versions {
    fn is_violated(world: &World) -> bool {
        world.violated
    }

    fn is_common(action: &Action) -> bool {
        matches!(
            action,
            Action::Begin(_) | Action::Deliver(_) | Action::FloorStep(_) | Action::Rebalance(_)
        )
    }
}

impl World {
    /// Removes answers to rounds that are over, because they change nothing.
    fn drop_late_answers(&mut self) {
        let clients = &self.clients;
        self.network.retain(|packet| match packet {
            Packet::Answer {
                client,
                operation,
                round,
                ..
            } => clients[*client].waits_for(*operation, *round),
            _ => true,
        });
    }
}

impl Versions {
    fn deliver(&self, world: &mut World, packet: Packet) {
        match packet {
            Packet::Ask {
                client,
                operation,
                epoch,
                to,
                round,
                about,
                by_new,
                request,
            } => {
                let asked = (epoch, by_new, about);
                let answer = self.answer(&mut world.nodes[to], asked, request);
                world.network.insert(Packet::Answer {
                    client,
                    operation,
                    from: to,
                    round,
                    answer,
                });
            }
            Packet::Answer {
                client,
                operation,
                from,
                round,
                answer,
            } => {
                if world.clients[client].waits_for(operation, round) {
                    world.clients[client].note(from, &answer);
                    self.drive(world, client, |operation, next| {
                        operation.on_answer(from, round, answer, next)
                    });
                }
            }
            Packet::Spread {
                epoch,
                to,
                row,
                version,
                settled,
            } => self.take(&mut world.nodes[to], epoch, row, version, settled),
        }
    }
}

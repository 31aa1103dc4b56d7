//! One key on a few replicas, a few clients, and a network that loses, delays and reorders.
//!
//! A message is delivered at any time after it was sent, or never; some scenarios also repeat
//! messages. The state machines are the product's; only this driver is the model's own.

use std::collections::BTreeSet;

use archipel_base::{Id, Stamp, Writer};
use archipel_cluster::register::epoch::{Config, Fence, Retirement, fence};
use archipel_cluster::register::floor::{
    self, FloorAnswer, FloorOutput, FloorRequest, FloorRound, Floors,
};
use archipel_cluster::register::replica::{self, Bounds, Cell, Recent};
use archipel_cluster::register::{
    Answer, Decision, Operation, Outcome, Output, Request, Rules, Start, Version,
};
use stateright::{Model, Property};

use super::scenario::{Scenario, Task};
use crate::linear::{self, Call, Event, Reply};

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

/// A message on its way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Packet {
    /// From a client's coordinator to a replica.
    Ask {
        /// Who asks.
        client: usize,
        /// Its how manieth task.
        task: usize,
        /// In which epoch.
        epoch: u64,
        /// Which replica.
        to: usize,
        /// The operation's round.
        round: u32,
        /// What.
        request: Request<u32>,
    },
    /// The answer.
    Tell {
        /// Who asked.
        client: usize,
        /// In which task.
        task: usize,
        /// Which replica answers.
        from: usize,
        /// To which round.
        round: u32,
        /// What.
        answer: Answer<u32>,
    },
    /// A row that one replica hands to another.
    Spread {
        /// In which epoch.
        epoch: u64,
        /// To which replica.
        to: usize,
        /// What.
        version: Version<u32>,
        /// Whether a quorum is known to hold it.
        settled: bool,
    },
}

/// A floor round in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Flooring {
    epoch: u64,
    round: FloorRound<Option<Stamp>>,
    asking: FloorRequest,
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
    floor: Option<Flooring>,
    floors_begun: u8,
    /// The newest epoch that was chosen.
    chosen: u64,
    violated: bool,
}

/// What may happen next.
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
    /// A coordinator does not wait for the rest of the answers.
    Timeout(usize),
    /// A replica restarts: it forgets what is not durable.
    Restart(usize),
    /// A replica learns the newest epoch.
    Learn(usize),
    /// A replica sends its row to another.
    Spread(usize, usize),
    /// A floor round begins.
    Floor,
    /// A replica gets and answers what the floor round asks.
    FloorStep(usize),
    /// The next epoch is chosen without further ado.
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
            quorums: self.config(epoch).quorums(|m| m.node),
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
                world.network_without_junk();
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
    /// Answers to rounds that are over change nothing: they need not be delivered.
    fn network_without_junk(&mut self) {
        let clients = &self.clients;
        self.network.retain(|packet| match packet {
            Packet::Tell {
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

    /// A broken rule led to a result that no order explains.
    pub fn is_violated(&self) -> bool {
        self.violated
    }

    /// The operations and what they were told.
    pub fn history(&self) -> &[Event] {
        &self.history
    }
}

impl Scenario {
    fn may_begin(&self, world: &World, c: usize) -> bool {
        let Some(task) = self.clients[c].tasks.get(world.clients[c].next_task) else {
            return false;
        };
        match task {
            // To propose an epoch one must know the one before.
            Task::Retire => world.chosen == 2,
            _ => true,
        }
    }

    fn begin(&self, world: &mut World, c: usize) {
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
                client.epoch = 2;
                if self.retirement().is_complete(self.rules()) {
                    world.chosen = 3;
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

    /// Lets a client's operation make a step and carries out what it asks for.
    fn drive(
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
                Output::Pause { .. } => {
                    self.drive(world, c, |operation, next| operation.resume(next));
                }
                Output::Refresh { epoch } => {
                    world.clients[c].epoch = epoch;
                    let quorums = self.start(epoch).quorums;
                    self.drive(world, c, |operation, next| operation.restart(quorums, next));
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
            Outcome::Unknown => return,
            Outcome::Unavailable | Outcome::Guarded => {
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
                // It left the row alone: all it did was to read.
                event.call = Call::Read;
            }
        }
        world.violated |= !linear::is_linearizable(&world.history);
    }

    fn retirement(&self) -> Retirement<()> {
        Retirement::new(self.config(2).live[0].iter().map(|m| m.node).collect())
    }

    /// All rows (there is one) were read under epoch 2: the first layout version may go.
    fn retire(&self, world: &mut World) {
        let mut retirement = self.retirement();
        // The read's quorum holds a majority of the oldest version, all of which know the epoch.
        let oldest = self.config(2).live[0].iter();
        oldest.for_each(|m| retirement.on_listed(m.node, [()]));
        retirement.on_read(());
        if retirement.is_complete(self.rules()) {
            world.chosen = 3;
        }
    }

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
                world.network.insert(Packet::Tell {
                    client,
                    task,
                    from: to,
                    round,
                    answer,
                });
            }
            Packet::Tell {
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
        world.network_without_junk();
    }

    fn answer(&self, node: &mut Node, epoch: u64, request: Request<u32>) -> Answer<u32> {
        match fence(self.rules(), node.epoch, epoch) {
            Fence::Pass => {}
            Fence::Superseded => return Answer::Superseded { epoch: node.epoch },
            Fence::Learn => node.epoch = epoch,
        }
        let bounds = self.bounds(node);
        let step = replica::step(
            self.rules(),
            &bounds,
            &node.cell,
            &mut node.recent,
            request,
            true,
        );
        if let Some(cell) = step.cell {
            node.cell = cell;
        }
        step.answer
    }

    /// Whether a quorum holds what this node holds.
    fn is_settled(&self, world: &World, node: usize) -> bool {
        let node = &world.nodes[node];
        let same = |n: &usize| world.nodes[*n].cell.stamp == node.cell.stamp;
        let holders = (0..self.nodes).filter(same).collect();
        self.start(node.epoch).quorums.is_quorum(holders)
    }

    fn take(&self, node: &mut Node, epoch: u64, version: Version<u32>, settled: bool) {
        if fence(self.rules(), node.epoch, epoch) != Fence::Pass {
            return;
        }
        let bounds = self.bounds(node);
        let taken = replica::spread(
            self.rules(),
            &bounds,
            &node.cell,
            &mut node.recent,
            version,
            settled,
        );
        if let Some(cell) = taken {
            node.cell = cell;
        }
    }

    fn node_actions(&self, world: &World, n: usize, actions: &mut Vec<Action>) {
        let node = &world.nodes[n];
        if world.spreads < self.spreads && node.cell.stamp != Stamp::ZERO {
            let others = (0..self.nodes).filter(|o| *o != n);
            actions.extend(others.map(|o| Action::Spread(n, o)));
        }
        if let Some(floor) = &world.floor
            && floor.round.waiting().contains(n)
        {
            actions.push(Action::FloorStep(n));
        }
    }

    /// Begins a floor round at the highest stamp that any replica holds or promised.
    fn begin_floor(&self, world: &mut World) {
        world.floors_begun += 1;
        let epoch = world.chosen;
        let seen = world
            .nodes
            .iter()
            .map(|n| n.cell.stamp.max(n.cell.promised));
        let floor = seen.max().unwrap_or_default();
        let (round, output) = FloorRound::new(self.rules(), self.start(epoch).quorums, floor);
        if let FloorOutput::Ask(asking) = output {
            world.floor = Some(Flooring {
                epoch,
                round,
                asking,
            });
        }
    }

    fn floor_step(&self, world: &mut World, n: usize) {
        let Some(mut flooring) = world.floor.take() else {
            return;
        };
        let node = &mut world.nodes[n];
        let output = match fence(self.rules(), node.epoch, flooring.epoch) {
            Fence::Pass => {
                let answer = self.answer_floor(node, &flooring);
                flooring.round.on_answer(n, answer)
            }
            Fence::Superseded => return,
            Fence::Learn => None,
        };
        match output {
            None => world.floor = Some(flooring),
            Some(FloorOutput::Ask(asking)) => world.floor = Some(Flooring { asking, ..flooring }),
            Some(FloorOutput::Differ | FloorOutput::Agreed) => {}
        }
    }

    fn answer_floor(&self, node: &mut Node, flooring: &Flooring) -> FloorAnswer<Option<Stamp>> {
        let cell = node.cell.clone();
        let rows_up_to = |floor: Stamp, gone: Stamp| {
            // There is but one key: its stamp says it all.
            let void = cell.value.is_none() && cell.stamp <= gone;
            let counts = cell.stamp <= floor && cell.stamp != Stamp::ZERO && !void;
            counts.then_some(cell.stamp)
        };
        let answer = floor::answer(
            self.rules(),
            &mut node.floors,
            node.epoch,
            flooring.asking,
            rows_up_to,
        );
        // What is void is dropped at once: the strictest a driver may be.
        let bounds = self.bounds(node);
        node.cell = replica::above_floor(&node.cell, &bounds);
        answer
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

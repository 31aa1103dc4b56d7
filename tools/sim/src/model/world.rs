//! A few replicas, a few clients, and a network that loses, delays and reorders.

use std::collections::BTreeSet;

use archipel_cluster::register::floor::Floors;
use archipel_cluster::register::replica::Bounds;
use stateright::{Model, Property};

use super::client::Client;
use super::floor::RunningFloor;
use super::network::Packet;
use super::protocol::{Protocol, Rows};
use super::scenario::Scenario;
use crate::linear::Event;

/// A replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node<P: Protocol> {
    pub(super) rows: P::Rows,
    pub(super) floors: Floors,
    pub(super) epoch: u64,
}

impl<P: Protocol> Node<P> {
    /// Returns the limits on the stamps that the replica accepts.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds::without_floors(1 << 20, 0).with_floors(&self.floors)
    }
}

/// The whole state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World<P: Protocol> {
    pub(super) nodes: Vec<Node<P>>,
    pub(super) clients: Vec<Client<P>>,
    pub(super) network: BTreeSet<Packet<P>>,
    pub(super) history: Vec<Event<P::Call, P::Reply>>,
    pub(super) now: u64,
    crashes: u8,
    restarts: u8,
    repeats: u8,
    spreads: u8,
    pub(super) floor: Option<RunningFloor<P::Digest>>,
    pub(super) floors_begun: u8,
    /// The newest epoch that was chosen.
    pub(super) chosen: u64,
    pub(super) extra: P::Extra,
    violated: bool,
}

/// A possible next step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action<P: Protocol> {
    /// A client begins its next task.
    Begin(usize),
    /// A message arrives.
    Deliver(Packet<P>),
    /// A message arrives and will arrive again.
    Repeat(Packet<P>),
    /// A coordinator stops waiting for further answers.
    Timeout(usize),
    /// A coordinator crashes. Its client gets no answer.
    Crash(usize),
    /// A replica restarts. It forgets everything that is not durable.
    Restart(usize),
    /// A replica learns the newest epoch.
    Learn(usize),
    /// A replica sends a row to another.
    Spread(usize, usize, P::Row),
    /// A floor round begins.
    Floor,
    /// A replica receives and answers the floor round's request.
    FloorStep(usize),
    /// The next epoch is chosen.
    Choose,
    /// A step that only this protocol has.
    Own(P::Step),
}

impl<P: Protocol> Action<P> {
    /// Returns true for messages and new tasks, false for rare steps.
    pub(super) fn is_common(&self) -> bool {
        match self {
            Action::Begin(_) | Action::Deliver(_) | Action::FloorStep(_) => true,
            Action::Own(step) => P::is_common(step),
            _ => false,
        }
    }
}

impl<P: Protocol> World<P> {
    /// Returns true if a broken rule led to a result that no order explains.
    pub fn is_violated(&self) -> bool {
        self.violated
    }

    /// Returns the operations and their answers.
    pub fn history(&self) -> &[Event<P::Call, P::Reply>] {
        &self.history
    }

    /// Adds a client's request to the history.
    pub(super) fn call(&mut self, c: usize, call: P::Call) {
        self.history.push(Event {
            client: c,
            call,
            called: self.now,
            reply: None,
        });
    }

    /// Returns a client's last request.
    pub(super) fn last_call(&mut self, c: usize) -> Option<&mut Event<P::Call, P::Reply>> {
        self.history.iter_mut().rev().find(|e| e.client == c)
    }

    /// Answers a client's last request, and checks the history.
    pub(super) fn reply(&mut self, c: usize, reply: P::Reply) {
        self.now += 1;
        let now = self.now;
        if let Some(event) = self.last_call(c) {
            event.reply = Some((now, reply));
        }
        self.violated |= !P::is_linearizable(self);
    }

    /// Removes a client's last request, which has no answer and certainly did nothing.
    pub(super) fn forget_call(&mut self, c: usize) {
        let last = self.history.iter().rposition(|e| e.client == c);
        if let Some(last) = last.filter(|last| self.history[*last].reply.is_none()) {
            self.history.remove(last);
        }
    }
}

impl<P: Protocol> Model for Scenario<P> {
    type State = World<P>;
    type Action = Action<P>;

    fn init_states(&self) -> Vec<World<P>> {
        let clients = self.clients.iter().map(|c| Client::new(c.lead));
        vec![World {
            nodes: (0..self.nodes).map(|n| self.first_node(n)).collect(),
            clients: clients.collect(),
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
            extra: P::Extra::default(),
            violated: false,
        }]
    }

    fn actions(&self, world: &World<P>, actions: &mut Vec<Action<P>>) {
        for c in 0..world.clients.len() {
            self.client_actions(world, c, actions);
        }
        for packet in &world.network {
            actions.push(Action::Deliver(packet.clone()));
            if world.repeats < self.repeats && matches!(packet, Packet::Ask { .. }) {
                actions.push(Action::Repeat(packet.clone()));
            }
        }
        for n in 0..self.nodes {
            self.node_actions(world, n, actions);
        }
        if world.floor.is_none() && world.floors_begun < self.floors {
            actions.push(Action::Floor);
        }
        if P::may_choose(self, world) {
            actions.push(Action::Choose);
        }
        P::world_steps(self, world, actions);
    }

    fn next_state(&self, last: &World<P>, action: Action<P>) -> Option<World<P>> {
        let mut world = last.clone();
        self.act(&mut world, action);
        world.drop_late_answers();
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Scenario<P>>> {
        vec![Property::always("linearizable", |_, world: &World<P>| {
            !world.violated
        })]
    }
}

impl<P: Protocol> Scenario<P> {
    fn first_node(&self, n: usize) -> Node<P> {
        let is_member = self.config(1).members().iter().any(|m| m.node == n);
        let epoch = if is_member { 1 } else { 2 };
        Node {
            rows: P::first_rows(self, n, is_member),
            floors: Floors::joining(epoch),
            epoch,
        }
    }

    fn client_actions(&self, world: &World<P>, c: usize, actions: &mut Vec<Action<P>>) {
        let client = &world.clients[c];
        if client.is_idle() {
            let next = client.next_of(&self.clients[c].tasks);
            if next.is_some_and(|task| P::may_begin(self, world, c, task)) {
                actions.push(Action::Begin(c));
                P::client_steps(world, c, actions);
            }
            return;
        }
        if client.timeouts < self.timeouts {
            actions.push(Action::Timeout(c));
        }
        if world.crashes < self.crashes {
            actions.push(Action::Crash(c));
        }
    }

    fn node_actions(&self, world: &World<P>, n: usize, actions: &mut Vec<Action<P>>) {
        let node = &world.nodes[n];
        if world.restarts < self.restarts {
            actions.push(Action::Restart(n));
        }
        if node.epoch < world.chosen {
            actions.push(Action::Learn(n));
        }
        if world.spreads < self.spreads {
            for row in P::rows_to_send(self, n, node) {
                let others = (0..self.nodes).filter(|o| *o != n);
                actions.extend(others.map(|o| Action::Spread(n, o, row)));
            }
        }
        P::node_steps(world, n, actions);
        if world.floor.as_ref().is_some_and(|floor| floor.waits_for(n)) {
            actions.push(Action::FloorStep(n));
        }
    }

    fn act(&self, world: &mut World<P>, action: Action<P>) {
        match action {
            Action::Begin(c) => self.begin(world, c),
            Action::Deliver(packet) => {
                world.network.remove(&packet);
                self.deliver(world, packet);
            }
            Action::Repeat(packet) => {
                world.repeats += 1;
                self.deliver(world, packet);
            }
            Action::Timeout(c) => {
                world.clients[c].timeouts += 1;
                self.drive(world, c, |operation, next| operation.on_timeout(next));
            }
            Action::Crash(c) => {
                world.crashes += 1;
                world.clients[c].end();
            }
            Action::Restart(n) => {
                world.restarts += 1;
                let node = &mut world.nodes[n];
                let bounds = node.bounds();
                node.rows.restart(self.rules, &bounds);
            }
            Action::Learn(n) => world.nodes[n].epoch = world.chosen,
            Action::Spread(from, to, row) => {
                world.spreads += 1;
                self.spread(world, from, to, row);
            }
            Action::Floor => self.begin_floor(world),
            Action::FloorStep(n) => self.floor_step(world, n),
            Action::Choose => world.chosen += 1,
            Action::Own(step) => P::step(self, world, step),
        }
    }
}

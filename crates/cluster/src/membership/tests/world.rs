//! Many nodes in virtual time. Messages take time, get lost or meet cuts. Nodes stand still, die
//! and come back.

use std::collections::{BTreeMap, BTreeSet};

use archipel_base::random::{Random, SeededRandom};

use super::super::message::Gossip;
use super::super::{Membership, TICK_MS, Target};
use super::{address, id, info};

/// A call without an answer after this time has failed.
const TIMEOUT_MS: u64 = 2_000;

struct Node {
    members: Membership,
    generation: u64,
    up: bool,
    paused_until: u64,
    sent_bytes: u64,
    asked: u64,
}

enum Event {
    Tick {
        node: usize,
        generation: u64,
    },
    /// A request or a second message arrives at `to`.
    Request {
        call: u64,
        from: usize,
        to: usize,
        gossip: Gossip,
    },
    Answer {
        call: u64,
        from: usize,
        to: usize,
        gossip: Gossip,
    },
    Timeout {
        call: u64,
    },
}

struct Call {
    from: usize,
    to: usize,
    generation: u64,
    /// A second message follows only the first answer.
    first: bool,
}

pub struct World {
    nodes: Vec<Node>,
    random: SeededRandom,
    pub now: u64,
    events: BTreeMap<(u64, u64), Event>,
    calls: BTreeMap<u64, Call>,
    number: u64,
    /// The messages that are lost, of a hundred.
    pub loss: u64,
    /// The shortest time that a message takes. It may take up to half as long again.
    pub latency_ms: u64,
    pub cuts: BTreeSet<(usize, usize)>,
    /// True if a call without an answer counts against the peer, as it does over streams. Otherwise
    /// loss only delays.
    pub failures_count: bool,
    /// True if bytes are counted, which takes time.
    pub measuring: bool,
}

impl World {
    /// Creates nodes that know the address of the first one only.
    pub fn new(nodes: usize, seed: u64) -> World {
        let mut world = World {
            nodes: Vec::new(),
            random: SeededRandom::new(seed),
            now: 1_000_000,
            events: BTreeMap::new(),
            calls: BTreeMap::new(),
            number: 0,
            loss: 0,
            latency_ms: 20,
            cuts: BTreeSet::new(),
            failures_count: true,
            measuring: false,
        };
        for n in 0..nodes {
            let members = world.begin(n, 1);
            world.nodes.push(Node {
                members,
                generation: 1,
                up: true,
                paused_until: 0,
                sent_bytes: 0,
                asked: 0,
            });
            world.first_tick(n);
        }
        world
    }

    fn begin(&self, n: usize, generation: u64) -> Membership {
        Membership::new(id(n), generation, info(n), vec![address(0)], self.now)
    }

    fn first_tick(&mut self, node: usize) {
        let generation = self.nodes[node].generation;
        let offset = self.random.next_u64() % TICK_MS;
        self.at(self.now + offset, Event::Tick { node, generation });
    }

    pub fn members(&mut self, n: usize) -> &mut Membership {
        &mut self.nodes[n].members
    }

    /// Makes two nodes know each other.
    pub fn acquaint(&mut self, a: usize, b: usize) {
        let (low, high) = self.nodes.split_at_mut(b);
        super::acquaint(&mut low[a].members, &mut high[0].members, self.now);
    }

    /// Limits the lines of a message.
    pub fn set_max_lines(&mut self, lines: usize) {
        let nodes = self.nodes.iter_mut();
        nodes.for_each(|node| node.members.max_lines = lines);
    }

    pub fn kill(&mut self, n: usize) {
        self.nodes[n].up = false;
    }

    pub fn restart(&mut self, n: usize) {
        let generation = self.nodes[n].generation + 1;
        let members = self.begin(n, generation);
        let node = &mut self.nodes[n];
        (node.members, node.generation, node.up) = (members, generation, true);
        self.first_tick(n);
    }

    /// Stops a node for a while. Messages to it wait.
    pub fn pause(&mut self, n: usize, millis: u64) {
        self.nodes[n].paused_until = self.now + millis;
    }

    pub fn run(&mut self, millis: u64) {
        let end = self.now + millis;
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((at, _), event) = entry.remove_entry();
            self.now = self.now.max(at);
            self.happen(event);
        }
        self.now = end;
    }

    fn at(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.events.insert((at, self.number), event);
    }

    fn happen(&mut self, event: Event) {
        let whose = match &event {
            Event::Tick { node, .. } => *node,
            Event::Request { to, .. } | Event::Answer { to, .. } => *to,
            Event::Timeout { call } => self.calls.get(call).map_or(0, |call| call.from),
        };
        let node = &self.nodes[whose];
        if !node.up {
            return;
        }
        if node.paused_until > self.now {
            return self.at(node.paused_until, event);
        }
        match event {
            Event::Tick { node, generation } => self.tick(node, generation),
            Event::Request {
                call,
                from,
                to,
                gossip,
            } => self.request(call, from, to, &gossip),
            Event::Answer {
                call,
                from,
                to,
                gossip,
            } => self.answer(call, from, to, &gossip),
            Event::Timeout { call } => self.timeout(call),
        }
    }

    fn tick(&mut self, n: usize, generation: u64) {
        if self.nodes[n].generation != generation {
            return;
        }
        self.at(
            self.now + TICK_MS,
            Event::Tick {
                node: n,
                generation,
            },
        );
        for target in self.nodes[n].members.tick(self.now, &self.random) {
            let members = &self.nodes[n].members;
            let (to, gossip) = match &target {
                Target::Node(peer) => (*peer, members.request(self.now, &self.random)),
                Target::Address(_) => (id(0), members.greeting(self.now, &self.random)),
            };
            let to = (0..self.nodes.len()).find(|m| id(*m) == to).unwrap();
            if let Target::Address(address) = target {
                let up = self.nodes[0].up;
                let members = &mut self.nodes[n].members;
                members.greeted(&address, up.then_some(id(0)), self.now);
            }
            if to != n {
                self.nodes[n].asked += 1;
                self.call(n, to, gossip, true);
            }
        }
    }

    fn call(&mut self, from: usize, to: usize, gossip: Gossip, first: bool) {
        self.number += 1;
        let call = self.number;
        let generation = self.nodes[from].generation;
        self.calls.insert(
            call,
            Call {
                from,
                to,
                generation,
                first,
            },
        );
        self.count(from, &gossip);
        self.at(self.now + TIMEOUT_MS, Event::Timeout { call });
        if let Some(at) = self.arrival(from, to) {
            let request = Event::Request {
                call,
                from,
                to,
                gossip,
            };
            self.at(at, request);
        }
    }

    fn count(&mut self, from: usize, gossip: &Gossip) {
        if self.measuring {
            let bytes = gossip.encode();
            assert_eq!(Gossip::decode(&bytes).as_ref(), Ok(gossip));
            self.nodes[from].sent_bytes += bytes.len() as u64;
        }
    }

    /// Returns when a message arrives, if it does.
    fn arrival(&mut self, from: usize, to: usize) -> Option<u64> {
        let lost = self.random.next_u64() % 100 < self.loss;
        let jitter = self.random.next_u64() % (self.latency_ms / 2 + 1);
        let comes = !lost && !self.cuts.contains(&(from, to));
        comes.then_some(self.now + self.latency_ms + jitter)
    }

    fn request(&mut self, call: u64, from: usize, to: usize, heard: &Gossip) {
        let members = &mut self.nodes[to].members;
        if members.hear(id(from), heard, self.now).is_err() {
            return;
        }
        let gossip = members.answer(heard, self.now, &self.random);
        self.count(to, &gossip);
        if let Some(at) = self.arrival(to, from) {
            let answer = Event::Answer {
                call,
                from: to,
                to: from,
                gossip,
            };
            self.at(at, answer);
        }
    }

    fn answer(&mut self, call: u64, from: usize, to: usize, heard: &Gossip) {
        let Some(call) = self.calls.remove(&call) else {
            return;
        };
        if self.nodes[to].generation != call.generation {
            return;
        }
        let members = &mut self.nodes[to].members;
        if members.hear(id(from), heard, self.now).is_err() {
            return;
        }
        if let Some(rest) = members.rest(heard, self.now).filter(|_| call.first) {
            self.call(to, from, rest, false);
        }
    }

    fn timeout(&mut self, call: u64) {
        let Some(call) = self.calls.remove(&call) else {
            return;
        };
        let node = &mut self.nodes[call.from];
        if self.failures_count && node.generation == call.generation {
            node.members.report(&id(call.to), false, self.now);
        }
    }

    pub fn all_know_all(&self) -> bool {
        let all = self.nodes.len();
        let up = self.nodes.iter().filter(|node| node.up);
        up.map(|node| node.members.others().len() + 1)
            .all(|known| known == all)
    }

    /// Returns the reachable nodes that suspect this one.
    pub fn who_suspects(&self, of: usize) -> Vec<usize> {
        let all = self.nodes.iter().enumerate();
        let up = all.filter(|(n, node)| *n != of && node.up);
        up.filter(|(_, node)| node.members.is_suspected(&id(of)))
            .map(|(n, _)| n)
            .collect()
    }

    /// Returns the nodes that are up and that another node that is up suspects.
    pub fn wrongly_suspected(&self) -> BTreeSet<usize> {
        let up = (0..self.nodes.len()).filter(|n| self.nodes[*n].up);
        up.filter(|n| !self.who_suspects(*n).is_empty()).collect()
    }

    /// Returns the bytes that the busiest node sent since the last call, the average of all nodes,
    /// and the exchanges of the busiest.
    pub fn take_costs(&mut self) -> (u64, u64, u64) {
        let most = self.nodes.iter().map(|node| node.sent_bytes).max();
        let all: u64 = self.nodes.iter().map(|node| node.sent_bytes).sum();
        let asked = self.nodes.iter().map(|node| node.asked).max();
        let mean = all / self.nodes.len() as u64;
        for node in &mut self.nodes {
            (node.sent_bytes, node.asked) = (0, 0);
        }
        (most.unwrap_or(0), mean, asked.unwrap_or(0))
    }
}

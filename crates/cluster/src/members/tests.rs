use archipel_base::random::SeededRandom;

use super::table::Age;
use super::*;

fn id(n: usize) -> NodeId {
    let mut id = NodeId::default();
    id.0[..8].copy_from_slice(&(n as u64 + 1).to_be_bytes());
    id
}

fn facts(n: usize) -> Facts {
    Facts {
        addresses: vec![format!("node{n}:1")],
        ..Facts::default()
    }
}

struct World {
    tables: Vec<Table>,
    random: SeededRandom,
    now: u64,
    away: BTreeSet<usize>,
    /// Of a hundred exchanges so many are lost.
    loss: u64,
    bytes: u64,
}

impl World {
    fn new(nodes: usize, loss: u64) -> World {
        let tables = (0..nodes).map(|n| Table::new(id(n), 1, facts(n)));
        let mut world = World {
            tables: tables.collect(),
            random: SeededRandom::new(7),
            now: 100_000,
            away: BTreeSet::new(),
            loss,
            bytes: 0,
        };
        for n in 1..nodes {
            world.exchange(n, 0);
        }
        world
    }

    fn exchange(&mut self, from: usize, to: usize) {
        let told = match self.tables[from].nodes.len() {
            1 => self.tables[from].greeting(),
            _ => self.tables[from].question(),
        };
        let now = self.now;
        self.tables[to].hear(&told, now).unwrap();
        let answer = self.tables[to].answer(&told.lines);
        self.tables[from].hear(&answer, now).unwrap();
        let more = self.tables[from].answer(&answer.lines);
        if told.facts.is_empty() {
            self.tables[to].hear(&more, now).unwrap();
        }
        for message in [told, answer] {
            self.bytes += codec::encode(&message).len() as u64;
        }
    }

    fn second(&mut self) {
        self.now += 1000;
        for n in 0..self.tables.len() {
            if self.away.contains(&n) {
                continue;
            }
            let now = self.now;
            for peer in self.tables[n].tick(now, &self.random) {
                let other = (0..self.tables.len()).find(|m| id(*m) == peer).unwrap();
                let lost = self.random.next_u64() % 100 < self.loss;
                let answered = !lost && !self.away.contains(&other);
                if answered {
                    self.exchange(n, other);
                }
                // A single loss is retried by the transport; only who is away fails a call.
                if self.away.contains(&other) {
                    self.tables[n].report(&peer, false, now);
                }
            }
        }
    }

    fn all_know_all(&self) -> bool {
        let n = self.tables.len();
        self.tables
            .iter()
            .all(|table| table.members(self.now).len() == n)
    }

    fn suspicions(&self, of: usize) -> usize {
        let others = self
            .tables
            .iter()
            .enumerate()
            .filter(|(n, _)| *n != of && !self.away.contains(n));
        others
            .filter(|(_, table)| table.is_suspected(&id(of), self.now))
            .count()
    }
}

#[test]
fn everybody_soon_knows_everybody() {
    for nodes in [2, 3, 10, 100] {
        let mut world = World::new(nodes, 10);
        let mut seconds = 0;
        while !world.all_know_all() {
            world.second();
            seconds += 1;
            assert!(seconds < 15, "{nodes} nodes");
        }
    }
}

#[test]
fn who_is_away_is_suspected_within_five_seconds_and_nobody_else_is() {
    for nodes in [3, 10, 50] {
        let mut world = World::new(nodes, 10);
        (0..20).for_each(|_| world.second());
        for of in 0..nodes {
            assert_eq!(world.suspicions(of), 0, "{nodes} nodes: {of} is here");
        }
        world.away.insert(1);
        let bound = if nodes == 3 { 5 } else { 8 };
        (0..bound).for_each(|_| world.second());
        assert_eq!(world.suspicions(1), nodes - 1, "{nodes} nodes");
        (0..30).for_each(|_| world.second());
        let others = (0..nodes).filter(|of| *of != 1);
        assert!(others.map(|of| world.suspicions(of)).all(|n| n == 0));
        world.away.remove(&1);
        (0..10).for_each(|_| world.second());
        assert_eq!(world.suspicions(1), 0, "{nodes} nodes: it is back");
    }
}

#[test]
fn a_restart_and_changed_facts_are_heard_of() {
    let mut world = World::new(5, 0);
    (0..10).for_each(|_| world.second());
    world.tables[2].change(|facts| facts.epoch = 9);
    (0..10).for_each(|_| world.second());
    let epoch = |table: &Table, of| table.nodes[&id(of)].facts.as_ref().unwrap().epoch;
    assert!(world.tables.iter().all(|table| epoch(table, 2) == 9));
    world.tables[2] = Table::new(id(2), 2, facts(2));
    world.exchange(2, 0);
    (0..10).for_each(|_| world.second());
    assert!(world.tables.iter().all(|table| epoch(table, 2) == 0));
    assert_eq!(world.suspicions(2), 0);
}

#[test]
fn the_cost_of_a_second_does_not_explode() {
    let cost = |nodes: usize| {
        let mut world = World::new(nodes, 0);
        (0..20).for_each(|_| world.second());
        world.bytes = 0;
        (0..10).for_each(|_| world.second());
        world.bytes / (10 * nodes as u64)
    };
    // Lines alone: some 60 bytes for each node, six times a second.
    assert!(cost(10) < 10 * 600, "{}", cost(10));
    assert!(cost(100) < 100 * 600, "{}", cost(100));
}

#[test]
fn another_cluster_is_not_listened_to() {
    let mut ours = Table::new(id(1), 1, facts(1));
    let mut theirs = Table::new(id(2), 1, facts(2));
    ours.set_cluster(Id([1; 16]));
    theirs.set_cluster(Id([2; 16]));
    let refused = ours.hear(&theirs.greeting(), 1).unwrap_err();
    assert!(refused.contains("another cluster"));
    assert_eq!(ours.members(1).len(), 1);
    let mut joining = Table::new(id(3), 1, facts(3));
    assert_eq!(joining.hear(&ours.greeting(), 1), Ok(true));
}

#[test]
fn what_is_out_of_bounds_is_not_taken() {
    let mut table = Table::new(id(1), 1, facts(1));
    let mut long = facts(2);
    long.addresses = vec!["x".repeat(MAX_TEXT + 1)];
    let gossip = Gossip {
        facts: vec![(
            id(2),
            Age {
                generation: 1,
                revision: 1,
            },
            long,
        )],
        ..Gossip::default()
    };
    table.hear(&gossip, 1).unwrap();
    assert_eq!(table.members(1).len(), 1);
}

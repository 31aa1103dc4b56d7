//! An assignment under construction: the nodes of each partition, and the replicas that may be
//! added or exchanged.
//!
//! # Invariants
//! - No node holds more partitions than it has room for, and none holds a partition twice.
//! - At most `Problem::doubles` replicas of a partition share a zone with an earlier one.

use std::cmp::Ordering;

use super::Assignment;
use super::problem::Problem;

/// The nodes of each partition so far.
pub(super) struct Network<'a> {
    pub(super) problem: &'a Problem<'a>,
    /// For each node the largest number of partitions that it can hold.
    room: Vec<usize>,
    /// For each partition its nodes.
    held: Vec<Vec<u16>>,
    /// For each node its partitions.
    holds: Vec<Vec<u16>>,
    /// For each partition the nodes that held it in the previous layout. A replica there weighs
    /// nothing.
    old: Vec<Vec<u16>>,
}

/// The nodes that a partition's replica may go to. The replica is new, or leaves a node.
pub(super) struct Exit<'a> {
    network: &'a Network<'a>,
    held: &'a [u16],
    /// True if the replica may go into any zone. Otherwise it may go only into a zone without a
    /// replica of the partition,
    anywhere: bool,
    /// or into this zone, which it leaves.
    zone: Option<u16>,
}

impl<'a> Network<'a> {
    /// Returns a network without replicas.
    pub(super) fn new(
        problem: &'a Problem<'a>,
        partition_bytes: u64,
        old: Vec<Vec<u16>>,
    ) -> Network<'a> {
        let room = |node| problem.room(node, partition_bytes) as usize;
        Network {
            problem,
            room: problem.candidates.iter().map(room).collect(),
            held: vec![Vec::new(); old.len()],
            holds: vec![Vec::new(); problem.candidates.len()],
            old,
        }
    }

    pub(super) fn nodes(&self) -> usize {
        self.room.len()
    }

    pub(super) fn partitions(&self) -> u16 {
        self.held.len() as u16
    }

    pub(super) fn held(&self, partition: u16) -> &[u16] {
        &self.held[usize::from(partition)]
    }

    pub(super) fn holds(&self, node: u16) -> &[u16] {
        &self.holds[usize::from(node)]
    }

    pub(super) fn old(&self, partition: u16) -> &[u16] {
        &self.old[usize::from(partition)]
    }

    pub(super) fn zone_of(&self, node: u16) -> u16 {
        self.problem.zone_of[usize::from(node)]
    }

    pub(super) fn room(&self, node: u16) -> usize {
        self.room[usize::from(node)]
    }

    pub(super) fn has_room(&self, node: u16) -> bool {
        self.holds(node).len() < self.room(node)
    }

    /// Returns the number of replicas that a partition lacks.
    pub(super) fn lacks(&self, partition: u16) -> usize {
        self.problem.replicas - self.held(partition).len()
    }

    /// Returns the weight of a replica: 1 if it must move to be there.
    pub(super) fn weight(&self, partition: u16, node: u16) -> i32 {
        i32::from(!self.old(partition).contains(&node))
    }

    /// Returns the nodes that a further replica of a partition may go to (`leaving` is `None`), or
    /// the replica on `leaving`.
    pub(super) fn exit(&self, partition: u16, leaving: Option<u16>) -> Exit<'_> {
        let held = self.held(partition);
        let zone = leaving.map(|node| self.zone_of(node));
        let is_double = |zone| {
            held.iter()
                .filter(|node| self.zone_of(**node) == zone)
                .count()
                > 1
        };
        let anywhere = self.doubles(held) < self.problem.doubles || zone.is_some_and(is_double);
        Exit {
            network: self,
            held,
            anywhere,
            zone,
        }
    }

    /// Returns how many nodes share a zone with an earlier node.
    fn doubles(&self, nodes: &[u16]) -> usize {
        let zone = |node: &u16| self.zone_of(*node);
        let is_double = |(index, node): &(usize, &u16)| {
            nodes[..*index]
                .iter()
                .any(|other| zone(other) == zone(node))
        };
        nodes.iter().enumerate().filter(is_double).count()
    }

    /// Returns a largest set of a partition's previous nodes that may hold it together: different
    /// zones first.
    pub(super) fn keepable(&self, partition: u16) -> Vec<u16> {
        let mut firsts = Vec::new();
        let mut doubles = Vec::new();
        for node in self.old(partition) {
            let zone = self.zone_of(*node);
            if firsts.iter().any(|first| self.zone_of(*first) == zone) {
                doubles.push(*node);
            } else {
                firsts.push(*node);
            }
        }
        firsts.truncate(self.problem.replicas);
        let left = self.problem.replicas - firsts.len();
        doubles.truncate(left.min(self.problem.doubles));
        firsts.extend(doubles);
        firsts
    }

    /// Adds a replica.
    pub(super) fn add(&mut self, partition: u16, node: u16) {
        self.held[usize::from(partition)].push(node);
        self.holds[usize::from(node)].push(partition);
    }

    /// Moves a replica from one node to another.
    pub(super) fn exchange(&mut self, partition: u16, from: u16, to: u16) {
        if let Some(replica) = self.held[usize::from(partition)]
            .iter_mut()
            .find(|node| **node == from)
        {
            *replica = to;
        }
        let holds = &mut self.holds[usize::from(from)];
        if let Some(at) = holds.iter().position(|other| *other == partition) {
            holds.swap_remove(at);
        }
        self.holds[usize::from(to)].push(partition);
    }

    /// Compares how much one more partition on `a` and on `b` adds to the sum of load²/capacity.
    pub(super) fn compare_adding(&self, a: u16, b: u16) -> Ordering {
        self.compare(
            (self.holds(a).len() * 2 + 1, a),
            (self.holds(b).len() * 2 + 1, b),
        )
    }

    /// Compares how much one partition less on `a` and on `b` takes from that sum. Both hold one.
    pub(super) fn compare_removing(&self, a: u16, b: u16) -> Ordering {
        self.compare(
            (self.holds(a).len() * 2 - 1, a),
            (self.holds(b).len() * 2 - 1, b),
        )
    }

    /// Returns true if the sum falls when `from` holds one less and `to` one more.
    pub(super) fn is_better(&self, from: u16, to: u16) -> bool {
        let (less, more) = (self.holds(from).len() * 2 - 1, self.holds(to).len() * 2 + 1);
        self.compare((less, from), (more, to)) == Ordering::Greater
    }

    /// Compares a number of each node divided by its capacity, exactly.
    fn compare(&self, (a, node_a): (usize, u16), (b, node_b): (usize, u16)) -> Ordering {
        let capacity =
            |node: u16| u128::from(self.problem.candidates[usize::from(node)].capacity_bytes);
        (a as u128 * capacity(node_b)).cmp(&(b as u128 * capacity(node_a)))
    }

    /// Returns a node's partitions, and how many it gained and lost.
    pub(super) fn change_of(&self, node: u16) -> (usize, usize, usize) {
        let holds = self.holds(node);
        let gained = holds
            .iter()
            .filter(|partition| self.weight(**partition, node) > 0)
            .count();
        let before = self
            .old
            .iter()
            .filter(|nodes| nodes.contains(&node))
            .count();
        (holds.len(), gained, before + gained - holds.len())
    }

    /// Returns a lower bound of the replicas that move in any assignment with this room. The
    /// replicas that stay are limited by the room of their nodes, and by the rules for each
    /// partition.
    pub(super) fn moved_lower_bound(&self) -> usize {
        let mut before = vec![0; self.nodes()];
        for node in self.old.iter().flatten() {
            before[usize::from(*node)] += 1;
        }
        let by_node: usize = before
            .iter()
            .zip(&self.room)
            .map(|(held, room)| held.min(room))
            .sum();
        let by_partition: usize = (0..self.partitions()).map(|p| self.keepable(p).len()).sum();
        self.held.len() * self.problem.replicas - by_node.min(by_partition)
    }

    /// Returns the assignment. The network must be complete.
    pub(super) fn assignment(&self) -> Assignment {
        let mut indices = Vec::with_capacity(self.held.len() * self.problem.replicas);
        for nodes in &self.held {
            let mut nodes = nodes.clone();
            nodes.sort_unstable();
            indices.extend(nodes);
        }
        Assignment {
            replicas: self.problem.replicas,
            indices,
        }
    }
}

impl Exit<'_> {
    /// Returns true if the rules allow the replica on a node. Ignores the node's room.
    pub(super) fn admits(&self, node: u16) -> bool {
        let zone = self.network.zone_of(node);
        let is_used = |other: &u16| self.network.zone_of(*other) == zone;
        !self.held.contains(&node)
            && (self.anywhere || self.zone == Some(zone) || !self.held.iter().any(is_used))
    }
}

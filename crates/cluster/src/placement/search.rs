//! Paths of exchanges: a replica goes to a node, from which another replica goes on, and so forth.
//!
//! Nodes have potentials. No exchange of `partition` from `a` to `b` weighs less than `potential(b)
//! − potential(a)`. Exchanges of just that weight are **tight**, and a path of tight exchanges is a
//! cheapest one. A search follows them, breadth first, and sees each node once. It sees all targets
//! of a partition that are reachable at one potential at once. So a path exchanges a partition at
//! most once by each rule: into any zone, into a fresh one, within one. Together such exchanges
//! keep the partition well spread. The first is allowed only if there may be one more double (or
//! one leaves), and the others add none, whatever else leaves.

use super::network::Network;

/// The step that reached a node.
#[derive(Clone, Copy)]
enum From {
    /// The path begins here.
    Start,
    /// A new replica of a partition.
    Added(u16),
    /// A partition's replica from another node.
    Exchanged(u16, u16),
}

/// A search along tight exchanges.
pub(super) struct Search<'a> {
    potentials: &'a [i32],
    /// For each potential, from `lowest` up, the nodes not yet seen (and some that are).
    left: Vec<Vec<u16>>,
    lowest: i32,
    from: Vec<Option<From>>,
}

impl<'a> Search<'a> {
    /// Begins a search. Nodes that are `closed` lead nowhere and count as seen.
    pub(super) fn new(potentials: &'a [i32], closed: &[bool]) -> Search<'a> {
        let lowest = potentials.iter().min().copied().unwrap_or(0);
        let highest = potentials.iter().max().copied().unwrap_or(0);
        let mut left = vec![Vec::new(); (highest - lowest + 1) as usize];
        for ((node, potential), closed) in (0..).zip(potentials).zip(closed) {
            if !closed {
                left[(potential - lowest) as usize].push(node);
            }
        }
        let from = closed
            .iter()
            .map(|closed| closed.then_some(From::Start))
            .collect();
        Search {
            potentials,
            left,
            lowest,
            from,
        }
    }

    pub(super) fn is_seen(&self, node: u16) -> bool {
        self.from[usize::from(node)].is_some()
    }

    pub(super) fn start_at(&mut self, node: u16) {
        self.from[usize::from(node)] = Some(From::Start);
    }

    /// Returns the newly seen nodes to which a partition's missing replica can go.
    pub(super) fn add(&mut self, network: &Network<'_>, partition: u16) -> Vec<u16> {
        let mut seen = Vec::new();
        self.leave(network, partition, None, &mut seen);
        seen
    }

    /// Returns the newly seen nodes that are one exchange away from `nodes`.
    pub(super) fn step(&mut self, network: &Network<'_>, nodes: &[u16]) -> Vec<u16> {
        let mut seen = Vec::new();
        for node in nodes {
            for partition in network.holds(*node) {
                self.leave(network, *partition, Some(*node), &mut seen);
            }
        }
        seen
    }

    /// Adds all nodes to which one replica can go by a tight exchange.
    fn leave(
        &mut self,
        network: &Network<'_>,
        partition: u16,
        leaving: Option<u16>,
        seen: &mut Vec<u16>,
    ) {
        let exit = network.exit(partition, leaving);
        let potential = leaving.map_or(0, |node| {
            self.potentials[usize::from(node)] - network.weight(partition, node)
        });
        let from = Some(leaving.map_or(From::Added(partition), |node| {
            From::Exchanged(partition, node)
        }));
        for node in network.old(partition) {
            let place = usize::from(*node);
            if self.potentials[place] == potential
                && self.from[place].is_none()
                && exit.admits(*node)
            {
                self.from[place] = from;
                seen.push(*node);
            }
        }
        // A node that held the partition is never above: its potential is at most `potential`.
        let Ok(above) = usize::try_from(potential + 1 - self.lowest) else {
            return;
        };
        let Some(left) = self.left.get_mut(above) else {
            return;
        };
        let reached = &mut self.from;
        left.retain(|node| {
            let place = usize::from(*node);
            if reached[place].is_some() {
                return false;
            }
            let admitted = exit.admits(*node);
            if admitted {
                reached[place] = from;
                seen.push(*node);
            }
            !admitted
        });
    }

    /// Does all exchanges on the path to a node.
    pub(super) fn follow(&self, network: &mut Network<'_>, to: u16) {
        let mut to = to;
        loop {
            match self.from[usize::from(to)] {
                Some(From::Added(partition)) => return network.add(partition, to),
                Some(From::Exchanged(partition, from)) => {
                    network.exchange(partition, from, to);
                    to = from;
                }
                Some(From::Start) | None => return,
            }
        }
    }

    /// Marks the nodes seen.
    pub(super) fn close(&self, closed: &mut [bool]) {
        for (closed, from) in closed.iter_mut().zip(&self.from) {
            *closed |= from.is_some();
        }
    }
}

/// Returns, for each node, the weight of the cheapest path from any partition that lacks a replica,
/// or `None` if there is no path.
pub(super) fn distances(network: &Network<'_>) -> Vec<Option<i32>> {
    let mut distances = vec![None; network.nodes()];
    let mut waiting: Vec<u16> = (0..network.partitions())
        .filter(|p| network.lacks(*p) > 0)
        .collect();
    let mut is_waiting = vec![false; network.partitions().into()];
    while !waiting.is_empty() {
        // In rounds, because a node's distance often falls by several partitions before its own are
        // relaxed again.
        for partition in std::mem::take(&mut waiting) {
            is_waiting[usize::from(partition)] = false;
            for node in relax(network, partition, &mut distances) {
                for other in network.holds(node) {
                    if !std::mem::replace(&mut is_waiting[usize::from(*other)], true) {
                        waiting.push(*other);
                    }
                }
            }
        }
    }
    distances
}

/// Shortens distances by way of one partition. Returns the nodes that are nearer now.
fn relax(network: &Network<'_>, partition: u16, distances: &mut [Option<i32>]) -> Vec<u16> {
    let mut ways: Vec<_> = Vec::new();
    if network.lacks(partition) > 0 {
        ways.push((0, network.exit(partition, None)));
    }
    for node in network.held(partition) {
        if let Some(distance) = distances[usize::from(*node)] {
            ways.push((
                distance - network.weight(partition, *node),
                network.exit(partition, Some(*node)),
            ));
        }
    }
    let mut nearer = Vec::new();
    let places = (0..).zip(distances.iter_mut());
    for (node, distance) in places {
        let usable = ways
            .iter()
            .filter(|(_, exit)| exit.admits(node))
            .map(|(way, _)| way);
        let Some(shortest) = usable.min() else {
            continue;
        };
        let shortest = shortest + network.weight(partition, node);
        if distance.is_none_or(|known| shortest < known) {
            *distance = Some(shortest);
            nearer.push(node);
        }
    }
    nearer
}

//! Mixes the pairs of nodes that share partitions. No node's load changes, and nothing more moves.

use archipel_base::random::{Random, SeededRandom};

use super::network::Network;

/// The number of exchanges that each replica is offered.
const OFFERS: usize = 12;

/// The number of partitions that each pair of nodes shares.
struct Pairs {
    nodes: usize,
    shared: Vec<u16>,
}

/// Exchanges new replicas between partitions so that all pairs of nodes share similar numbers of
/// partitions.
///
/// It is a hill climb over random offers. It needs no optimum: a dead node's data only has to be
/// rebuilt from many nodes.
pub(super) fn disperse(network: &mut Network<'_>) {
    let mut pairs = Pairs::of(network);
    // Only replicas that move anyway take part. The others must stay.
    let mut fresh: Vec<(u16, u16)> = Vec::new();
    for partition in 0..network.partitions() {
        let nodes = network.held(partition).iter();
        let nodes = nodes.filter(|node| network.weight(partition, **node) > 0);
        fresh.extend(nodes.map(|node| (partition, *node)));
    }
    let random = SeededRandom::new(0);
    for _ in 0..OFFERS {
        for place in 0..fresh.len() {
            let other = (random.next_u64() % fresh.len() as u64) as usize;
            let (a, b) = (fresh[place], fresh[other]);
            if is_allowed(network, a, b) && pairs.gain(network, a, b) > 0 {
                pairs.exchange(network, a, b);
                fresh[place].1 = b.1;
                fresh[other].1 = a.1;
            }
        }
    }
}

/// Returns true if two replicas may swap nodes and weigh the same afterwards.
fn is_allowed(network: &Network<'_>, (p, a): (u16, u16), (q, b): (u16, u16)) -> bool {
    let same_weight = network.weight(p, b) > 0 && network.weight(q, a) > 0;
    let admits = |partition, from, to| network.exit(partition, Some(from)).admits(to);
    a != b && p != q && same_weight && admits(p, a, b) && admits(q, b, a)
}

impl Pairs {
    fn of(network: &Network<'_>) -> Pairs {
        let nodes = network.nodes();
        let mut pairs = Pairs {
            nodes,
            shared: vec![0; nodes * nodes],
        };
        for partition in 0..network.partitions() {
            let held = network.held(partition);
            for a in held {
                for b in held.iter().filter(|b| a != *b) {
                    pairs.shared[usize::from(*a) * nodes + usize::from(*b)] += 1;
                }
            }
        }
        pairs
    }

    fn shared(&self, a: u16, b: u16) -> i64 {
        self.shared[usize::from(a) * self.nodes + usize::from(b)].into()
    }

    /// Returns half of the decrease of the sum of squares of shared partitions if two replicas swap
    /// nodes.
    fn gain(&self, network: &Network<'_>, (p, a): (u16, u16), (q, b): (u16, u16)) -> i64 {
        let one = |partition, from: u16, to: u16| -> i64 {
            let others = network.held(partition).iter().filter(|node| **node != from);
            others
                .map(|node| self.shared(from, *node) - self.shared(to, *node) - 1)
                .sum()
        };
        one(p, a, b) + one(q, b, a)
    }

    fn exchange(&mut self, network: &mut Network<'_>, (p, a): (u16, u16), (q, b): (u16, u16)) {
        for (partition, from, to) in [(p, a, b), (q, b, a)] {
            self.change(network, partition, from, false);
            network.exchange(partition, from, to);
            self.change(network, partition, to, true);
        }
    }

    /// Counts a node's pairs in a partition, in the row of each node of the pair.
    fn change(&mut self, network: &Network<'_>, partition: u16, node: u16, more: bool) {
        for other in network
            .held(partition)
            .iter()
            .filter(|other| **other != node)
        {
            let (a, b) = (usize::from(node), usize::from(*other));
            for at in [a * self.nodes + b, b * self.nodes + a] {
                let shared = &mut self.shared[at];
                *shared = if more { *shared + 1 } else { *shared - 1 };
            }
        }
    }
}

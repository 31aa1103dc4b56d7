//! Placement: which nodes hold which partition. Pure, deterministic, and optimal.
//!
//! [`place`] looks for, in this order: the largest usable capacity with `replicas` copies of each partition on distinct
//! nodes in enough zones; then the fewest replicas that move away from where they were; then loads in proportion to
//! capacity. Last, and without giving up any of these, which nodes share partitions is mixed, so that what a dead node
//! held is rebuilt from many.
//!
//! | module | what it does |
//! |---|---|
//! | `problem` | checks what is asked for; the largest partition that fits, by binary search |
//! | `network` | an assignment in the making: what may be added, what exchanged |
//! | `search` | paths of exchanges that cost nothing more than the cheapest |
//! | `solve` | keep, fill, level: the optimum |
//! | `disperse` | mixes pairs of nodes |
//! | `control` | the nodes of the control group |
//! | `explain`, `words` | in plain words: what moves, what limits, what is at risk |
//!
//! # Why the result is optimal
//! **Capacity.** With partitions of `s` bytes node `n` holds at most `min(P, ⌊capacity/s⌋)` of the `P` partitions. Of the `r`
//! replicas of a partition, `k` must be in different zones; the others may be anywhere on other nodes. That is a
//! flow: each partition sends `k` units of which a zone takes one, and `r − k` free ones. All partitions
//! are alike, so a flow of their sum, divided by `P`, is a fractional flow of each, and as all bounds are
//! integers there is an integer one. The sum has two cuts that matter: with `b` for what a zone's nodes hold together, an assignment
//! exists if and only if `Σ min(b, P) ≥ kP` and `Σ min(b, (r−k+1)P) ≥ rP`. Both are monotone in `s`: binary search.
//!
//! **Moves.** The sets of nodes that may hold a partition (at most `r` nodes of which at most `r − k` share a zone with
//! another) are the independent sets of a matroid, and so are those of all partitions together; that no node holds more than fits
//! is a second matroid. A largest common set with the least weight, where a replica weighs 1 on a node that did not hold
//! it and 0 on one that did, is weighted matroid intersection. `solve` does it as primal-dual: it
//! begins with replicas that stay, which weigh nothing, so no set of that size weighs less; and each path by which it grows is a
//! shortest one under potentials (Schrijver, *Combinatorial Optimization*, 41.3), which keeps that true for each size.
//!
//! **Load.** The sum of `load²/capacity` is convex in each node's load. A solution of least weight is the best of them if no
//! path of exchanges without weight leads from a node to one where the sum falls; `solve::level` follows
//! such paths until there is none.
//!
//! # Invariants
//! - The same arguments give the same placement, on every machine.
//! - Without a change of nodes, capacities or goal nothing moves.

mod control;
mod disperse;
mod error;
mod explain;
mod network;
mod problem;
mod search;
mod solve;
mod words;

use std::collections::BTreeMap;

use archipel_base::{NodeId, PartitionId};

pub use control::control_group;
pub use error::PlacementError;
pub use explain::explain;
use network::Network;
use problem::Problem;

/// A storage node as placement sees it. Gateways are not given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Who.
    pub id: NodeId,
    /// Its site.
    pub zone: String,
    /// How much it may hold, in bytes; more than 0, except among the nodes of a previous layout.
    pub capacity_bytes: u64,
}

/// Over how many zones the replicas of a partition are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zones {
    /// At least so many.
    AtLeast(usize),
    /// As many as there are, up to one for each replica.
    Maximum,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Goal {
    /// How many partitions.
    pub partitions: u16,
    /// Copies of each, on as many nodes.
    pub replicas: usize,
    /// In how many zones.
    pub zones: Zones,
}

/// For each partition the places of its nodes in the list of candidates, sorted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    replicas: usize,
    places: Vec<u16>,
}

impl Assignment {
    /// From the places of all partitions, one after another, `replicas` each; `None` if that does not divide them.
    pub fn new(replicas: usize, places: Vec<u16>) -> Option<Assignment> {
        (replicas > 0 && places.len().is_multiple_of(replicas))
            .then_some(Assignment { replicas, places })
    }

    /// The places of a partition's nodes; none if there is no such partition.
    pub fn of(&self, partition: PartitionId) -> &[u16] {
        let from = usize::from(partition.0) * self.replicas;
        self.places
            .get(from..from + self.replicas)
            .unwrap_or_default()
    }

    /// How many copies of each partition.
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    /// How many partitions.
    pub fn partitions(&self) -> usize {
        self.places.len() / self.replicas
    }

    /// The places of all partitions, one after another.
    pub fn places(&self) -> &[u16] {
        &self.places
    }
}

/// The layout that is there, from which as little as possible should move.
#[derive(Clone, Copy, Debug)]
pub struct Previous<'a> {
    /// The nodes that its places refer to; gateways may be among them.
    pub nodes: &'a [Candidate],
    /// Who held what.
    pub assignment: &'a Assignment,
}

/// A node's part in a placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeShare {
    /// How many partitions it holds.
    pub partitions: usize,
    /// How many of them it did not hold before.
    pub gained: usize,
    /// How many it held before and does no more.
    pub lost: usize,
    /// Whether more capacity here would add to the usable capacity, while more elsewhere would not.
    pub limits: bool,
}

/// Who holds what, and how good that is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Who holds what, as places in the list of candidates.
    pub assignment: Assignment,
    /// How large a partition may grow before a node is full.
    pub partition_bytes: u64,
    /// How much data the cluster takes, counted once: the partitions' bytes together.
    pub usable_bytes: u64,
    /// What it could take if data were divided into arbitrarily small pieces.
    pub upper_bound_bytes: u64,
    /// Replicas on nodes that did not hold them before; 0 without a previous layout.
    pub moved: usize,
    /// What no assignment of this capacity can go below, from a simple count.
    pub moved_lower_bound: usize,
    /// For each candidate, its part.
    pub nodes: Vec<NodeShare>,
}

/// Chooses which nodes hold which partition.
///
/// # Errors
/// If there is no placement as asked for; names the value and what to do.
pub fn place(
    candidates: &[Candidate],
    goal: &Goal,
    previous: Option<&Previous<'_>>,
) -> Result<Placement, PlacementError> {
    let problem = Problem::new(candidates, goal)?;
    let old = match previous {
        Some(previous) => held_before(candidates, goal, previous)?,
        None => vec![Vec::new(); goal.partitions.into()],
    };
    let partition_bytes = problem.partition_bytes()?;
    let mut network = Network::new(&problem, partition_bytes, old);
    solve::solve(&mut network)?;
    disperse::disperse(&mut network);
    Ok(summary(
        &problem,
        partition_bytes,
        &network,
        previous.is_some(),
    ))
}

/// For each partition the candidates that hold it in the previous layout.
fn held_before(
    candidates: &[Candidate],
    goal: &Goal,
    previous: &Previous<'_>,
) -> Result<Vec<Vec<u16>>, PlacementError> {
    let before = previous.assignment.partitions();
    if before != usize::from(goal.partitions) {
        let now = goal.partitions;
        return Err(PlacementError::Partitions { before, now });
    }
    let places: BTreeMap<NodeId, u16> = candidates.iter().map(|node| node.id).zip(0..).collect();
    let now: Vec<Option<u16>> = previous
        .nodes
        .iter()
        .map(|node| places.get(&node.id).copied())
        .collect();
    let held = |partition| {
        let places = previous.assignment.of(PartitionId(partition)).iter();
        let mut held: Vec<u16> = places
            .filter_map(|place| now.get(usize::from(*place)).copied().flatten())
            .collect();
        held.sort_unstable();
        held.dedup();
        held
    };
    Ok((0..goal.partitions).map(held).collect())
}

fn summary(
    problem: &Problem<'_>,
    partition_bytes: u64,
    network: &Network<'_>,
    is_change: bool,
) -> Placement {
    let limits = problem.limits(partition_bytes);
    let share = |place: usize| {
        let (partitions, gained, lost) = network.change_of(place as u16);
        NodeShare {
            partitions,
            gained: if is_change { gained } else { 0 },
            lost,
            limits: limits[place],
        }
    };
    let nodes: Vec<NodeShare> = (0..problem.candidates.len()).map(share).collect();
    Placement {
        assignment: network.assignment(),
        partition_bytes,
        usable_bytes: partition_bytes.saturating_mul(problem.partitions),
        upper_bound_bytes: problem.upper_bound_bytes(),
        moved: nodes.iter().map(|node| node.gained).sum(),
        moved_lower_bound: if is_change {
            network.moved_lower_bound()
        } else {
            0
        },
        nodes,
    }
}

#[cfg(test)]
mod tests;

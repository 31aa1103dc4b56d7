//! Placement: which nodes hold which partition. Pure, deterministic, and optimal.
//!
//! [`place`] looks for these, in order: the largest usable capacity with `replicas` copies of each
//! partition on distinct nodes in enough zones; then the fewest replicas that move; then loads in
//! proportion to capacity. Last, and at no cost to these, it mixes the pairs of nodes that share
//! partitions, so that a dead node's data is rebuilt from many nodes.
//!
//! | module | what it does |
//! |---|---|
//! | `problem` | checks the request; finds the largest partition that fits, by binary search |
//! | `network` | an assignment under construction: possible additions and exchanges |
//! | `search` | cheapest paths of exchanges |
//! | `solve` | keep, fill, level: the optimum |
//! | `disperse` | mixes pairs of nodes |
//! | `control` | the nodes of the control group |
//! | `error` | the reasons why no layout fits |
//! | `explain`, `words` | explain moves, limits and risks in plain words |
//!
//! # Why the result is optimal
//! **Capacity.** With partitions of `s` bytes, node `n` holds at most `min(P, ⌊capacity/s⌋)` of the
//! `P` partitions. Of the `r` replicas of a partition, `k` must be in different zones. The others
//! may be on any other nodes. That is a flow: each partition sends `k` units, of which a zone takes
//! at most one each, and `r − k` free ones. All partitions are alike. So a flow of their sum,
//! divided by `P`, is a fractional flow of each, and because all bounds are integers, an integer
//! flow exists. The sum has two cuts that matter. With `b` for the number of replicas that a zone's
//! nodes hold together, an assignment exists if and only if `Σ min(b, P) ≥ kP` and `Σ min(b,
//! (r−k+1)P) ≥ rP`. Both are monotone in `s`, so binary search finds the largest `s`.
//!
//! **Moves.** A set of nodes may hold a partition if it has at most `r` nodes, of which at most `r
//! − k` share a zone with another. These sets are the independent sets of a matroid, and so are
//! those of all partitions together. The limit of each node's room is a second matroid. A replica
//! weighs 1 on a node that did not hold it and 0 on one that did. A largest common set of least
//! weight is weighted matroid intersection. `solve` finds it by a primal-dual method. It begins
//! with replicas that stay, which weigh nothing, so no set of that size weighs less. Each path by
//! which the set grows is a shortest one under potentials (Schrijver, *Combinatorial Optimization*,
//! 41.3), so the weight stays minimal for each size.
//!
//! **Load.** The sum of `load²/capacity` is convex in each node's load. A solution of least weight
//! is the best of them if no path of exchanges without weight leads from a node to one where the
//! sum falls. `solve::level` follows such paths until there is none.
//!
//! # Invariants
//! - The same arguments give the same placement, on every machine.
//! - Without a change of nodes, capacities or goal, nothing moves.

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

pub use control::{control_group, control_warning};
pub use error::PlacementError;
pub use explain::explain;
use network::Network;
use problem::Problem;

/// A storage node as placement sees it. Gateways are not among the candidates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The node.
    pub id: NodeId,
    /// Its site.
    pub zone: String,
    /// Its capacity in bytes. More than 0, except among the nodes of a previous layout.
    pub capacity_bytes: u64,
}

/// The number of zones that the replicas of a partition span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zones {
    /// At least this many.
    AtLeast(usize),
    /// As many as there are, up to one for each replica.
    Maximum,
}

/// The request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Goal {
    /// The number of partitions.
    pub partitions: u16,
    /// The number of copies of each partition, on as many nodes.
    pub replicas: usize,
    /// The zones that they span.
    pub zones: Zones,
}

/// For each partition the indices of its nodes in the list of candidates, sorted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    replicas: usize,
    indices: Vec<u16>,
}

impl Assignment {
    /// Returns an assignment from the node indices of all partitions, one after another, `replicas`
    /// each. Returns `None` if `replicas` does not divide their number.
    pub fn new(replicas: usize, indices: Vec<u16>) -> Option<Assignment> {
        (replicas > 0 && indices.len().is_multiple_of(replicas))
            .then_some(Assignment { replicas, indices })
    }

    /// Returns the indices of a partition's nodes, or none if there is no such partition.
    pub fn of(&self, partition: PartitionId) -> &[u16] {
        let from = usize::from(partition.0) * self.replicas;
        self.indices
            .get(from..from + self.replicas)
            .unwrap_or_default()
    }

    /// Returns the number of copies of each partition.
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> usize {
        self.indices.len() / self.replicas
    }

    /// Returns the node indices of all partitions, one after another.
    pub fn places(&self) -> &[u16] {
        &self.indices
    }
}

/// The index of a copy that is lost, in the assignment of a previous layout. There are never so
/// many nodes.
pub const LOST: u16 = u16::MAX;

/// The current layout. As little as possible should move away from it.
#[derive(Clone, Copy, Debug)]
pub struct Previous<'a> {
    /// The nodes that its indices refer to. Gateways may be among them.
    pub nodes: &'a [Candidate],
    /// The nodes of each partition, or [`LOST`].
    pub assignment: &'a Assignment,
}

/// A node's part in a placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeShare {
    /// The number of partitions that it holds.
    pub partitions: usize,
    /// The number of partitions that it did not hold before.
    pub gained: usize,
    /// The number of partitions that it held before and holds no more.
    pub lost: usize,
    /// True if more capacity here would add usable capacity, and more elsewhere would not.
    pub limits: bool,
}

/// The nodes of each partition, and the quality of the assignment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The nodes of each partition, as indices in the list of candidates.
    pub assignment: Assignment,
    /// The size that a partition may reach before a node is full.
    pub partition_bytes: u64,
    /// The amount of data that the cluster can hold, counted once: the bytes of all partitions.
    pub usable_bytes: u64,
    /// The amount that it could hold if data were divided into arbitrarily small pieces.
    pub upper_bound_bytes: u64,
    /// The number of replicas on nodes that did not hold them before; 0 without a previous layout.
    pub moved: usize,
    /// A lower bound of `moved` for this capacity, from a simple count.
    pub moved_lower_bound: usize,
    /// For each candidate, its part.
    pub nodes: Vec<NodeShare>,
}

/// Chooses the nodes of each partition.
///
/// # Errors
/// If the requested placement is impossible. The error names the value and the fix.
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

/// Returns, for each partition, the candidates that hold it in the previous layout.
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
    let indices: BTreeMap<NodeId, u16> = candidates.iter().map(|node| node.id).zip(0..).collect();
    let now: Vec<Option<u16>> = previous
        .nodes
        .iter()
        .map(|node| indices.get(&node.id).copied())
        .collect();
    let held = |partition| {
        let before = previous.assignment.of(PartitionId(partition)).iter();
        let mut held: Vec<u16> = before
            .filter_map(|index| now.get(usize::from(*index)).copied().flatten())
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
    let share = |index: usize| {
        let (partitions, gained, lost) = network.change_of(index as u16);
        NodeShare {
            partitions,
            gained: if is_change { gained } else { 0 },
            lost,
            limits: limits[index],
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

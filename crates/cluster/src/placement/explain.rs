//! Explains a placement in plain words: its capacity and the limits of it, the moves and their
//! reasons, and the risks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use archipel_base::{NodeId, PartitionId, size};

use super::words::{count, list, name, percent};
use super::{Candidate, Goal, NodeShare, Placement, Previous};

/// The number of nodes that are described one by one.
const NODES: usize = 30;
/// For each node that gains partitions: the nodes that they come from, with their numbers.
type Flows = BTreeMap<NodeId, BTreeMap<NodeId, usize>>;

/// The placement that is explained, and its arguments.
struct Explanation<'a> {
    candidates: &'a [Candidate],
    goal: &'a Goal,
    placement: &'a Placement,
    previous: Option<&'a Previous<'a>>,
    stored_bytes: Option<u64>,
}

/// Returns lines that explain a placement of these arguments: its capacity, the limits of it, the
/// moves and their reasons, and the risks. `stored_bytes` is the size of all data, counted once.
/// Without it the lines name only partitions.
pub fn explain(
    candidates: &[Candidate],
    goal: &Goal,
    placement: &Placement,
    previous: Option<&Previous<'_>>,
    stored_bytes: Option<u64>,
) -> Vec<String> {
    let explanation = Explanation {
        candidates,
        goal,
        placement,
        previous,
        stored_bytes,
    };
    let mut lines = vec![explanation.capacity()];
    lines.extend(explanation.limits());
    lines.extend(explanation.moves());
    lines.extend(explanation.nodes());
    lines.extend(explanation.leaving());
    lines.extend(explanation.warnings());
    lines
}

impl Explanation<'_> {
    fn capacity(&self) -> String {
        let placement = self.placement;
        let before = self.previous.and_then(usable_before);
        let before = before.map_or(String::new(), |bytes| {
            format!(" ({} before)", size::show(bytes))
        });
        format!(
            "usable capacity: {}{before}, {} of what these nodes could hold at best; {} of each of {} partitions",
            size::show(placement.usable_bytes),
            percent(
                placement.usable_bytes as f64,
                placement.upper_bound_bytes as f64
            ),
            count(self.goal.replicas, "replica"),
            self.goal.partitions,
        )
    }

    /// Names the zones or nodes that need more capacity before more can be stored.
    fn limits(&self) -> Vec<String> {
        let shares = self.candidates.iter().zip(&self.placement.nodes);
        let limiting: Vec<&Candidate> = shares
            .filter(|(_, share)| share.limits)
            .map(|(node, _)| node)
            .collect();
        if limiting.is_empty() {
            return Vec::new();
        }
        let zones: BTreeSet<&str> = limiting.iter().map(|node| node.zone.as_str()).collect();
        let in_zones = self
            .candidates
            .iter()
            .filter(|node| zones.contains(node.zone.as_str()));
        let what = if in_zones.count() == limiting.len() {
            let zones: Vec<String> = zones.into_iter().map(String::from).collect();
            format!("zone {}", list(&zones))
        } else {
            let names: Vec<String> = limiting.iter().map(|node| name(node)).collect();
            format!("node {}", list(&names))
        };
        vec![format!(
            "limited by {what}: the others have free capacity that no further replica can use; to store more, add capacity there"
        )]
    }

    fn moves(&self) -> Vec<String> {
        if self.previous.is_none() {
            return Vec::new();
        }
        let placement = self.placement;
        let all = placement.assignment.places().len();
        if placement.moved == 0 {
            return vec!["nothing moves".into()];
        }
        vec![format!(
            "{} of {all} replicas ({}) move{}: the least that this capacity needs",
            placement.moved,
            percent(placement.moved as f64, all as f64),
            self.bytes_of(placement.moved),
        )]
    }

    /// Describes the gains and losses of the nodes with the largest changes.
    fn nodes(&self) -> Vec<String> {
        if self.previous.is_none() {
            return Vec::new();
        }
        let flows = self.flows();
        let shares = self.candidates.iter().zip(&self.placement.nodes);
        let mut changed: Vec<(&Candidate, &NodeShare)> = shares
            .filter(|(_, share)| share.gained + share.lost > 0)
            .collect();
        changed
            .sort_by_key(|(node, share)| (std::cmp::Reverse(share.gained + share.lost), node.id));
        let shown = changed.iter().take(NODES);
        let mut lines: Vec<String> = shown
            .map(|(node, share)| self.node(node, share, &flows))
            .collect();
        if changed.len() > NODES {
            lines.push(format!("{} more nodes change less", changed.len() - NODES));
        }
        lines
    }

    fn node(&self, node: &Candidate, share: &NodeShare, flows: &Flows) -> String {
        let mut line = format!("node {}:", name(node));
        if share.gained > 0 {
            let gained = count(share.gained, "partition");
            let _ = write!(line, " gains {gained}{}", self.bytes_of(share.gained));
            if let Some(from) = flows.get(&node.id) {
                let _ = write!(line, ", from {}", self.sources(from));
            }
            line.push(';');
        }
        if share.lost > 0 {
            let lost = count(share.lost, "partition");
            let _ = write!(line, " gives up {lost}{};", self.bytes_of(share.lost));
        }
        let full = self.placement.partition_bytes as f64 * share.partitions as f64;
        let of_capacity = percent(full, node.capacity_bytes as f64);
        let _ = write!(
            line,
            " then holds {} and can use {of_capacity} of its capacity",
            share.partitions
        );
        line
    }

    /// Describes the nodes that leave the layout.
    fn leaving(&self) -> Vec<String> {
        let Some(previous) = self.previous else {
            return Vec::new();
        };
        let stay: BTreeSet<NodeId> = self.candidates.iter().map(|node| node.id).collect();
        let mut held = vec![0; previous.nodes.len()];
        for index in previous.assignment.places() {
            if let Some(held) = held.get_mut(usize::from(*index)) {
                *held += 1;
            }
        }
        let left = previous.nodes.iter().zip(held);
        let left = left.filter(|(node, held)| *held > 0 && !stay.contains(&node.id));
        left.map(|(node, held)| {
            let all = count(held, "partition");
            format!(
                "node {} leaves: other nodes take over its {all}{}",
                name(node),
                self.bytes_of(held)
            )
        })
        .collect()
    }

    /// Warns of failures that stop partitions, and of idle capacity.
    fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let replicas = self.goal.replicas;
        let survives = (replicas - 1) / 2;
        if survives == 0 {
            let what = count(replicas, "replica");
            lines.push(format!(
                "warning: with {what} the failure of a single node stops its partitions; 3 replicas survive the failure of any one node"
            ));
        } else {
            let at_risk = self.partitions_at_risk(survives);
            if at_risk > 0 {
                lines.push(format!(
                    "warning: if one zone fails, up to {} stop, because most of their replicas are there; use at least 3 zones with enough capacity each",
                    count(at_risk, "partition")
                ));
            }
        }
        let full = self.placement.partition_bytes as f64;
        let shares = self.candidates.iter().zip(&self.placement.nodes);
        let idle = shares.filter(|(node, share)| {
            full * share.partitions as f64 * 2.0 < node.capacity_bytes as f64
        });
        let idle: Vec<String> = idle.map(|(node, _)| name(node)).collect();
        if !idle.is_empty() {
            lines.push(format!(
                "warning: less than half of the capacity of node {} can be used; balance the capacity of zones and nodes",
                list(&idle)
            ));
        }
        lines
    }

    /// Returns the largest number of partitions that have more than `survives` replicas in one
    /// zone.
    fn partitions_at_risk(&self, survives: usize) -> usize {
        let mut by_zone: BTreeMap<&str, usize> = BTreeMap::new();
        for partition in 0..self.goal.partitions {
            let mut here: BTreeMap<&str, usize> = BTreeMap::new();
            for index in self.placement.assignment.of(PartitionId(partition)) {
                *here
                    .entry(&self.candidates[usize::from(*index)].zone)
                    .or_default() += 1;
            }
            for (zone, _) in here
                .into_iter()
                .filter(|(_, replicas)| *replicas > survives)
            {
                *by_zone.entry(zone).or_default() += 1;
            }
        }
        by_zone.into_values().max().unwrap_or(0)
    }

    /// Returns the nodes from which each node takes over. In each partition, new nodes take over
    /// from nodes that leave, and then from nodes that stay.
    fn flows(&self) -> Flows {
        let mut flows = Flows::new();
        let Some(previous) = self.previous else {
            return flows;
        };
        for partition in (0..self.goal.partitions).map(PartitionId) {
            let before = ids(previous.nodes, previous.assignment.of(partition));
            let after = ids(self.candidates, self.placement.assignment.of(partition));
            let left = before.difference(&after).chain(before.intersection(&after));
            for (to, from) in after.difference(&before).zip(left.cycle()) {
                *flows.entry(*to).or_default().entry(*from).or_default() += 1;
            }
        }
        flows
    }

    fn sources(&self, from: &BTreeMap<NodeId, usize>) -> String {
        let mut from: Vec<_> = from.iter().collect();
        from.sort_by_key(|(id, partitions)| (std::cmp::Reverse(**partitions), **id));
        let names: Vec<String> = from
            .iter()
            .map(|(id, partitions)| format!("{} ({partitions})", id.short()))
            .collect();
        list(&names)
    }

    /// Returns about how many bytes some partitions hold, if that is known.
    fn bytes_of(&self, partitions: usize) -> String {
        let Some(stored) = self.stored_bytes else {
            return String::new();
        };
        let bytes =
            u128::from(stored) * partitions as u128 / u128::from(self.goal.partitions.max(1));
        format!(
            " (about {})",
            size::show(u64::try_from(bytes).unwrap_or(u64::MAX))
        )
    }
}

/// Returns how much a layout can hold before its first node is full, or `None` if its capacities
/// are unknown.
fn usable_before(previous: &Previous<'_>) -> Option<u64> {
    let mut held = vec![0_u64; previous.nodes.len()];
    for index in previous.assignment.places() {
        // A copy that is lost is at no node.
        if let Some(held) = held.get_mut(usize::from(*index)) {
            *held += 1;
        }
    }
    let nodes = previous
        .nodes
        .iter()
        .zip(held)
        .filter(|(_, held)| *held > 0);
    let partition_bytes = nodes.map(|(node, held)| node.capacity_bytes / held).min()?;
    let usable = partition_bytes.saturating_mul(previous.assignment.partitions() as u64);
    (usable > 0).then_some(usable)
}

fn ids(nodes: &[Candidate], indices: &[u16]) -> BTreeSet<NodeId> {
    let node = |index: &u16| nodes.get(usize::from(*index)).map(|node| node.id);
    indices.iter().filter_map(node).collect()
}

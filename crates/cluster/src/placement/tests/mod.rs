//! Tests of placement.

mod brute;
mod control;
mod explain;
mod flow;
mod large;
mod words;

use archipel_base::{NodeId, PartitionId};

use super::{Candidate, Goal, Placement, Previous, Zones, place};

/// Returns a node with a number as its id.
fn node(number: u16, zone: &str, capacity_bytes: u64) -> Candidate {
    let mut id = [0; 32];
    id[..2].copy_from_slice(&number.to_be_bytes());
    Candidate {
        id: NodeId(id),
        zone: zone.into(),
        capacity_bytes,
    }
}

/// Returns `count` nodes of the same capacity, in turn over as many zones as given.
fn equal_nodes(count: u16, zones: u16, capacity_bytes: u64) -> Vec<Candidate> {
    (0..count)
        .map(|number| node(number, &format!("z{:03}", number % zones), capacity_bytes))
        .collect()
}

fn goal(partitions: u16, replicas: usize) -> Goal {
    Goal {
        partitions,
        replicas,
        zones: Zones::Maximum,
    }
}

/// Places again after a change of nodes.
fn change(
    before: &[Candidate],
    placement: &Placement,
    after: &[Candidate],
    goal: &Goal,
) -> Placement {
    let previous = Previous {
        nodes: before,
        assignment: &placement.assignment,
    };
    place(after, goal, Some(&previous)).unwrap()
}

/// Asserts that a placement keeps every rule.
fn assert_sound(nodes: &[Candidate], goal: &Goal, placement: &Placement) {
    let zones: std::collections::BTreeSet<&str> =
        nodes.iter().map(|node| node.zone.as_str()).collect();
    let least = match goal.zones {
        Zones::AtLeast(least) => least,
        Zones::Maximum => goal.replicas.min(zones.len()),
    };
    let mut held = vec![0_u64; nodes.len()];
    assert_eq!(
        placement.assignment.partitions(),
        usize::from(goal.partitions)
    );
    for partition in 0..goal.partitions {
        let places = placement.assignment.of(PartitionId(partition));
        assert_eq!(places.len(), goal.replicas);
        assert!(
            places.windows(2).all(|pair| pair[0] < pair[1]),
            "{places:?}"
        );
        let zones: std::collections::BTreeSet<&str> = places
            .iter()
            .map(|place| nodes[usize::from(*place)].zone.as_str())
            .collect();
        assert!(zones.len() >= least, "{zones:?} of {least}");
        for place in places {
            held[usize::from(*place)] += 1;
        }
    }
    for ((node, held), share) in nodes.iter().zip(held).zip(&placement.nodes) {
        assert_eq!(share.partitions as u64, held);
        assert!(held * placement.partition_bytes <= node.capacity_bytes);
    }
    assert!(placement.usable_bytes <= placement.upper_bound_bytes);
    assert!(placement.moved >= placement.moved_lower_bound);
}

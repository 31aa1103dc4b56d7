//! The control group.

use std::collections::BTreeMap;

use super::{equal_nodes, node};
use crate::placement::{Candidate, control_group};

fn by_zone(nodes: &[Candidate], group: &[u16]) -> Vec<usize> {
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    for place in group {
        *zones.entry(&nodes[usize::from(*place)].zone).or_default() += 1;
    }
    zones.into_values().collect()
}

#[test]
fn the_group_is_odd_and_spread_over_zones() {
    for (nodes, zones, spread) in [
        (1, 1, vec![1]),
        (2, 2, vec![1]),
        (2, 1, vec![1]),
        (3, 3, vec![1, 1, 1]),
        (4, 4, vec![1, 1, 1]),
        (9, 3, vec![3, 2, 2]),
        (10, 2, vec![4, 3]),
        (30, 5, vec![2, 2, 1, 1, 1]),
        (1000, 1000, vec![1; 7]),
    ] {
        let nodes = equal_nodes(nodes, zones, 1);
        assert_eq!(by_zone(&nodes, &control_group(&nodes, &[])), spread);
    }
    assert!(control_group(&[], &[]).is_empty());
}

#[test]
fn no_zone_has_a_majority_if_there_are_three() {
    let mut nodes = equal_nodes(8, 1, 1);
    nodes.push(node(100, "b", 1));
    nodes.push(node(101, "c", 1));
    assert_eq!(by_zone(&nodes, &control_group(&nodes, &[])), [1, 1, 1]);
    nodes.push(node(102, "c", 1));
    assert_eq!(by_zone(&nodes, &control_group(&nodes, &[])), [1, 2, 2]);
}

#[test]
fn members_stay_in_the_group() {
    let nodes = equal_nodes(40, 10, 1);
    let before: Vec<_> = [11, 13, 15, 16, 18, 29, 30]
        .map(|n: usize| nodes[n].id)
        .into();
    assert_eq!(control_group(&nodes, &before), [11, 13, 15, 16, 18, 29, 30]);
    // One member leaves, and one comes.
    let fewer: Vec<Candidate> = nodes
        .iter()
        .filter(|node| node.id != before[2])
        .cloned()
        .collect();
    let group = control_group(&fewer, &before);
    let stayed = group
        .iter()
        .filter(|place| before.contains(&fewer[usize::from(**place)].id));
    assert_eq!((group.len(), stayed.count()), (7, 6));
}

#[test]
fn the_larger_node_is_chosen() {
    let nodes = [
        node(0, "a", 1),
        node(1, "a", 5),
        node(2, "b", 3),
        node(3, "c", 3),
    ];
    assert_eq!(control_group(&nodes, &[]), [1, 2, 3]);
}

//! The control group.

use std::collections::BTreeMap;

use super::{equal_nodes, node};
use crate::placement::{Candidate, control_group, control_warning};

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
        assert_eq!(by_zone(&nodes, &control_group(&nodes, 3, &[])), spread);
    }
    assert!(control_group(&[], 3, &[]).is_empty());
}

#[test]
fn no_zone_has_a_majority_if_there_are_three() {
    let mut nodes = equal_nodes(8, 1, 1);
    nodes.push(node(100, "b", 1));
    nodes.push(node(101, "c", 1));
    assert_eq!(by_zone(&nodes, &control_group(&nodes, 3, &[])), [1, 1, 1]);
    nodes.push(node(102, "c", 1));
    assert_eq!(by_zone(&nodes, &control_group(&nodes, 3, &[])), [1, 2, 2]);
}

#[test]
fn members_stay_in_the_group() {
    let nodes = equal_nodes(40, 10, 1);
    let before: Vec<_> = [11, 13, 15, 16, 18, 29, 30]
        .map(|n: usize| nodes[n].id)
        .into();
    assert_eq!(
        control_group(&nodes, 3, &before),
        [11, 13, 15, 16, 18, 29, 30]
    );
    // One member leaves, and one comes.
    let fewer: Vec<Candidate> = nodes
        .iter()
        .filter(|node| node.id != before[2])
        .cloned()
        .collect();
    let group = control_group(&fewer, 3, &before);
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
    assert_eq!(control_group(&nodes, 3, &[]), [1, 2, 3]);
}

/// Zones of five nodes, one and one. Data with five copies goes on without the two small zones, so
/// control data must, too.
#[test]
fn the_group_survives_as_many_nodes_as_data_does() {
    let mut nodes = equal_nodes(5, 1, 1);
    nodes.push(node(100, "b", 1));
    nodes.push(node(101, "c", 1));
    let sizes = |replicas| by_zone(&nodes, &control_group(&nodes, replicas, &[]));
    assert_eq!(sizes(5), [1, 1, 5]);
    for replicas in [1, 2, 3, 4] {
        assert_eq!(sizes(replicas), [1, 1, 1], "{replicas} replicas");
    }
    // The group is no larger because of more replicas.
    let nodes = equal_nodes(15, 15, 1);
    assert_eq!(control_group(&nodes, 15, &[]).len(), 7);
    // A larger group that survives the loss of each zone comes first.
    let nodes = equal_nodes(10, 5, 1);
    assert_eq!(
        by_zone(&nodes, &control_group(&nodes, 5, &[])),
        [2, 2, 1, 1, 1]
    );
}

#[test]
fn one_copy_of_control_data_is_a_risk_if_there_are_more_nodes() {
    for (count, is_told) in [(1, false), (2, true), (3, false), (4, false)] {
        let nodes = equal_nodes(count, count, 1);
        let group = control_group(&nodes, 2_usize.min(count.into()), &[]);
        let told = control_warning(&nodes, &group);
        assert_eq!(told.is_some(), is_told, "{count} nodes");
    }
}

//! Clusters of real size: properties that hold for all of them.

use super::{assert_sound, change, equal_nodes, goal, node};
use crate::placement::{Candidate, Goal, Zones, place};

/// Returns nodes of unlike capacity, unevenly over zones.
fn unlike_nodes(count: u16, zones: u16) -> Vec<Candidate> {
    let zone = |number: u16| format!("z{}", (number * number + number / 3) % zones);
    let capacity = |number: u16| 1_000_000_000_000 * (1 + u64::from(number * 7 % 5));
    (0..count)
        .map(|number| node(number, &zone(number), capacity(number)))
        .collect()
}

#[test]
fn each_of_three_zones_with_one_node_holds_everything() {
    let nodes = equal_nodes(3, 3, 1 << 40);
    let placement = place(&nodes, &goal(1024, 3), None).unwrap();
    assert_sound(&nodes, &goal(1024, 3), &placement);
    assert_eq!(placement.usable_bytes, 1 << 40);
    assert_eq!(placement.upper_bound_bytes, 1 << 40);
    assert!(placement.nodes.iter().all(|share| share.partitions == 1024));
}

#[test]
fn a_hundred_nodes_are_placed_and_changed() {
    let nodes = unlike_nodes(100, 7);
    let goal = goal(1024, 3);
    let first = place(&nodes, &goal, None).unwrap();
    assert_sound(&nodes, &goal, &first);
    assert_eq!(first, place(&nodes, &goal, None).unwrap());

    let same = change(&nodes, &first, &nodes, &goal);
    assert_eq!(same.moved, 0);
    assert_eq!(same.assignment, first.assignment);

    let fewer = nodes[1..].to_vec();
    let removed = change(&nodes, &first, &fewer, &goal);
    assert_sound(&fewer, &goal, &removed);
    assert!(removed.moved >= first.nodes[0].partitions);

    let mut more = nodes.clone();
    more.push(node(1000, "z1", 3_000_000_000_000));
    let added = change(&nodes, &first, &more, &goal);
    assert_sound(&more, &goal, &added);
    assert_eq!(added, change(&nodes, &first, &more, &goal));
}

#[test]
fn equal_nodes_get_equal_loads() {
    for (nodes, zones) in [(4, 4), (5, 5), (6, 3), (30, 3), (30, 30)] {
        let nodes = equal_nodes(nodes, zones, 1 << 40);
        let placement = place(&nodes, &goal(1024, 3), None).unwrap();
        assert_sound(&nodes, &goal(1024, 3), &placement);
        let loads = placement.nodes.iter().map(|share| share.partitions);
        let (least, most) = (loads.clone().min().unwrap(), loads.max().unwrap());
        assert!(most - least <= 1, "{least} to {most}");
    }
}

#[test]
fn a_new_replication_factor_moves_as_little_as_possible() {
    let nodes = unlike_nodes(12, 5);
    let mut before = place(&nodes, &goal(1024, 3), None).unwrap();
    for replicas in [5, 3, 2, 1, 3] {
        let goal = goal(1024, replicas);
        let after = change(&nodes, &before, &nodes, &goal);
        assert_sound(&nodes, &goal, &after);
        before = after;
    }
    // With enough room everywhere, copies are only added or only dropped.
    let nodes = equal_nodes(5, 5, 1 << 40);
    let one = place(&nodes, &goal(1024, 1), None).unwrap();
    let five = change(&nodes, &one, &nodes, &goal(1024, 5));
    assert_eq!(five.moved, 4 * 1024);
    let three = change(&nodes, &five, &nodes, &goal(1024, 3));
    assert_eq!(three.moved, 0);
    let loads = three.nodes.iter().map(|share| share.partitions);
    assert!(loads.clone().max().unwrap() - loads.min().unwrap() <= 1);
}

#[test]
fn a_new_node_takes_from_all_others_and_nothing_else_moves() {
    let before = equal_nodes(9, 3, 1 << 40);
    let first = place(&before, &goal(1024, 3), None).unwrap();
    let after = equal_nodes(12, 3, 1 << 40);
    let added = change(&before, &first, &after, &goal(1024, 3));
    assert_sound(&after, &goal(1024, 3), &added);
    assert_eq!(added.moved, 3 * 256);
    assert_eq!(added.moved, added.moved_lower_bound);
    assert!(added.nodes[..9].iter().all(|share| share.gained == 0));
}

#[test]
fn a_zone_leaves_and_comes_back() {
    let all = equal_nodes(12, 4, 1 << 40);
    let first = place(&all, &goal(1024, 3), None).unwrap();
    let three: Vec<Candidate> = all
        .iter()
        .filter(|node| node.zone != "z003")
        .cloned()
        .collect();
    let without = change(&all, &first, &three, &goal(1024, 3));
    assert_sound(&three, &goal(1024, 3), &without);
    assert_eq!(without.moved, 768);
    let again = change(&three, &without, &all, &goal(1024, 3));
    assert_eq!(again.moved, 768);
}

#[test]
fn a_node_shares_its_partitions_with_many_nodes() {
    let nodes = equal_nodes(30, 3, 1 << 40);
    let placement = place(&nodes, &goal(1024, 3), None).unwrap();
    let mut shared = vec![0; 30 * 30];
    for partition in 0..1024 {
        let places = placement
            .assignment
            .of(archipel_base::PartitionId(partition));
        for a in places {
            for b in places.iter().filter(|b| a != *b) {
                shared[usize::from(*a) * 30 + usize::from(*b)] += 1;
            }
        }
    }
    // The 102 partitions of a node lie on 10 nodes in each of the two other zones.
    for a in 0..30 {
        for b in (0..30).filter(|b| a % 3 != b % 3) {
            assert!(
                (5..=16).contains(&shared[a * 30 + b]),
                "{a} and {b}: {}",
                shared[a * 30 + b]
            );
        }
    }
}

#[test]
fn a_small_zone_limits_capacity_until_fewer_zones_are_requested() {
    let nodes = vec![
        node(0, "a", 1_000_000),
        node(1, "b", 1_000_000),
        node(2, "c", 100_000),
        node(3, "a", 1_000_000),
    ];
    let tight = place(&nodes, &goal(1024, 3), None).unwrap();
    assert_eq!(tight.usable_bytes, 97 * 1024);
    let limits: Vec<bool> = tight.nodes.iter().map(|share| share.limits).collect();
    assert_eq!(limits, [false, false, true, false]);
    let wide = Goal {
        zones: Zones::AtLeast(2),
        ..goal(1024, 3)
    };
    let lifted = place(&nodes, &wide, None).unwrap();
    assert_sound(&nodes, &wide, &lifted);
    assert!(lifted.usable_bytes > 10 * tight.usable_bytes);
}

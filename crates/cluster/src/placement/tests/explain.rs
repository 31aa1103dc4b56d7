//! Explanations in plain words.

use super::{change, equal_nodes, goal, node};
use crate::placement::{Candidate, Goal, Placement, Previous, Zones, explain, place};

const TIB: u64 = 1 << 40;

fn said(
    before: &[Candidate],
    old: &Placement,
    after: &[Candidate],
    goal: &Goal,
    stored: Option<u64>,
) -> String {
    let placement = change(before, old, after, goal);
    let previous = Previous {
        nodes: before,
        assignment: &old.assignment,
    };
    explain(after, goal, &placement, Some(&previous), stored).join("\n")
}

#[test]
fn a_fourth_node_is_explained() {
    let three = equal_nodes(3, 3, TIB);
    let four = equal_nodes(4, 4, TIB);
    let first = place(&three, &goal(1024, 3), None).unwrap();
    let expected = "\
usable capacity: 1.3 TiB (1.0 TiB before), 100.0 % of what these nodes could hold at best; 3 replicas of each of 1024 partitions
768 of 3072 replicas (25.0 %) move (about 30.0 GiB): the least that this capacity needs
node 00030000 (zone z003): gains 768 partitions (about 30.0 GiB), from 00000000 (256), 00010000 (256) and 00020000 (256); then holds 768 and can use 100.0 % of its capacity
node 00000000 (zone z000): gives up 256 partitions (about 10.0 GiB); then holds 768 and can use 100.0 % of its capacity
node 00010000 (zone z001): gives up 256 partitions (about 10.0 GiB); then holds 768 and can use 100.0 % of its capacity
node 00020000 (zone z002): gives up 256 partitions (about 10.0 GiB); then holds 768 and can use 100.0 % of its capacity";
    assert_eq!(
        said(&three, &first, &four, &goal(1024, 3), Some(40 << 30)),
        expected
    );
    let without_sizes = said(&three, &first, &four, &goal(1024, 3), None);
    assert!(!without_sizes.contains("about"), "{without_sizes}");
}

#[test]
fn the_limits_and_the_idle_capacity_are_named() {
    let nodes = [
        node(1, "a", 4 * TIB),
        node(2, "b", 4 * TIB),
        node(3, "c", TIB),
    ];
    let placement = place(&nodes, &goal(1024, 3), None).unwrap();
    let lines = explain(&nodes, &goal(1024, 3), &placement, None, None);
    assert_eq!(
        lines[1],
        "limited by zone c: the others have free capacity that no further replica can use; to store more, add capacity there"
    );
    assert_eq!(
        lines[2],
        "warning: less than half of the capacity of node 00010000 (zone a) and 00020000 (zone b) can be used; balance the capacity of zones and nodes"
    );
    assert_eq!(lines.len(), 3);
}

#[test]
fn a_leaving_node_and_an_unchanged_layout_are_explained() {
    let four = equal_nodes(4, 4, TIB);
    let first = place(&four, &goal(1024, 3), None).unwrap();
    let text = said(&four, &first, &four[..3], &goal(1024, 3), None);
    assert!(
        text.contains("node 00030000 (zone z003) leaves: other nodes take over its 768 partitions"),
        "{text}"
    );
    assert!(text.contains("1.0 TiB (1.3 TiB before)"), "{text}");
    let text = said(&four, &first, &four, &goal(1024, 3), None);
    assert!(text.ends_with("nothing moves"), "{text}");
}

#[test]
fn risks_are_named() {
    let nodes = equal_nodes(4, 2, TIB);
    let risk = |replicas, zones| {
        let goal = Goal {
            zones,
            ..goal(1024, replicas)
        };
        let placement = place(&nodes, &goal, None).unwrap();
        explain(&nodes, &goal, &placement, None, None).join("\n")
    };
    assert!(
        risk(1, Zones::Maximum)
            .contains("with 1 replica the failure of a single node stops its partitions")
    );
    assert!(risk(2, Zones::Maximum).contains("with 2 replicas the failure of a single node"));
    let three = risk(3, Zones::Maximum);
    assert!(
        three.contains("if one zone fails, up to 512 partitions stop"),
        "{three}"
    );
}

#[test]
fn only_the_largest_of_many_changes_are_listed() {
    let before = equal_nodes(60, 3, TIB);
    let first = place(&before, &goal(1024, 3), None).unwrap();
    let after = equal_nodes(120, 3, TIB);
    let text = said(&before, &first, &after, &goal(1024, 3), None);
    assert!(text.contains("more nodes change less"), "{text}");
    assert!(text.lines().count() < 40);
}

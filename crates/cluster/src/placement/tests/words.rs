//! Refusals name the value and the fix.

use super::{equal_nodes, goal, node};
use crate::placement::{Assignment, Goal, PlacementError, Previous, Zones, place};

fn refused(nodes: &[crate::placement::Candidate], goal: &Goal) -> String {
    place(nodes, goal, None).unwrap_err().to_string()
}

#[test]
fn an_impossible_goal_is_refused_with_value_and_fix() {
    let nodes = equal_nodes(3, 2, 1 << 30);
    assert_eq!(
        refused(&nodes, &goal(1024, 5)),
        "5 replicas need 5 storage nodes, and there are only 3; fix: assign more nodes, or ask for at most 3 replicas"
    );
    let zones = |asked| Goal {
        zones: Zones::AtLeast(asked),
        ..goal(1024, 3)
    };
    assert_eq!(
        refused(&nodes, &zones(3)),
        "replicas must span at least 3 zones, and there are only 2; fix: assign nodes in more zones, or ask for at most 2"
    );
    assert_eq!(
        refused(&nodes, &zones(4)),
        "3 replicas cannot span 4 zones; fix: ask for at most 3 zones, or for more replicas"
    );
    assert!(refused(&nodes, &zones(0)).contains("number of zones is 0"));
    assert!(refused(&nodes, &goal(0, 3)).contains("number of partitions is 0"));
    assert!(refused(&nodes, &goal(1024, 0)).contains("number of replicas is 0"));
    let none = [node(0, "a", 0)];
    assert!(
        refused(&none, &goal(1024, 1))
            .contains("has a capacity of 0; fix: give it one, or make it a gateway")
    );
    let twice = [node(0, "a", 1), node(0, "b", 1)];
    assert!(refused(&twice, &goal(1024, 1)).contains("is given twice"));
    assert_eq!(
        refused(&equal_nodes(3, 3, 1000), &goal(1024, 3)),
        "3000 bytes of capacity are too little for 1024 partitions with 3 replicas; fix: capacities are in bytes, give larger ones"
    );
}

#[test]
fn a_new_number_of_partitions_is_refused() {
    let nodes = equal_nodes(1, 1, 1 << 30);
    let assignment = Assignment::new(1, vec![0; 512]).unwrap();
    let previous = Previous {
        nodes: &nodes,
        assignment: &assignment,
    };
    let refused = place(&nodes, &goal(1024, 1), Some(&previous)).unwrap_err();
    let expected = PlacementError::Partitions {
        before: 512,
        now: 1024,
    };
    assert_eq!(refused, expected);
}

use archipel_base::Id;

use super::*;
use crate::layout::StoreName;

fn role(node: u8, zone: &str, store: u8) -> Role {
    Role {
        store: StoreName {
            node: NodeId([node; 32]),
            store: Id([store; 16]),
        },
        zone: zone.into(),
        capacity_bytes: 1 << 40,
    }
}

fn copies(replicas: u8) -> Redundancy {
    Redundancy {
        replicas,
        zones: None,
    }
}

/// Found by reading: the plan said that nothing moves, and then all of the node's data was copied.
#[test]
fn all_data_of_a_store_that_was_lost_moves() {
    let roles = vec![role(1, "a", 1), role(2, "b", 2), role(3, "c", 3)];
    let (current, _) = layout(None, 1, copies(3), roles.clone()).unwrap();
    let (_, said) = layout(Some(&current), 2, copies(3), roles.clone()).unwrap();
    assert!(said.contains(&"nothing moves".to_owned()), "{said:?}");

    let mut again = roles;
    again[1] = role(2, "b", 9);
    let (next, said) = layout(Some(&current), 2, copies(3), again).unwrap();
    let said = said.join("\n");
    assert!(
        said.contains("1024 of 3072 replicas (33.3 %) move"),
        "{said}"
    );
    assert!(said.contains("node 02020202 has another store"), "{said}");
    assert!(!said.contains("node 01010101 has"), "{said}");
    assert_eq!(next.assignment, current.assignment);
}

/// With more nodes than copies, the other nodes keep what they have.
#[test]
fn a_store_that_was_lost_moves_nothing_of_others() {
    let zones = ["a", "b", "c", "d"];
    let roles = zones.iter().zip(1..);
    let mut roles: Vec<Role> = roles.map(|(zone, n)| role(n, zone, n)).collect();
    let (current, _) = layout(None, 1, copies(3), roles.clone()).unwrap();
    roles[3] = role(4, "d", 9);
    let (next, said) = layout(Some(&current), 2, copies(3), roles).unwrap();
    let said = said.join("\n");
    assert!(
        said.contains("768 of 3072 replicas (25.0 %) move"),
        "{said}"
    );
    for (old, new) in current.assignment.chunks(3).zip(next.assignment.chunks(3)) {
        let mut kept = old.iter().filter(|place| **place != 3);
        assert!(kept.all(|place| new.contains(place)), "{old:?} {new:?}");
    }
}

/// Two nodes have two copies of all data, and one of the control data.
#[test]
fn one_copy_of_control_data_is_told() {
    let roles = [role(1, "a", 1), role(2, "b", 2), role(3, "c", 3)];
    let told = |nodes: usize, replicas| {
        let planned = layout(None, 1, copies(replicas), roles[..nodes].to_vec());
        let (layout, said) = planned.unwrap();
        let told = said.iter().any(|line| line.contains("one copy, on node"));
        (layout.control.len(), told)
    };
    assert_eq!(told(1, 1), (1, false));
    assert_eq!(told(2, 2), (1, true));
    assert_eq!(told(3, 2), (3, false));
}

//! The state of clusters that miss nodes.

use archipel_base::{Id, NodeId};
use archipel_cluster::layout::{Epoch, Layout, PARTITIONS, Redundancy, Role, StoreName};

use super::super::types::{ClusterState, ClusterStatus, NodeInfo, NodeState};
use super::{assess, serves_nothing};

fn store(number: u8) -> StoreName {
    StoreName {
        node: NodeId([number; 32]),
        store: Id([number; 16]),
    }
}

/// Returns a layout of nodes 1, 2... in these zones, with capacity 0 in zone "gateway". Each
/// partition is on three of the first four storage nodes; its number selects the fourth.
fn layout(version: u64, zones: &[&str]) -> Layout {
    let roles: Vec<Role> = (1..)
        .zip(zones)
        .map(|(number, zone)| Role {
            store: store(number),
            zone: (*zone).into(),
            capacity_bytes: if *zone == "gateway" { 0 } else { 1 << 30 },
        })
        .collect();
    let storage = zones.iter().filter(|zone| **zone != "gateway").count() as u16;
    let replicas = storage.min(3);
    let each = |partition: u16| (0..replicas).map(move |nth| (partition + nth) % storage);
    Layout {
        version,
        redundancy: Redundancy {
            replicas: replicas as u8,
            zones: None,
        },
        roles,
        assignment: (0..PARTITIONS).flat_map(each).collect(),
        control: (0..replicas).collect(),
    }
}

/// Returns all nodes of a layout with these states. The first node is the one that is asked.
fn seen(layout: &Layout, states: &[NodeState]) -> Vec<NodeInfo> {
    let states = [NodeState::Itself]
        .into_iter()
        .chain(states.iter().copied());
    layout
        .roles
        .iter()
        .zip(states)
        .map(|(role, state)| NodeInfo {
            id: role.store.node.to_string(),
            short: role.store.node.short(),
            store: role.store.store.to_string(),
            state,
            in_layout: true,
            ..NodeInfo::default()
        })
        .collect()
}

fn status(zones: &[&str], states: &[NodeState]) -> ClusterStatus {
    let layout = layout(1, zones);
    let nodes = seen(&layout, states);
    assess(&Epoch::first(Id::default(), layout), &nodes)
}

use NodeState::{Alive, Gone, Suspected};

#[test]
fn cluster_is_healthy_while_all_nodes_answer() {
    let status = status(&["a", "b", "c"], &[Alive, Alive]);
    assert_eq!(status.state, ClusterState::Healthy);
    assert_eq!((status.nodes, status.zones), (3, 3));
    assert_eq!(status.advice, Vec::<String>::new());
}

#[test]
fn absent_zone_is_named_with_risks_and_advice() {
    let status = status(&["a", "b", "c"], &[Alive, Gone]);
    assert_eq!(status.state, ClusterState::Degraded);
    assert_eq!(
        status.advice,
        [
            "zone c does not answer: node 03030303",
            "1024 of 1024 partitions lack a copy; reads and writes go on; if one more node that holds them is lost, up to 1024 of them stop",
            "to do: bring 03030303 back; if lost for good: archipel layout remove 03030303, then archipel layout show",
        ]
    );
}

/// It answers, but no request.
#[test]
fn node_of_too_low_a_level_is_named_with_what_to_do() {
    let layout = layout(1, &["a", "b", "c"]);
    let mut nodes = seen(&layout, &[Alive, Alive]);
    let epoch = Epoch::first(Id::default(), layout).with_level(2);
    nodes.iter_mut().for_each(|node| node.level = 2);
    assert_eq!(assess(&epoch, &nodes).state, ClusterState::Healthy);
    nodes[2].level = 1;
    let status = assess(&epoch, &nodes);
    assert_eq!((status.level, status.state), (2, ClusterState::Degraded));
    assert_eq!(
        status.advice[0],
        "node 03030303 in zone c speaks only feature level 1: it serves nothing"
    );
    let last = status.advice.last().map(String::as_str);
    assert_eq!(last, Some("to do: start a newer Archipel on 03030303"));
    nodes[1].level = 1;
    assert_eq!(assess(&epoch, &nodes).state, ClusterState::Unavailable);
}

/// It fences no request off, and no request reaches it.
#[test]
fn node_that_does_not_learn_the_layout_counts_as_away() {
    let layout = layout(1, &["a", "b", "c"]);
    let mut nodes = seen(&layout, &[Alive, Alive]);
    nodes[2].lagging = true;
    let status = assess(&Epoch::first(Id::default(), layout), &nodes);
    assert_eq!(status.state, ClusterState::Degraded);
    assert_eq!(
        status.advice[0],
        "node 03030303 in zone c answers, and does not learn the newest layout: it serves nothing"
    );
    let last = status.advice.last().unwrap();
    assert!(
        last.starts_with("to do: on 03030303, archipel node join"),
        "{last}"
    );
}

/// All nodes that it knew were replaced while it was away.
#[test]
fn newer_layout_that_only_strangers_tell_is_named_with_what_to_do() {
    let layout = layout(1, &["a", "b", "c"]);
    let mut nodes = seen(&layout, &[Gone, Gone]);
    nodes.push(NodeInfo {
        id: store(7).node.to_string(),
        short: store(7).node.short(),
        state: Alive,
        epoch: 9,
        addresses: vec!["d.example.net:3901".into()],
        ..NodeInfo::default()
    });
    let status = assess(&Epoch::first(Id::default(), layout.clone()), &nodes);
    let last = status.advice.last().unwrap();
    assert!(last.starts_with("node 07070707 is a stranger"), "{last}");
    assert!(last.contains(&store(7).node.to_string()), "{last}");
    assert!(!last.contains("d.example.net"), "nobody joins it blindly");
    // An admitted one is believed first, whatever a stranger tells.
    nodes[3].admitted = true;
    nodes.push(NodeInfo {
        epoch: 1_000,
        admitted: false,
        ..nodes[3].clone()
    });
    let status = assess(&Epoch::first(Id::default(), layout), &nodes);
    let last = status.advice.last().unwrap();
    let expected = "archipel node join d.example.net:3901";
    assert!(last.starts_with("node 07070707, which"), "{last}");
    assert!(last.ends_with(expected), "{last}");
}

#[test]
fn absent_node_of_a_zone_that_answers_is_named_alone() {
    let status = status(&["a", "b", "c", "c"], &[Alive, Alive, Suspected]);
    assert_eq!(status.state, ClusterState::Degraded);
    assert_eq!(
        status.advice[0],
        "node 04040404 in zone c does not answer (suspected)"
    );
    // Of four nodes three hold each partition.
    assert!(
        status.advice[1].starts_with("768 of 1024 partitions lack a copy"),
        "{:?}",
        status.advice
    );
}

#[test]
fn cluster_without_a_majority_is_unavailable_and_names_the_loss() {
    let status = status(&["a", "b", "c", "c", "c"], &[Gone, Gone, Alive, Alive]);
    assert_eq!(status.state, ClusterState::Unavailable);
    // Five nodes, nodes 2 and 3 are away: partitions 0, 1 and 4 of each five have both.
    let stopped = (0..PARTITIONS)
        .filter(|p| {
            let holds = |node: u16| (0..3).any(|nth| (p + nth) % 5 == node);
            holds(1) && holds(2)
        })
        .count();
    assert_eq!(status.partitions_stopped as usize, stopped);
    assert_eq!(
        serves_nothing(Some(&status)),
        None,
        "the other partitions are served"
    );
    let line = format!("{stopped} of 1024 partitions have no reachable majority");
    assert!(
        status.advice.iter().any(|l| l.starts_with(&line)),
        "{:?}",
        status.advice
    );
    assert!(
        status
            .advice
            .iter()
            .any(|l| l.starts_with("buckets, keys and the layout have no reachable majority"))
    );
}

#[test]
fn node_that_is_cut_off_reports_itself_first() {
    let status = status(&["a", "b", "c"], &[Suspected, Gone]);
    assert_eq!(status.state, ClusterState::Unavailable);
    assert!(
        status.advice[0].starts_with("no other node answers"),
        "{:?}",
        status.advice
    );
}

#[test]
fn node_without_peers_or_layout_is_not_healthy() {
    let cut_off = status(&["a", "b", "c"], &[Suspected, Suspected]);
    assert!(serves_nothing(Some(&cut_off)).is_some());
    assert!(serves_nothing(None).is_some());
    let degraded = status(&["a", "b", "c"], &[Suspected, Alive]);
    assert_eq!(serves_nothing(Some(&degraded)), None);
}

#[test]
fn absent_gateway_puts_no_data_at_risk() {
    let status = status(&["a", "b", "c", "gateway"], &[Alive, Alive, Gone]);
    assert_eq!(status.state, ClusterState::Degraded);
    assert_eq!(status.advice[1], "no data lacks a copy");
}

#[test]
fn node_with_lost_disks_must_be_assigned_again() {
    let layout = layout(1, &["a", "b", "c"]);
    let mut nodes = seen(&layout, &[Alive, Alive]);
    nodes[2].store = Id([9; 16]).to_string();
    let status = assess(&Epoch::first(Id::default(), layout), &nodes);
    assert_eq!(status.state, ClusterState::Degraded);
    assert!(
        status.advice[0].contains("new, empty store"),
        "{:?}",
        status.advice
    );
    assert!(
        status.advice[2].starts_with("to do: archipel layout assign 03030303"),
        "{:?}",
        status.advice
    );
}

/// The older layout still names the store that is lost.
#[test]
fn node_that_was_assigned_again_is_not_to_be_assigned_again() {
    let older = layout(1, &["a", "b", "c"]);
    let mut newer = layout(2, &["a", "b", "c"]);
    newer.roles[2].store.store = Id([9; 16]);
    let mut nodes = seen(&newer, &[Alive, Alive]);
    let filling = Epoch::first(Id::default(), older).with_next(newer);
    let status = assess(&filling, &nodes);
    assert_eq!(
        (status.state, status.changing),
        (ClusterState::Degraded, true)
    );
    assert_eq!(status.partitions_short, u32::from(PARTITIONS));
    let about = |status: &ClusterStatus, what: &str| {
        let lines = status.advice.iter();
        lines.filter(|line| line.contains(what)).count()
    };
    assert_eq!(about(&status, "layout assign"), 0, "{:?}", status.advice);
    assert_eq!(about(&status, "empty store"), 0, "{:?}", status.advice);
    // Its disks are lost once more.
    nodes[2].store = Id([8; 16]).to_string();
    let status = assess(&filling, &nodes);
    assert_eq!(
        about(&status, "layout assign 03030303"),
        1,
        "{:?}",
        status.advice
    );
    assert_eq!(about(&status, "empty store"), 1, "{:?}", status.advice);
    // Both of its stores are away with it, and it is named once.
    nodes[2].state = Gone;
    let status = assess(&filling, &nodes);
    assert_eq!(
        about(&status, "bring 03030303 back"),
        1,
        "{:?}",
        status.advice
    );
}

#[test]
fn moving_data_needs_a_majority_of_both_layouts() {
    let older = layout(1, &["a", "b", "c"]);
    let mut newer = layout(2, &["a", "b", "c", "d"]);
    // In the newer version no partition is on nodes 2 and 3 together but on 1, 4 and one of them.
    newer.assignment = (0..PARTITIONS).flat_map(|p| [0, 3, 1 + p % 2]).collect();
    newer.control = vec![0, 3, 1];
    let nodes = seen(&newer, &[Gone, Gone, Alive]);
    let alone = assess(&Epoch::first(Id::default(), newer.clone()), &nodes);
    assert_eq!(alone.state, ClusterState::Degraded);
    let both = assess(&Epoch::first(Id::default(), older).with_next(newer), &nodes);
    assert_eq!(
        (both.state, both.changing),
        (ClusterState::Unavailable, true)
    );
    assert!(
        both.advice
            .iter()
            .any(|line| line.starts_with("data moves"))
    );
}

#[test]
fn nodes_without_a_role_are_named_without_harm() {
    let layout = layout(1, &["a"]);
    let mut nodes = seen(&layout, &[]);
    nodes.push(NodeInfo {
        id: store(7).node.to_string(),
        short: store(7).node.short(),
        state: Alive,
        ..NodeInfo::default()
    });
    let status = assess(&Epoch::first(Id::default(), layout.clone()), &nodes);
    assert_eq!(status.state, ClusterState::Healthy);
    let named = "without data: node 07070707; if it is one of your own";
    assert!(status.advice[0].contains(named), "{:?}", status.advice);
    let strangers = (10..90).map(|n| NodeInfo {
        id: store(n).node.to_string(),
        short: store(n).node.short(),
        state: Alive,
        ..NodeInfo::default()
    });
    nodes.extend(strangers);
    let status = assess(&Epoch::first(Id::default(), layout), &nodes);
    assert!(
        status.advice[0].contains("and 76 more"),
        "{:?}",
        status.advice
    );
}

#[test]
fn node_that_was_removed_as_dead_is_not_missed() {
    let mut older = layout(1, &["a", "b", "c", "c"]);
    older.redundancy.replicas = 2;
    let four = |partition: u16| [partition % 4, (partition + 1) % 4];
    older.assignment = (0..PARTITIONS).flat_map(four).collect();
    let mut newer = layout(2, &["a", "b", "c"]);
    newer.redundancy.replicas = 2;
    let three = |partition: u16| [partition % 3, (partition + 1) % 3];
    newer.assignment = (0..PARTITIONS).flat_map(three).collect();
    let nodes = seen(&older, &[Alive, Alive, Gone]);
    let changing = Epoch::first(Id::default(), older).with_next(newer);
    let stuck = assess(&changing, &nodes);
    assert_eq!(stuck.state, ClusterState::Unavailable);
    assert_eq!(stuck.partitions_stopped, 512);
    let skipped = changing.skipping(&store(4)).unwrap();
    let status = assess(&skipped, &nodes);
    assert_eq!(status.state, ClusterState::Healthy);
    assert_eq!((status.partitions_short, status.partitions_stopped), (0, 0));
}

use std::time::Duration;

use super::*;
use crate::memory::World;
use crate::node::options::Hooks;

const LATENCY: Duration = Duration::from_millis(5);

async fn world() -> World {
    World::new(5, 3, LATENCY, 1, Hooks::NONE).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_partition_is_looked_after_by_another_replica_in_each_round() {
    let world = world().await;
    let rounds = [None, Some(0), Some(1), Some(2), Some(3)];
    let held = rounds.map(|round| world.nodes.iter().map(move |n| n.local_partitions(round)));
    let [all, first, second, third, fourth] = held.map(|nodes| nodes.collect::<Vec<_>>());
    for partition in (0..PARTITIONS).map(PartitionId) {
        let holders = |nodes: &[Vec<PartitionId>]| {
            let nodes = nodes.iter().enumerate();
            let holds = nodes.filter(|(_, held)| held.contains(&partition));
            holds.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let mut in_turn = [holders(&first), holders(&second), holders(&third)].concat();
        in_turn.sort_unstable();
        assert_eq!(in_turn.len(), 3, "{partition}");
        assert_eq!(in_turn, holders(&all), "{partition}");
        assert_eq!(holders(&first), holders(&fourth), "{partition}");
    }
}

#[tokio::test(start_paused = true)]
async fn turns_before_number_the_replicas_of_a_partition() {
    let world = world().await;
    for partition in (0..PARTITIONS).step_by(64).map(PartitionId) {
        let replicas = world.nodes.iter();
        let replicas = replicas.filter(|node| node.group(partition).unwrap().local().is_some());
        let mut turns: Vec<usize> = replicas.map(|node| node.turns_before(partition)).collect();
        turns.sort_unstable();
        assert_eq!(turns, [0, 1, 2], "{partition}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_is_in_the_layout_only_if_a_live_version_names_it() {
    let world = world().await;
    let node = &world.nodes[0];
    assert!(node.is_in_layout());
    for other in &world.nodes {
        assert!(node.is_store_in_layout(other.own_store()));
    }
    assert!(!node.is_store_in_layout(Id([7; 16])));
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_layout_rules_no_store_out_and_looks_after_nothing() {
    let world = World::unfounded(1, LATENCY, 1, Hooks::NONE).await.unwrap();
    let node = &world.nodes[0];
    assert!(!node.is_in_layout());
    assert!(node.is_store_in_layout(Id([7; 16])));
    assert!(node.local_partitions(None).is_empty());
}

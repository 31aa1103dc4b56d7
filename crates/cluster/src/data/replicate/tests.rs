use archipel_base::PartitionId;
use bytes::Bytes;

use super::*;
use crate::cluster::Cluster;
use crate::memory::World;
use crate::node::options::Hooks;
use crate::reconfigure::change::LayoutChange;

const LATENCY: Duration = Duration::from_millis(1);
const ROWS: usize = 2000;

fn key(n: usize) -> RowKey {
    RowKey {
        partition: PartitionId(7),
        key: Bytes::from(format!("row {n:05}")),
    }
}

async fn write(node: &Cluster, key: &RowKey) {
    let how = WriteOptions::durable(Durability::Buffered);
    let written = node.write(key, Some(Value::default()), how);
    written.await.unwrap();
}

async fn holds(node: &Cluster, key: RowKey) -> bool {
    let held = node.store().read(move |rows| rows.metadata(&key)).await;
    held.unwrap().is_some()
}

/// Each partition has a replica on the node that is gone.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_is_not_awaited_for_each_row_that_moves() {
    let world = World::three_and(1, LATENCY, 1, Hooks::NONE).await.unwrap();
    let (driver, new) = (&world.nodes[0], &world.nodes[3]);
    for n in 0..ROWS {
        write(driver, &key(n)).await;
    }
    world.kill(2);
    for node in world.nodes.clone() {
        tokio::spawn(async move { node.layouts().run_rebalance().await });
    }
    let changes = vec![
        LayoutChange::Assign(World::role(new, "c")),
        LayoutChange::Remove(world.ids[2]),
    ];
    let staged = driver.layouts().stage(changes).await.unwrap();
    let applied = driver
        .layouts()
        .apply(staged.version, Some(staged.revision));
    applied.await.unwrap();
    let ended = async {
        while driver.epoch().is_some_and(|epoch| epoch.is_changing()) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
    assert!(ended.is_ok(), "{:?}", driver.layouts().progress());
    // The others are a quorum without it, and it gets its rows all the same.
    for n in 0..ROWS {
        assert!(holds(new, key(n)).await, "{n}");
    }
}

/// A node answers gossip, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_delays_a_row_for_a_moment_only() {
    let world = World::new(3, 3, LATENCY, 1, Hooks::NONE).await.unwrap();
    write(&world.nodes[0], &key(1)).await;
    world.isolate(2);
    let most = LATE + Duration::from_secs(1);
    let row = key(1);
    let brought = tokio::time::timeout(most, world.nodes[0].replicate_soon(&row));
    let brought = brought.await.expect("in time").unwrap();
    assert!(!brought.everywhere);
}

/// Garbage of an object with versions is dropped once all replicas have its row. A replica may be
/// far away.
#[tokio::test(start_paused = true)]
async fn a_replica_that_answers_late_gets_a_row_all_the_same() {
    let world = World::new(3, 3, LATENCY, 1, Hooks::NONE).await.unwrap();
    write(&world.nodes[0], &key(1)).await;
    world.move_away(2, LATE * 2 / 3);
    let brought = world.nodes[0].replicate_soon(&key(1)).await.unwrap();
    assert!(!brought.everywhere, "the rebalancer waited");
    let brought = world.nodes[0].replicate(&key(1)).await.unwrap();
    assert!(brought.everywhere);
}

/// A node may be suspected although it answers.
#[tokio::test(start_paused = true)]
async fn suspected_nodes_get_a_row_if_there_is_no_quorum_without_them() {
    let world = World::new(3, 3, LATENCY, 1, Hooks::NONE).await.unwrap();
    write(&world.nodes[0], &key(1)).await;
    world.kill(2);
    world.network.end_all_cuts();
    let brought = world.nodes[0].replicate(&key(1)).await.unwrap();
    assert!(!brought.everywhere, "a node that is away was asked");
    world.kill(1);
    world.network.end_all_cuts();
    let brought = world.nodes[0].replicate(&key(1)).await.unwrap();
    assert!(brought.everywhere);
}

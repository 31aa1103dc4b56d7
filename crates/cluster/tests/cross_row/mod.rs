//! Rules that cross rows: write fences. `crates/model/tests/uploads` has those of uploads.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use archipel_base::{Id, PartitionId, Stamp, Writer};
use archipel_cluster::{Hooks, World};
use archipel_storage::engine::Durability;
use archipel_storage::{Row, RowKey, RowTxn};

use crate::support::{key, value};

/// A fence with the value "closed" is closed.
const FENCES: Hooks = Hooks {
    holds: |_, metadata, _| *metadata != *b"closed",
    ..Hooks::NONE
};

async fn plant_at(world: &World, node: usize, row: RowKey, stamp: Stamp, metadata: &str) {
    let live = Row {
        promised: stamp,
        stamp,
        write: Id([7; 16]),
        value: Some(value(metadata)),
    };
    let set = move |txn: &mut RowTxn<'_>| txn.set(&row, &live);
    let store = world.nodes[node].store();
    let planted = store.transact(Durability::Fsync, set).await;
    planted.expect("a row");
}

/// The fence is closed at a quorum without the first node. A write that the second node has
/// accepted still waits at the first, and is acknowledged later. A look through the first node used
/// its own page and that of the third, and found the bucket empty.
#[tokio::test(start_paused = true)]
async fn a_fenced_look_asks_only_replicas_that_closed_the_fence() {
    let latency = Duration::from_millis(20);
    let world = World::new(3, 3, latency, 1, FENCES).await.unwrap();
    let now = world.nodes[0].now_ms();
    let (early, late) = (
        Stamp::new(now - 2000, 0, Writer(9)),
        Stamp::new(now - 1000, 0, Writer(9)),
    );
    plant_at(&world, 0, key("fence"), early, "open").await;
    for node in [1, 2] {
        plant_at(&world, node, key("fence"), late, "closed").await;
    }
    plant_at(&world, 1, key("object"), early, "accepted").await;
    let prefix = key("object").key;
    let look = |node: usize| {
        let node = world.nodes[node].clone();
        let (prefix, fence) = (prefix.clone(), key("fence"));
        async move { node.has_rows_fenced(PartitionId(0), &prefix, &fence).await }
    };
    for node in 0..3 {
        assert!(look(node).await.unwrap(), "node {node}");
    }
    // Too few nodes that closed the fence are reachable, so there is no answer.
    world.isolate(1);
    let alone = look(0).await;
    assert!(alone.is_err(), "{alone:?}");
}

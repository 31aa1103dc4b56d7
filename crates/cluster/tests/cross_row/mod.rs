//! Rules that cross rows: a row whose write ends another row, as the completion of an upload does,
//! and write fences.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use archipel_base::{Id, PartitionId, Stamp, Writer};
use archipel_cluster::{Decision, Error, Hooks, World, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{Row, RowKey, RowTxn, Value};

use crate::support::{key, value};

/// A row with the value "ends" ends the row "ended".
const HOOKS: Hooks = Hooks {
    ends: |_, value| (value.metadata[..] == *b"ends").then(|| key("ended")),
    ..Hooks::NONE
};

/// A fence with the value "closed" is closed.
const FENCES: Hooks = Hooks {
    holds: |_, metadata| *metadata != *b"closed",
    ..Hooks::NONE
};

async fn plant(world: &World, row: RowKey, stamp: Stamp) {
    for node in &world.nodes {
        let row = row.clone();
        let set = move |txn: &mut RowTxn<'_>| {
            let live = Row {
                promised: stamp,
                stamp,
                write: Id([7; 16]),
                value: Some(value("live")),
            };
            txn.set(&row, &live)
        };
        let planted = node.store().transact(Durability::Fsync, set).await;
        planted.expect("a row");
    }
}

/// The node that wrote the ended row has a clock that is four seconds ahead, within the bound of
/// the replicas. The row that ends it is written through a node with the right time. That row got a
/// lower stamp, and the other row silently stayed, so an upload could be completed twice.
#[tokio::test(start_paused = true)]
async fn a_row_ends_another_row_whose_clock_was_ahead() {
    let latency = Duration::from_millis(20);
    let world = World::new(3, 3, latency, 1, HOOKS).await.unwrap();
    let [a, b] = [&world.nodes[0], &world.nodes[1]];
    let ahead = Stamp::new(a.now_ms() + 4000, 0, Writer(9));
    plant(&world, key("ended"), ahead).await;
    let guarded = || WriteOptions {
        guards: vec![key("ended")],
        ..WriteOptions::durable(Durability::Fsync)
    };
    let end = |_: Option<&Value>| Decision::<()>::Write(Some(value("ends")));
    a.update(&key("ending"), guarded(), end)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(b.read(&key("ended")).await.unwrap(), None);
    let again = b.update(&key("ending"), guarded(), end).await;
    assert!(matches!(again, Err(Error::Guarded)), "{again:?}");
    assert_eq!(key("ended").partition, PartitionId(0));
}

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

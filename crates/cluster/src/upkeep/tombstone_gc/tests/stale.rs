//! Stores that were rolled back and renamed.

use futures_util::FutureExt;
use tokio::task::unconstrained;

use super::*;
use crate::node::history::Contradiction;

/// Returns the next epoch, in which the last node has a store of this name.
fn with_last_store(epoch: &Epoch, name: Id) -> Epoch {
    let mut layout = epoch.newest().clone();
    layout.version += 1;
    let last = layout.roles.last_mut().unwrap();
    last.store.store = name;
    let retired = epoch.with_next(layout).without_oldest();
    retired.expect("two versions")
}

/// A renamed store keeps its data until a layout names it, which wipes it. The data that it holds
/// later is purged once another layout drops it.
#[tokio::test(start_paused = true)]
async fn a_renamed_store_that_a_layout_has_named_and_dropped_is_purged() {
    let latency = Duration::from_millis(20);
    let world = World::new(4, 3, latency, 20, Hooks::NONE).await.unwrap();
    let node = &world.nodes[3];
    let old = live(stamp(node.now_ms() - HOUR_MS));
    let first = node.epoch().unwrap();
    let told = (world.ids[0], Contradiction::Older);
    let names = (node.random_id(), node.random_id());
    let renamed = node.epochs.history.rename(node.store(), names, told);
    renamed.await.unwrap();
    plant_row(node, old.clone()).await;
    let purged = node.upkeep().purge_stale(first.number()).await;
    assert!(purged.is_err() && row_at(node).await.is_some());

    let named = with_last_store(&first, node.me().store);
    node.learn(named.clone()).await.unwrap();
    assert_eq!(row_at(node).await, None, "it is wiped");
    let kept = node.store().read(|rows| rows.meta("named")).await.unwrap();
    assert_eq!(kept.as_deref(), Some(&node.me().store.0[..]));

    let dropped = with_last_store(&named, node.random_id());
    node.learn(dropped.clone()).await.unwrap();
    plant_row(node, old).await;
    node.upkeep().purge_stale(dropped.number()).await.unwrap();
    assert_eq!(row_at(node).await, None);
}

/// A rollback of the store is detected, and the store gets another name, between two steps of its purge. No
/// layout gives partitions to that name, so all of them would be stale.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_renamed_during_its_purge_keeps_its_rows() {
    let latency = Duration::from_millis(20);
    let world = World::new(4, 3, latency, 21, Hooks::NONE).await.unwrap();
    let node = &world.nodes[3];
    let epoch = node.epoch().unwrap();
    // The layout gives the first partition to others, and the second one to this store.
    let rows = [0, 1].map(|partition| RowKey {
        partition: PartitionId(partition),
        ..key("k")
    });
    assert!(!node.upkeep().is_here(&epoch, rows[0].partition));
    assert!(node.upkeep().is_here(&epoch, rows[1].partition));
    let at = stamp(node.now_ms() - HOUR_MS);
    plant(node, rows.iter().map(|row| (row.clone(), at)).collect()).await;
    let (store, epochs) = (node.store().clone(), node.epochs.clone());
    let names = (node.random_id(), node.random_id());
    let told = (world.ids[0], Contradiction::Older);
    *node.epochs.history.meanwhile.lock() = Some(Box::new(move || {
        let renaming = epochs.history.rename(&store, names, told);
        // A store without threads of its own never waits.
        unconstrained(renaming).now_or_never().unwrap().unwrap();
    }));
    let purged = node.upkeep().purge_stale(epoch.number()).await;
    assert!(purged.is_err() && node.me().store == names.0);
    for row in rows {
        let found = node.store().read(move |rows| rows.row(&row)).await;
        assert!(found.unwrap().is_some());
    }
}

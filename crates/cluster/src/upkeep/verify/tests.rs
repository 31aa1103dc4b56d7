use std::time::Duration;

use archipel_base::Stamp;
use archipel_storage::engine::Durability;
use archipel_storage::{Row, RowKey, RowTxn, Value};
use bytes::Bytes;

use super::local::verify_here;
use super::*;
use crate::cluster::Cluster;
use crate::memory::World;
use crate::node::options::Hooks;

/// Puts a row into one store, whatever the layout says.
async fn plant(node: &Cluster, key: &RowKey, stamp: Stamp) {
    let key = key.clone();
    let set = move |txn: &mut RowTxn<'_>| {
        let row = Row {
            promised: stamp,
            stamp,
            value: Some(Value::default()),
            ..Row::default()
        };
        txn.set(&key, &row)
    };
    node.store().transact(Durability::Fsync, set).await.unwrap();
}

/// A store purges what a layout change left behind. Rows that come back against the layout are
/// reported.
#[tokio::test(start_paused = true)]
async fn verification_reports_rows_of_stale_partitions() {
    let latency = Duration::from_millis(5);
    let world = World::new(4, 3, latency, 1, Hooks::NONE).await.unwrap();
    let node = &world.nodes[0];
    let epoch = node.epoch().unwrap();
    let elsewhere = all_partitions().find(|partition| {
        let mut replicas = epoch.replicas(*partition).into_iter().flatten();
        replicas.all(|replica| replica.node != node.me())
    });
    let key = RowKey {
        partition: elsewhere.unwrap(),
        key: Bytes::from_static(b"left behind"),
    };
    let stamp = node.next_stamp(Stamp::ZERO);
    plant(node, &key, stamp).await;
    let found = verify_here(node.upkeep(), false).await;
    assert_eq!((found.problems, found.unchecked.len()), (0, 0), "{found:?}");
    assert_eq!(found.rows, 0);
    let (store, gone) = (node.store(), key.clone());
    let row = store.read(move |rows| rows.row(&gone)).await;
    assert_eq!(row.unwrap(), None);
    plant(node, &key, stamp).await;
    let found = verify_here(node.upkeep(), false).await;
    assert_eq!(found.problems, 1, "{found:?}");
    assert!(found.told[0].contains("is stale"), "{found:?}");
}

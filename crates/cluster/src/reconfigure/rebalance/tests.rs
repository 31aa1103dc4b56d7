//! The memory of a layout change.

use archipel_storage::Value;
use archipel_storage::engine::Durability;

use super::*;
use crate::cluster::Cluster;
use crate::data::options::WriteOptions;
use crate::layout::Role;
use crate::memory::World;
use crate::node::options::Hooks;
use crate::reconfigure::change::LayoutChange;

const LATENCY: Duration = Duration::from_millis(1);
const ROWS: usize = 2500;

fn key(n: usize) -> RowKey {
    RowKey {
        partition: PartitionId(7),
        key: Bytes::from(format!("row {n:05}")),
    }
}

fn assign(node: &Cluster) -> LayoutChange {
    LayoutChange::Assign(Role {
        store: node.me(),
        zone: "zone".into(),
        capacity_bytes: 1 << 40,
    })
}

/// A partition may have any number of rows.
#[tokio::test(start_paused = true)]
async fn a_rebalance_holds_no_more_keys_than_a_page_of_each_replica() {
    let world = World::unfounded(2, LATENCY, 1, Hooks::NONE).await.unwrap();
    let [old, new] = &world.nodes[..] else {
        panic!("two nodes")
    };
    for node in [old, new] {
        let node = node.clone();
        tokio::spawn(async move { node.layouts().run_rebalance().await });
    }
    old.found("zone", 1 << 40).await.unwrap();
    for n in 0..ROWS {
        let how = WriteOptions::durable(Durability::Buffered);
        let key = key(n);
        let written = old.write(&key, Some(Value::default()), how);
        written.await.unwrap();
    }
    let changes = vec![assign(new), LayoutChange::Remove(old.me().node)];
    let staged = old.layouts().stage(changes).await.unwrap();
    let applied = old.layouts().apply(staged.version, Some(staged.revision));
    applied.await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    while new.epoch().is_none_or(|epoch| epoch.is_changing()) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for n in 0..ROWS {
        assert!(new.read(&key(n)).await.unwrap().is_some(), "{n}");
    }
    let moved: Vec<_> = [old, new]
        .map(|node| node.layouts().rebalance.look())
        .into();
    let most = moved.iter().map(|work| work.most_held).max().unwrap();
    let page = old.options.sizes.listed_keys;
    assert!((1..=page).contains(&most), "{most} keys at once");
    let rows: u64 = moved.iter().map(|work| work.rows).sum();
    assert!(rows >= ROWS as u64, "{rows}");
}

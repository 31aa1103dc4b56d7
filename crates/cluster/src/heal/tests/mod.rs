//! Nodes that bring one another up to date, on a simulated network.

use std::time::Duration;

use archipel_base::{Id, PartitionId, Stamp, Writer};
use archipel_storage::engine::Durability;
use archipel_storage::rows::Window;
use archipel_storage::{Body, Row, RowKey, RowTxn, Value};
use bytes::Bytes;

use super::HealOptions;
use crate::cluster::{Cluster, Hooks};
use crate::memory::World;
use crate::rows::How;

mod cost;
mod floors;
mod rows;
mod schedule;

fn key(name: impl AsRef<str>) -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::copy_from_slice(name.as_ref().as_bytes()),
    }
}

fn value(head: &str) -> Value {
    Value {
        head: Bytes::copy_from_slice(head.as_bytes()),
        ..Value::default()
    }
}

fn durable() -> How<'static> {
    How::durable(Durability::Fsync)
}

/// Three nodes that all hold all.
async fn three(seed: u64) -> World {
    let latency = Duration::from_millis(20);
    World::new(3, 3, latency, seed, Hooks::NONE).await.unwrap()
}

/// Has all nodes heal from now on.
fn heal_all(world: &World) {
    for node in world.nodes.clone() {
        tokio::spawn(async move { node.heal_forever(HealOptions::default()).await });
    }
}

/// Writes an object of one block.
async fn put(node: &Cluster, name: &str, content: Bytes) {
    let upload = node.upload(PartitionId(0)).unwrap();
    let block = upload.append(content).await.unwrap();
    let row = Value {
        body: Body::Blocks(vec![block]),
        ..value(name)
    };
    let how = How {
        upload: Some(&upload),
        ..durable()
    };
    node.write(&key(name), Some(row), how).await.unwrap();
}

/// What a node's rows of the partition amount to.
async fn print(node: &Cluster) -> Window {
    let look =
        |rows: &archipel_storage::RowReader<'_>| super::prints::of_partition(rows, PartitionId(0));
    node.store().read(look).await.unwrap()
}

/// Puts a row into a store, behind the protocol's back.
async fn plant(node: &Cluster, rows: Vec<(RowKey, Stamp)>) {
    for some in rows.chunks(500) {
        let some = some.to_vec();
        let set = move |txn: &mut RowTxn<'_>| {
            some.iter().try_for_each(|(key, stamp)| {
                let row = Row {
                    promised: *stamp,
                    stamp: *stamp,
                    write: Id::default(),
                    value: Some(value("planted")),
                };
                txn.set(key, &row)
            })
        };
        node.store().transact(Durability::Fsync, set).await.unwrap();
    }
}

fn stamp(millis: u64) -> Stamp {
    Stamp::new(millis, 0, Writer(7))
}

//! Nodes in memory and rows, for the tests of upkeep.

use std::time::Duration;

use archipel_base::{Id, PartitionId, Stamp, Writer};
use archipel_storage::engine::Durability;
use archipel_storage::rows::Window;
use archipel_storage::{Payload, Row, RowKey, RowTxn, Value};
use bytes::Bytes;

use super::anti_entropy::AntiEntropyOptions;
use crate::cluster::Cluster;
use crate::data::options::WriteOptions;
use crate::memory::World;
use crate::node::options::Hooks;

pub(super) fn key(name: impl AsRef<str>) -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::copy_from_slice(name.as_ref().as_bytes()),
    }
}

pub(super) fn value(metadata: &str) -> Value {
    Value {
        metadata: Bytes::copy_from_slice(metadata.as_bytes()),
        ..Value::default()
    }
}

pub(super) fn durable() -> WriteOptions<'static> {
    WriteOptions::durable(Durability::Fsync)
}

/// Creates three nodes that all hold all partitions.
pub(super) async fn three(seed: u64) -> World {
    let latency = Duration::from_millis(20);
    World::new(3, 3, latency, seed, Hooks::NONE).await.unwrap()
}

/// Starts anti-entropy on all nodes.
pub(super) fn run_anti_entropy_everywhere(world: &World) {
    for node in world.nodes.clone() {
        tokio::spawn(async move {
            node.upkeep()
                .run_anti_entropy(AntiEntropyOptions::default())
                .await
        });
    }
}

/// Writes an object of one block.
pub(super) async fn put(node: &Cluster, name: &str, content: Bytes) {
    let upload = node.block_writer(PartitionId(0)).unwrap();
    let block = upload.append(content).await.unwrap();
    let row = Value {
        payload: Payload::Blocks(vec![block]),
        ..value(name)
    };
    let how = WriteOptions {
        upload: Some(&upload),
        ..durable()
    };
    node.write(&key(name), Some(row), how).await.unwrap();
}

/// Returns a node's digest of the partition.
pub(super) async fn digest(node: &Cluster) -> Window {
    let look = |rows: &archipel_storage::RowReader<'_>| {
        super::anti_entropy::digests::of_partition(rows, PartitionId(0))
    };
    node.store().read(look).await.unwrap()
}

/// Puts rows into a store directly, without the protocol.
pub(super) async fn plant(node: &Cluster, rows: Vec<(RowKey, Stamp)>) {
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

pub(super) fn stamp(millis: u64) -> Stamp {
    Stamp::new(millis, 0, Writer(7))
}

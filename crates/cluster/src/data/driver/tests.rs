//! Operations that do without a replica, because the others cannot store what it holds.

use std::time::Duration;

use archipel_base::{Id, PartitionId, Stamp, Writer};
use archipel_storage::engine::Durability;
use archipel_storage::{Row, RowKey, RowTxn, Value};
use bytes::Bytes;

use crate::data::options::WriteOptions;
use crate::memory::World;
use crate::node::options::Hooks;

fn value(metadata: &'static str) -> Value {
    Value {
        metadata: Bytes::from_static(metadata.as_bytes()),
        ..Value::default()
    }
}

/// The two other replicas are needed once the read does without the first one. A connection that closes at any
/// moment fails no read: the replica behind it is asked again.
#[tokio::test(start_paused = true)]
async fn a_read_that_does_without_a_replica_survives_a_connection_that_closes() {
    let latency = Duration::from_millis(20);
    let world = World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap();
    let [other, reader] = [&world.nodes[1], &world.nodes[2]];
    let key = RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"key"),
    };
    let how = WriteOptions::durable(Durability::Fsync);
    let written = reader.write(&key, Some(value("old")), how);
    written.await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The others refuse it, because its stamp is too far ahead of their clocks.
    let later = Stamp::new(reader.now_ms() + 600_000, 0, Writer(7));
    let ahead = Row {
        promised: later,
        stamp: later,
        write: Id::default(),
        value: Some(value("ahead")),
    };
    let row = key.clone();
    let set = move |txn: &mut RowTxn<'_>| txn.set(&row, &ahead);
    let planted = reader.store().transact(Durability::Fsync, set);
    planted.await.unwrap();

    let breaks = |streams| {
        let (from, to) = (reader.me().node, other.me().node);
        world.network.break_next(from, to, streams);
    };
    // The reader asks all, then offers what it holds itself, then asks the others: this takes three round trips.
    for millis in (0..130).step_by(5) {
        let (node, wanted) = (reader.clone(), key.clone());
        let reading = tokio::spawn(async move { node.read(&wanted).await });
        tokio::time::sleep(Duration::from_millis(millis)).await;
        breaks(1);
        let read = reading.await.unwrap();
        let read = read.unwrap_or_else(|error| panic!("after {millis} ms: {error}"));
        assert_eq!(read, Some(value("old")), "after {millis} ms");
        breaks(0);
    }
}

use archipel_base::PartitionId;
use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;
use archipel_storage::Threads;
use archipel_storage::disk::MemoryDisk;
use archipel_storage::store::StoreOptions;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archipel_base::stamp::StampClock;
use archipel_base::{NodeId, Stamp};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Store, Value};
use bytes::Bytes;

use super::*;
use crate::data::decision::Decision;
use crate::data::options::WriteOptions;
use crate::layout::LEVEL;
use crate::memory::{World, memory_options};
use crate::memory_store;
use crate::node::options::Hooks;

const NOW: u64 = 1_700_000_000_000;

/// Starts a node.
async fn started(store: &Store, millis: u64) -> Result<Cluster, Error> {
    let cluster = Cluster::open(ClusterOptions {
        store: store.clone(),
        node: NodeId::default(),
        level: LEVEL,
        stamps: StampClock::new(store.writer()),
        wall: Arc::new(ManualClock::at(millis)),
        random: Arc::new(SeededRandom::new(1)),
        durability: Durability::Fsync,
        sizes: crate::Sizes::USUAL,
        times: crate::Times::USUAL,
        hooks: Hooks::NONE,
        network: None,
    });
    cluster.await
}

/// Writes a new row through a node that starts at `millis`. Returns the highest stamp that the
/// store holds afterwards.
async fn written_at(store: &Store, millis: u64, name: &'static str) -> Stamp {
    let cluster = started(store, millis).await.unwrap();
    cluster.found("here", 1 << 40).await.unwrap();
    let key = RowKey {
        partition: PartitionId(millis as u16 % 1000),
        key: Bytes::from_static(name.as_bytes()),
    };
    let how = WriteOptions::durable(Durability::Fsync);
    cluster
        .write(&key, Some(Value::default()), how)
        .await
        .unwrap();
    store.highest_stamp().await.unwrap().unwrap()
}

/// After the time was set back, a node issues stamps above all stored ones at its start, unless
/// they would be refused as too far in the future.
#[tokio::test]
async fn a_clock_that_was_set_back_continues_from_the_stored_stamps() {
    let store = memory_store(Arc::new(SeededRandom::new(1)), Threads::Inline).unwrap();
    assert_eq!(store.highest_stamp().await.unwrap(), None);
    let first = written_at(&store, NOW, "a").await;
    assert_eq!(first.millis(), NOW);
    let second = written_at(&store, NOW - 30_001, "b").await;
    assert!(second > first && second.millis() == NOW, "{first} {second}");
    let third = written_at(&store, NOW - 3_600_002, "c").await;
    assert_eq!(third, second);
}

/// Found by a run of losses (8005): the node recorded its start, and the write was refused for lack
/// of space.
#[tokio::test]
async fn a_node_whose_metadata_disk_is_full_starts_and_deletes() {
    let free = Arc::new(AtomicU64::new(u64::MAX));
    let left = free.clone();
    let random = Arc::new(SeededRandom::new(1));
    let disk = Arc::new(MemoryDisk::new());
    let options = StoreOptions {
        metadata_space: Some(Arc::new(move || Ok(left.load(Ordering::SeqCst)))),
        ..memory_options(disk, random, Threads::Inline).unwrap()
    };
    let store = Store::open(options).unwrap();
    let cluster = started(&store, NOW).await.unwrap();
    cluster.found("here", 1 << 40).await.unwrap();
    let key = RowKey {
        partition: PartitionId(1),
        key: Bytes::from_static(b"a"),
    };
    let how = WriteOptions::durable(Durability::Fsync);
    let write = cluster.write(&key, Some(Value::default()), how.clone());
    write.await.unwrap();
    drop(cluster);
    free.store(0, Ordering::SeqCst);
    let cluster = started(&store, NOW + 1).await.unwrap();
    let refused = cluster.write(&key, Some(Value::default()), how.clone());
    let refused = refused.await.unwrap_err();
    assert!(
        matches!(refused, Error::Storage(archipel_storage::Error::Full(_))),
        "{refused}"
    );
    cluster.write(&key, None, how).await.unwrap();
}

/// A node whose clock was hours ahead has stored a write that no other node accepts. The two others
/// agree, so reads of the row go on, with and without its content.
#[tokio::test(start_paused = true)]
async fn reads_go_on_while_one_replica_holds_a_version_from_the_future() {
    const HOURS: Duration = Duration::from_secs(10 * 3600);
    let latency = Duration::from_millis(5);
    let world = World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap();
    let key = RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"row"),
    };
    let value = |metadata: &'static [u8]| Value {
        metadata: Bytes::from_static(metadata),
        ..Value::default()
    };
    let write = async |node: &Cluster, metadata| {
        let how = WriteOptions::durable(Durability::Fsync);
        node.write(&key, Some(value(metadata)), how).await
    };
    write(&world.nodes[1], b"agreed").await.unwrap();
    world.set_clock_ahead(0, HOURS);
    write(&world.nodes[0], b"ahead").await.unwrap_err();
    world.set_clock_ahead(0, Duration::ZERO);
    for node in &world.nodes {
        let read = node.read(&key).await.unwrap();
        assert_eq!(read, Some(value(b"agreed")));
        let read = node.metadata(&key).await.unwrap();
        assert_eq!(read.as_deref(), Some(&b"agreed"[..]));
    }
    write(&world.nodes[2], b"newer").await.unwrap();
    for node in &world.nodes {
        let read = node.read(&key).await.unwrap();
        assert_eq!(read, Some(value(b"newer")));
    }
    // Its clock is right, so the node writes again.
    write(&world.nodes[0], b"newest").await.unwrap();
    let conditional = world.nodes[0].update(
        &key,
        WriteOptions::durable(Durability::Fsync),
        |current: Option<&Value>| {
            assert_eq!(current, Some(&value(b"newest")));
            Decision::<()>::Write(Some(value(b"last")))
        },
    );
    conditional.await.unwrap().unwrap();
    let read = world.nodes[1].read(&key).await.unwrap();
    assert_eq!(read, Some(value(b"last")));
}

use archipel_base::PartitionId;
use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;
use archipel_storage::Threads;

use archipel_base::Stamp;

use super::*;
use crate::memory_store;
use crate::rows::How;

const HOOKS: Hooks = Hooks {
    on_replace: |_, _, _| None,
    ends: |_, _| None,
    holds: |_, _| true,
};
const NOW: u64 = 1_700_000_000_000;

/// Writes a row that nothing was known of, through a node that starts at `millis`; gives the highest stamp
/// that the store holds then.
async fn written_at(store: &Store, millis: u64, name: &'static str) -> Stamp {
    let cluster = Cluster::open(ClusterOptions {
        store: store.clone(),
        node: NodeId::default(),
        stamps: StampClock::new(store.writer()),
        wall: Arc::new(ManualClock::at(millis)),
        random: Arc::new(SeededRandom::new(1)),
        durability: Durability::Fsync,
        hooks: HOOKS,
        network: None,
    });
    let cluster = cluster.await.unwrap();
    cluster.found("here", 1 << 40).await.unwrap();
    let key = RowKey {
        partition: PartitionId(millis as u16 % 1000),
        key: Bytes::from_static(name.as_bytes()),
    };
    let how = How::durable(Durability::Fsync);
    cluster
        .write(&key, Some(Value::default()), how)
        .await
        .unwrap();
    store.highest_stamp().await.unwrap().unwrap()
}

/// After the time was set back, a start issues stamps above all that are stored; but not if they
/// would be refused as coming from the future.
#[tokio::test]
async fn a_clock_that_was_set_back_goes_on_from_what_is_stored() {
    let store = memory_store(Arc::new(SeededRandom::new(1)), Threads::Inline).unwrap();
    assert_eq!(store.highest_stamp().await.unwrap(), None);
    let first = written_at(&store, NOW, "a").await;
    assert_eq!(first.millis(), NOW);
    let second = written_at(&store, NOW - 30_001, "b").await;
    assert!(second > first && second.millis() == NOW, "{first} {second}");
    let third = written_at(&store, NOW - 3_600_002, "c").await;
    assert_eq!(third, second);
}

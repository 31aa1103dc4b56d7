use archipel_storage::engine::Durability;
use archipel_storage::{ListQuery, RowKey, Value};
use bytes::Bytes;
use tokio::time::Instant;

use super::*;
use crate::data::options::WriteOptions;
use crate::memory::World;
use crate::node::options::Hooks;

const LATENCY: Duration = Duration::from_millis(1);

fn key() -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"row"),
    }
}

/// Creates three nodes with this one-way latency, and a row. Each node has called the others
/// before.
async fn world(latency: Duration) -> World {
    let world = World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap();
    for node in &world.nodes {
        let how = WriteOptions::durable(Durability::Fsync);
        let row = key();
        let written = node.write(&row, Some(Value::default()), how);
        written.await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    world
}

/// Reads and lists through the first node. Returns how long each took.
async fn read_and_list(world: &World) -> (Duration, Duration) {
    let (node, begun) = (&world.nodes[0], Instant::now());
    let metadata = node.metadata(&key()).await.unwrap();
    assert!(metadata.is_some());
    let (read, begun) = (begun.elapsed(), Instant::now());
    let query = ListQuery::new(PartitionId(0), Bytes::from_static(b"row"));
    assert_eq!(node.list(query).await.unwrap().entries.len(), 1);
    (read, begun.elapsed())
}

/// Returns how many nodes the first node sent something to.
async fn asked(world: &World) -> usize {
    let before = world.network.frames();
    read_and_list(world).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = world.network.frames();
    let more = |to: &&NodeId| {
        let link = (world.ids[0], **to);
        after.get(&link) > before.get(&link)
    };
    world.ids[1..].iter().filter(more).count()
}

#[tokio::test(start_paused = true)]
async fn read_and_listing_send_nothing_to_a_third_near_replica() {
    assert_eq!(asked(&world(LATENCY).await).await, 1);
    assert_eq!(asked(&world(Duration::from_millis(10)).await).await, 2);
}

#[tokio::test(start_paused = true)]
async fn deferred_request_is_sent_when_a_nearer_replica_is_silent() {
    let world = world(LATENCY).await;
    let group = world.nodes[0].group(PartitionId(0)).unwrap();
    let nearest = group.members[1].node.node;
    world.network.cut(world.ids[0], nearest);
    let (read, listed) = read_and_list(&world).await;
    for took in [read, listed] {
        let late = took.saturating_sub(DEFER);
        assert!(took >= DEFER && late <= 6 * LATENCY, "{took:?}");
    }
}

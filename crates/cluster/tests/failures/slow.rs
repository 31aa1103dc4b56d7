//! Content from replicas that are slow.

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_cluster::{BlockStream, BlockWriter, WriteOptions};
use archipel_net::simulated::Link;
use archipel_storage::{Payload, Value};
use bytes::Bytes;
use tokio::time::Instant;

use crate::durable;
use crate::support::{World, key, value};

/// Opens four nodes with three copies. The last node holds no replica of the first partition, and
/// has measured the distance to the others.
async fn reader(seed: u64) -> (World, Value, Bytes) {
    let world = World::with_replicas(4, 3, seed).await;
    let content = Bytes::from(vec![7; 300_000]);
    let writer: BlockWriter = world.nodes[0]
        .block_writer(PartitionId(0))
        .expect("a block writer");
    let block = writer
        .append(content.clone())
        .await
        .expect("the block is accepted");
    let row = Value {
        payload: Payload::Blocks(vec![block]),
        ..value("big")
    };
    let options = WriteOptions {
        upload: Some(&writer),
        ..durable()
    };
    let name = key("big");
    let written = world.nodes[0].write(&name, Some(row.clone()), options);
    written.await.expect("the row is written");
    drop(writer);
    world.settle().await;
    let read = world.nodes[3].read(&key("big")).await;
    assert!(read.expect("the row is read").is_some());
    (world, row, content)
}

fn blocks(world: &World, row: &Value) -> BlockStream {
    world.nodes[3].read_blocks(PartitionId(0), row.payload.blocks().to_vec())
}

/// Returns how many frames each of the other nodes has sent to the last one.
fn sent(world: &World) -> [u64; 3] {
    let frames = world.network.frames();
    let from = |n: usize| frames.get(&(world.ids[n], world.ids[3])).copied();
    [0, 1, 2].map(|n| from(n).unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn read_fails_over_from_a_slow_replica_to_exactly_one_other() {
    let (world, row, content) = reader(41).await;
    let before = sent(&world);
    let mut stream = blocks(&world, &row);
    assert_eq!(
        stream.next().await.expect("a block").expect("whole"),
        content
    );
    let first = sent(&world)
        .iter()
        .zip(before)
        .position(|(now, then)| *now > then);
    let nearest = first.expect("one replica sent it");
    let slow = Link {
        latency: Duration::from_secs(5),
        ..Link::default()
    };
    world
        .network
        .set_link(world.ids[nearest], world.ids[3], slow);
    let (before, begun) = (sent(&world), Instant::now());
    let mut stream = blocks(&world, &row);
    assert_eq!(
        stream.next().await.expect("a block").expect("whole"),
        content
    );
    // In virtual time: three times the measured distance, the missing sign of life, and one round
    // trip.
    let took = begun.elapsed();
    assert!(took <= Duration::from_millis(700), "{took:?}");
    let after = sent(&world);
    let asked = (0..3).filter(|n| *n != nearest && after[*n] > before[*n]);
    assert_eq!(asked.count(), 1, "{before:?} {after:?}");
}

#[tokio::test(start_paused = true)]
async fn read_waits_if_all_replicas_are_slow() {
    let (world, row, content) = reader(42).await;
    let slow = Link {
        latency: Duration::from_secs(4),
        ..Link::default()
    };
    for n in 0..3 {
        world.network.set_link(world.ids[n], world.ids[3], slow);
    }
    let mut stream = blocks(&world, &row);
    assert_eq!(
        stream.next().await.expect("a block").expect("whole"),
        content
    );
}

//! Content from replicas that are slow.

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_cluster::{BlockStream, How, Upload};
use archipel_net::simulated::Link;
use archipel_storage::{Body, Value};
use bytes::Bytes;
use tokio::time::Instant;

use crate::durable;
use crate::support::{World, key, value};

/// Four nodes, three copies: the last has none of the first partition, and knows how far the others are.
async fn reader(seed: u64) -> (World, Value, Bytes) {
    let world = World::with_replicas(4, 3, seed).await;
    let content = Bytes::from(vec![7; 300_000]);
    let upload: Upload = world.nodes[0].upload(PartitionId(0)).expect("an upload");
    let block = upload.append(content.clone()).await.expect("it is taken");
    let row = Value {
        body: Body::Blocks(vec![block]),
        ..value("big")
    };
    let how = How {
        upload: Some(&upload),
        ..durable()
    };
    let name = key("big");
    let written = world.nodes[0].write(&name, Some(row.clone()), how);
    written.await.expect("it is written");
    drop(upload);
    world.settle().await;
    let read = world.nodes[3].read(&key("big")).await;
    assert!(read.expect("it is read").is_some());
    (world, row, content)
}

fn blocks(world: &World, row: &Value) -> BlockStream {
    world.nodes[3].read_blocks(PartitionId(0), row.body.blocks().to_vec())
}

/// How many frames each of the other nodes has sent to the last one.
fn sent(world: &World) -> [u64; 3] {
    let frames = world.network.frames();
    let from = |n: usize| frames.get(&(world.ids[n], world.ids[3])).copied();
    [0, 1, 2].map(|n| from(n).unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn who_is_slower_than_usual_is_left_for_the_next_and_nobody_else_is_asked() {
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
    let nearest = first.expect("somebody sent it");
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
    // In virtual time: three distances, the sign of life that does not come, and one round trip.
    let took = begun.elapsed();
    assert!(took <= Duration::from_millis(700), "{took:?}");
    let after = sent(&world);
    let asked = (0..3).filter(|n| *n != nearest && after[*n] > before[*n]);
    assert_eq!(asked.count(), 1, "{before:?} {after:?}");
}

#[tokio::test(start_paused = true)]
async fn if_all_are_slow_they_have_time() {
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

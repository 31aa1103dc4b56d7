//! Damaged blocks: never served, and replaced by a good copy of another node.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_cluster::{Cluster, How, Mended};
use archipel_storage::engine::Durability;
use archipel_storage::{BlockRef, Body, Value};
use bytes::Bytes;

use crate::support::{World, key, value};

/// The length of a record's header, behind which its content lies.
const HEADER_BYTES: u64 = 64;
const BLOCK_BYTES: usize = 1 << 20;

fn contents() -> Vec<Bytes> {
    let block = |n: u8| Bytes::from(vec![n; BLOCK_BYTES]);
    (1..=4).map(block).collect()
}

/// Four blocks in a row of its own, on all nodes.
async fn put(world: &World) -> Vec<BlockRef> {
    let node = &world.nodes[0];
    let upload = node.upload(PartitionId(0)).unwrap();
    let mut blocks = Vec::new();
    for content in contents() {
        blocks.push(upload.append(content).await.unwrap());
    }
    let row = Value {
        body: Body::Blocks(blocks.clone()),
        ..value("big")
    };
    let how = How {
        upload: Some(&upload),
        ..How::durable(Durability::Fsync)
    };
    node.write(&key("big"), Some(row), how).await.unwrap();
    drop(upload);
    world.settle().await;
    blocks
}

/// Damages blocks of a node, by their order.
fn rot(world: &World, node: usize, blocks: &[u64]) {
    for block in blocks {
        let offset = block * (BLOCK_BYTES as u64 + HEADER_BYTES) + HEADER_BYTES + 1000;
        world.disks[node].flip(1, offset, 0x10);
    }
}

async fn read(node: &Cluster, blocks: &[BlockRef]) {
    let mut stream = node.read_blocks(PartitionId(0), blocks.to_vec());
    for content in contents() {
        assert_eq!(stream.next().await.unwrap().unwrap(), content);
    }
    assert!(stream.next().await.is_none());
}

async fn local(node: &Cluster, block: &BlockRef) -> bool {
    node.store().read_block(block).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_block_that_is_damaged_in_the_middle_is_read_elsewhere_and_mended() {
    let world = World::new(3, 1).await;
    let blocks = put(&world).await;
    rot(&world, 0, &[1]);
    let node = &world.nodes[0];
    assert!(!local(node, &blocks[1]).await, "the test damages nothing");
    read(node, &blocks).await;
    assert_eq!(node.mending().waiting, 1);
    let mended = node.mend_round().await.unwrap();
    assert_eq!(mended.mended, 1);
    assert!(local(node, &blocks[1]).await);
    assert_eq!(node.mending().waiting, 0);
    assert!(node.store().verify().await.unwrap().is_clean());
}

/// The first node's copy is damaged, and so is that of the second, which is asked first.
#[tokio::test(start_paused = true)]
async fn damage_on_two_nodes_at_once_is_mended_on_both() {
    let world = World::new(3, 2).await;
    let blocks = put(&world).await;
    rot(&world, 0, &[0, 2]);
    rot(&world, 1, &[2, 3]);
    for node in &world.nodes[..2] {
        let (node, blocks) = (node.clone(), blocks.clone());
        tokio::spawn(async move { node.mend_forever().await });
        read(&world.nodes[0], &blocks).await;
    }
    read(&world.nodes[1], &blocks).await;
    world.settle().await;
    for node in &world.nodes {
        for block in &blocks {
            assert!(local(node, block).await);
        }
        assert!(node.store().verify().await.unwrap().is_clean());
    }
}

/// All copies are damaged: nothing wrong is ever told, and what can be is mended once a good copy is back.
#[tokio::test(start_paused = true)]
async fn what_nobody_has_waits_and_is_told() {
    let world = World::new(3, 3).await;
    let blocks = put(&world).await;
    (0..3).for_each(|node| rot(&world, node, &[1]));
    let node = &world.nodes[0];
    let mut stream = node.read_blocks(PartitionId(0), blocks.clone());
    assert!(stream.next().await.unwrap().is_ok());
    assert!(stream.next().await.unwrap().is_err());
    assert_eq!(node.mend_round().await.unwrap().failed, 1);
    let mending = node.mending();
    assert_eq!((mending.waiting, mending.stuck), (1, 1));
    assert_eq!(mending.troubles[0].hash, blocks[1].hash);
    assert_eq!(mending.troubles[0].rows, [key("big")]);
    // Not again at once; but when it is time, and somebody has it.
    assert_eq!(node.mend_round().await.unwrap(), Mended::default());
    rot(&world, 2, &[1]);
    node.hurry_mending();
    assert_eq!(node.mend_round().await.unwrap().mended, 1);
    assert!(local(node, &blocks[1]).await);
}

/// A block that went with its row is nobody's any more.
#[tokio::test(start_paused = true)]
async fn what_nobody_refers_to_is_not_mended() {
    let world = World::new(3, 4).await;
    let blocks = put(&world).await;
    rot(&world, 0, &[1]);
    let node = &world.nodes[0];
    assert!(!local(node, &blocks[1]).await);
    let mut stream = node.read_blocks(PartitionId(0), blocks);
    while stream.next().await.is_some() {}
    let deleted = How::durable(Durability::Fsync);
    node.write(&key("big"), None, deleted).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(node.mend_round().await.unwrap().settled, 1);
    assert_eq!(node.mending().waiting, 0);
}

/// What no reader would have noticed is found by a scrub, which goes on where it was after a restart, and mended.
#[tokio::test(start_paused = true)]
async fn a_scrub_finds_what_nobody_reads() {
    let world = World::new(3, 5).await;
    put(&world).await;
    rot(&world, 1, &[0, 3]);
    let node = world.nodes[1].clone();
    let tasks = [node.clone(), node.clone()];
    let [mending, scrubbing] = tasks;
    tokio::spawn(async move { mending.mend_forever().await });
    tokio::spawn(async move { scrubbing.scrub_forever(Duration::ZERO).await });
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(node.scrubbing().blocks, 0, "nobody asked for it");
    let kept = node.store().read(|rows| rows.meta("scrub")).await.unwrap();
    assert!(
        kept.is_some(),
        "the next start does not know when this store was new"
    );
    node.scrub_start(Some(1 << 20)).await.unwrap();
    world.settle().await;
    let scrubbing = node.scrubbing();
    // Two of them twice: their good copies were written behind, where the scrub had not been yet.
    assert_eq!((scrubbing.blocks, scrubbing.damaged), (6, 2));
    assert!(!scrubbing.running);
    assert_eq!(node.mending().mended, 2);
    node.scrub_start(None).await.unwrap();
    world.settle().await;
    assert_eq!(node.scrubbing().damaged, 0);
    assert!(node.store().verify().await.unwrap().is_clean());
}

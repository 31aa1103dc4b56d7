//! Damaged blocks are never served, and a good copy of another node replaces them.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_cluster::{Cluster, RepairRound, WriteOptions};
use archipel_storage::engine::{Durability, Engine, Tree};
use archipel_storage::{BlockRef, Payload, Value};
use bytes::Bytes;

use crate::support::{World, key, value};

/// The length of a record's header. The block's content follows it.
const HEADER_BYTES: u64 = 64;
const BLOCK_BYTES: usize = 1 << 20;

fn contents() -> Vec<Bytes> {
    let block = |n: u8| Bytes::from(vec![n; BLOCK_BYTES]);
    (1..=4).map(block).collect()
}

/// Writes four blocks with a row of their own to all nodes.
async fn put(world: &World) -> Vec<BlockRef> {
    let node = &world.nodes[0];
    let writer = node.block_writer(PartitionId(0)).unwrap();
    let mut blocks = Vec::new();
    for content in contents() {
        blocks.push(writer.append(content).await.unwrap());
    }
    let row = Value {
        payload: Payload::Blocks(blocks.clone()),
        ..value("big")
    };
    let options = WriteOptions {
        upload: Some(&writer),
        ..WriteOptions::durable(Durability::Fsync)
    };
    node.write(&key("big"), Some(row), options).await.unwrap();
    drop(writer);
    world.settle().await;
    blocks
}

/// Damages blocks of a node, by their order.
fn damage(world: &World, node: usize, blocks: &[u64]) {
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
async fn a_damaged_block_is_read_from_another_node_and_repaired() {
    let world = World::new(3, 1).await;
    let blocks = put(&world).await;
    damage(&world, 0, &[1]);
    let node = &world.nodes[0];
    assert!(!local(node, &blocks[1]).await, "the test damages nothing");
    read(node, &blocks).await;
    assert_eq!(node.upkeep().repair_status().waiting, 1);
    let round = node.upkeep().repair_round().await.unwrap();
    assert_eq!(round.repaired, 1);
    assert!(local(node, &blocks[1]).await);
    assert_eq!(node.upkeep().repair_status().waiting, 0);
    assert!(node.store().verify().await.unwrap().is_clean());
}

/// The first node's copy is damaged. So is the copy of the second node, which is asked first.
#[tokio::test(start_paused = true)]
async fn damage_on_two_nodes_at_once_is_repaired_on_both() {
    let world = World::new(3, 2).await;
    let blocks = put(&world).await;
    damage(&world, 0, &[0, 2]);
    damage(&world, 1, &[2, 3]);
    for node in &world.nodes[..2] {
        let (node, blocks) = (node.clone(), blocks.clone());
        tokio::spawn(async move { node.upkeep().run_repair().await });
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

/// All copies are damaged. No read returns wrong bytes, and the block is repaired once a good copy
/// is back.
#[tokio::test(start_paused = true)]
async fn a_block_without_a_good_copy_waits_and_is_reported() {
    let world = World::new(3, 3).await;
    let blocks = put(&world).await;
    (0..3).for_each(|node| damage(&world, node, &[1]));
    let node = &world.nodes[0];
    let mut stream = node.read_blocks(PartitionId(0), blocks.clone());
    assert!(stream.next().await.unwrap().is_ok());
    assert!(stream.next().await.unwrap().is_err());
    assert_eq!(node.upkeep().repair_round().await.unwrap().failed, 1);
    let status = node.upkeep().repair_status();
    assert_eq!((status.waiting, status.stuck), (1, 1));
    assert_eq!(status.troubles[0].hash, blocks[1].hash);
    assert_eq!(status.troubles[0].rows, [key("big")]);
    // The repair is not tried again at once. It is tried when it is due and a node has the block.
    assert_eq!(
        node.upkeep().repair_round().await.unwrap(),
        RepairRound::default()
    );
    damage(&world, 2, &[1]);
    node.upkeep().retry_repairs();
    assert_eq!(node.upkeep().repair_round().await.unwrap().repaired, 1);
    assert!(local(node, &blocks[1]).await);
}

/// No row refers to a block whose row was deleted.
#[tokio::test(start_paused = true)]
async fn a_block_without_references_is_not_repaired() {
    let world = World::new(3, 4).await;
    let blocks = put(&world).await;
    damage(&world, 0, &[1]);
    let node = &world.nodes[0];
    assert!(!local(node, &blocks[1]).await);
    let mut stream = node.read_blocks(PartitionId(0), blocks);
    while stream.next().await.is_some() {}
    let deleted = WriteOptions::durable(Durability::Fsync);
    node.write(&key("big"), None, deleted).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(node.upkeep().repair_round().await.unwrap().settled, 1);
    assert_eq!(node.upkeep().repair_status().waiting, 0);
}

/// The block and the payload that mentions it are damaged, and no other node has them. The block is
/// neither forgotten nor looked for in all payloads at each round.
#[tokio::test(start_paused = true)]
async fn a_block_whose_row_cannot_be_read_waits_and_is_reported() {
    let world = World::new(1, 7).await;
    let blocks = put(&world).await;
    damage(&world, 0, &[1]);
    let place = [&[0, 0], &b"big"[..]].concat();
    let flip = || {
        let mut txn = world.engines[0].write().unwrap();
        let mut payload = txn
            .get(Tree::Payloads, &place)
            .unwrap()
            .unwrap()
            .into_owned();
        payload[30] ^= 1;
        txn.put(Tree::Payloads, &place, &payload).unwrap();
        txn.commit(Durability::Fsync).unwrap();
    };
    flip();
    let node = &world.nodes[0];
    assert!(!local(node, &blocks[1]).await);
    let round = node.upkeep().repair_round().await.unwrap();
    assert_eq!((round.failed, round.settled), (1, 0));
    let status = node.upkeep().repair_status();
    assert_eq!((status.waiting, status.stuck), (1, 1));
    assert!(
        status.troubles[0]
            .why
            .contains("the payload of its row is damaged")
    );
    let round = node.upkeep().repair_round().await.unwrap();
    assert_eq!(round, RepairRound::default());
    // The row is found again once its payload can be read.
    flip();
    node.upkeep().retry_repairs();
    node.upkeep().repair_round().await.unwrap();
    assert_eq!(node.upkeep().repair_status().troubles[0].rows, [key("big")]);
}

/// A scrub finds damage that no reader would have noticed. It continues after a restart, and the
/// damage is repaired.
#[tokio::test(start_paused = true)]
async fn a_scrub_finds_and_repairs_blocks_that_nobody_reads() {
    let world = World::new(3, 5).await;
    put(&world).await;
    damage(&world, 1, &[0, 3]);
    let node = world.nodes[1].clone();
    let (repairer, scrubber) = (node.clone(), node.clone());
    tokio::spawn(async move { repairer.upkeep().run_repair().await });
    tokio::spawn(async move { scrubber.upkeep().run_scrub(Duration::ZERO).await });
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(
        node.upkeep().scrub_status().blocks,
        0,
        "the scrub ran without a request"
    );
    let kept = node.store().read(|rows| rows.meta("scrub")).await.unwrap();
    assert!(
        kept.is_some(),
        "the store's creation time was not kept for the next start"
    );
    node.upkeep().scrub_start(Some(1 << 20)).await.unwrap();
    world.settle().await;
    let scrub_status = node.upkeep().scrub_status();
    // Two of them are scrubbed twice: their good copies were written to a place that the scrub had
    // not reached.
    assert_eq!((scrub_status.blocks, scrub_status.damaged), (6, 2));
    assert!(!scrub_status.running);
    assert_eq!(node.upkeep().repair_status().repaired, 2);
    node.upkeep().scrub_start(None).await.unwrap();
    world.settle().await;
    assert_eq!(node.upkeep().scrub_status().damaged, 0);
    assert!(node.store().verify().await.unwrap().is_clean());
}

/// More blocks are missing than the queue holds. One scrub finds and repairs all of them, and does
/// not end before.
#[tokio::test(start_paused = true)]
async fn one_scrub_repairs_more_blocks_than_the_queue_holds() {
    let world = World::new(3, 6).await;
    let blocks = put(&world).await;
    damage(&world, 0, &[0, 1, 2, 3]);
    let node = world.nodes[0].clone();
    node.upkeep().limit_repairs(1);
    let (repairer, scrubber) = (node.clone(), node.clone());
    tokio::spawn(async move { repairer.upkeep().run_repair().await });
    tokio::spawn(async move { scrubber.upkeep().run_scrub(Duration::ZERO).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    node.upkeep().scrub_start(Some(1 << 30)).await.unwrap();
    let is_busy = || {
        let waiting = node.upkeep().repair_status();
        node.upkeep().scrub_status().running || waiting.waiting > waiting.stuck
    };
    while is_busy() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for block in &blocks {
        assert!(local(&node, block).await);
    }
    assert_eq!(
        (
            node.upkeep().repair_status().repaired,
            node.upkeep().repair_status().stuck
        ),
        (4, 0)
    );
}

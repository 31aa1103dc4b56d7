//! Work that no client waits for gives way to clients. The simulated network knows no classes. So
//! patience shows it: a replica that has begun to send may pause for longer.

use std::time::Duration;

use archipel_net::simulated::Link;
use archipel_storage::BlockRef;
use archipel_storage::engine::Durability;
use bytes::Bytes;
use tokio::time::timeout;

use super::*;
use crate::cluster::Cluster;
use crate::data::options::WriteOptions;
use crate::memory::World;
use crate::node::options::Hooks;
use crate::node::wire::{RowCall, method};
use crate::register::{Answer, Request};

const LATENCY: Duration = Duration::from_millis(20);

fn key(name: &'static str) -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(name.as_bytes()),
    }
}

/// Creates three nodes, of which the last one lacks a row with a block of 1 MiB, and knows how far
/// the others are.
async fn lagging() -> (World, BlockRef) {
    let world = World::new(3, 3, LATENCY, 1, Hooks::NONE).await.unwrap();
    world.isolate(2);
    let node = &world.nodes[0];
    let upload = node.block_writer(PartitionId(0)).unwrap();
    let content: Vec<u8> = (0..1 << 20).map(|i| (i % 251) as u8).collect();
    let block = upload.append(content.into()).await.unwrap();
    let row = Value {
        payload: Payload::Blocks(vec![block]),
        ..Value::default()
    };
    let how = WriteOptions {
        upload: Some(&upload),
        ..WriteOptions::durable(Durability::Fsync)
    };
    node.write(&key("big"), Some(row), how).await.unwrap();
    drop(upload);
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.network.end_all_cuts();
    world.nodes[2].metadata(&key("absent")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    (world, block)
}

fn own_address(node: &Cluster) -> Address {
    let group = node.group(PartitionId(0)).unwrap();
    group.address(group.local().unwrap()).unwrap()
}

/// Runs some work of the last node. Once the other nodes have begun to send, their links become so
/// slow that a frame takes 8 s. Returns how many streams of blocks the work opened.
async fn with_a_pause<T>(world: &World, work: impl Future<Output = T>) -> (u64, T) {
    let limit = |bytes_per_second| {
        let link = Link {
            latency: LATENCY,
            bytes_per_second: Some(bytes_per_second),
            ..Link::default()
        };
        for other in &world.ids[..2] {
            world.network.set_link(*other, world.ids[2], link);
        }
    };
    let opened = || {
        let counts = world.nodes[2].peers.as_ref().unwrap().rpc.counts();
        counts.get(method::FETCH).map_or(0, |counts| counts.made)
    };
    let before = opened();
    limit(80_000);
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        limit(8_000);
    };
    let (done, ()) = tokio::join!(work, later);
    (opened() - before, done)
}

/// Returns the call in which the last node is to take the row of the first one.
async fn write_of(world: &World, background: bool) -> RowCall {
    let [holder, node] = [&world.nodes[0], &world.nodes[2]];
    let row = holder.store().read(|rows| rows.row(&key("big"))).await;
    let row = row.unwrap().unwrap();
    let write = Request::Write {
        version: Version {
            stamp: row.stamp,
            write: row.write,
            value: row.value,
        },
        guarded: false,
    };
    RowCall {
        background,
        ..RowCall::plain(own_address(node), key("big").key, write)
    }
}

/// Returns the traffic classes in which a node has fetched blocks.
fn classes(node: &Cluster) -> Vec<Option<Class>> {
    node.fetched_in.lock().clone()
}

/// Found by reading: blocks that a rebalance moved competed with those of clients. Then they went
/// only while no client used the link, and the layout change did not end.
#[tokio::test(start_paused = true)]
async fn blocks_of_a_row_that_no_client_writes_give_way() {
    for background in [true, false] {
        let (world, _) = lagging().await;
        let node = &world.nodes[2];
        let call = write_of(&world, background).await;
        let (opened, answer) = with_a_pause(&world, node.answer(call)).await;
        if background {
            assert_eq!((opened, answer.unwrap()), (1, Answer::Accepted));
            assert_eq!(classes(node), [Some(MOVED)]);
        } else {
            assert!(opened > 1, "a client gets no other replica");
            assert_eq!(classes(node), [None]);
        }
    }
}

/// Found by reading: a client waited until blocks that no client waited for had come, and a
/// rebalance until those for anti-entropy had. Fetches that wait outlive their callers.
#[tokio::test(start_paused = true)]
async fn blocks_wait_for_a_while_and_for_no_less_urgent_ones() {
    const LONG: Duration = Duration::from_secs(600);
    let of_clients = [(None, None), (Some(MOVED), None)];
    let of_moved = [
        (Some(Class::Background), Some(MOVED)),
        (Some(MOVED), Some(MOVED)),
    ];
    for (held, wanted) in of_clients.into_iter().chain(of_moved) {
        for all_turns in [false, true] {
            let (world, block) = lagging().await;
            let node = &world.nodes[2];
            let call = write_of(&world, wanted.is_some()).await;
            let turns = node.fetches.of(held);
            let fetching = turns.queue(&block.hash).lock();
            let _held = match all_turns {
                true => (None, turns.at_once.acquire_many(FETCHES as u32).await.ok()),
                false => (Some(fetching.await), None),
            };
            let written = timeout(LONG, node.answer(call)).await;
            let written = written.expect("it waits for ever");
            match held == wanted {
                true => assert!(
                    matches!(written, Err(storage::Error::Busy(_))),
                    "{written:?}"
                ),
                false => assert_eq!(written.unwrap(), Answer::Accepted),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_of_a_row_that_anti_entropy_brings_give_way() {
    let (world, _) = lagging().await;
    let node = &world.nodes[2];
    let row = key("big");
    // The read brings the row to the local replica, too, and its blocks come for only one of both.
    let bringing = async {
        loop {
            match node.bring(own_address(node), &row, true).await {
                Err(Error::Storage(storage::Error::Busy(_))) => {}
                brought => break brought,
            }
        }
    };
    let (opened, brought) = with_a_pause(&world, bringing).await;
    brought.unwrap();
    assert_eq!(opened, 1);
    let held = node.store().read(move |rows| rows.metadata(&row)).await;
    assert!(held.unwrap().is_some_and(|row| row.is_live()));
    assert!(classes(node).contains(&Some(Class::Background)));
}

#[tokio::test(start_paused = true)]
async fn blocks_that_a_repair_fetches_give_way() {
    let (world, block) = lagging().await;
    let node = &world.nodes[2];
    let brought = node.bring(own_address(node), &key("big"), true).await;
    assert!(brought.unwrap());
    world.disks[2].flip(1, 5000, 1);
    node.upkeep().note_damaged([block.hash]);
    let repairing = node.upkeep().repair_round();
    let (opened, round) = with_a_pause(&world, repairing).await;
    assert_eq!((opened, round.unwrap().repaired), (1, 1));
}

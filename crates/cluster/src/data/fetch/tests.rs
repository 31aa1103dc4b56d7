//! Work that no client waits for gives way to clients. The simulated network knows no classes. So
//! patience shows it: a replica that has begun to send may pause for longer.

use std::time::Duration;

use archipel_storage::engine::Durability;
use bytes::Bytes;
use tokio::time::timeout;

use super::*;
use crate::cluster::Cluster;
use crate::data::options::WriteOptions;
use crate::data::tests::{LATENCY, fetches, limit, measure};
use crate::memory::World;
use crate::node::options::Hooks;
use crate::node::wire::RowCall;
use crate::register::{Answer, Request};

fn key(name: &'static str) -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(name.as_bytes()),
    }
}

/// Creates three nodes, of which the last one lacks a row with a block of 1 MiB, and knows how far
/// the others are.
async fn lagging() -> (World, BlockRef) {
    let (world, blocks) = lacking(&[("big", 1)]).await;
    (world, blocks[0][0])
}

/// Creates three nodes, of which the last one lacks rows with so many blocks of 1 MiB, and knows how
/// far the others are. Returns the blocks of each row.
async fn lacking(rows: &[(&'static str, usize)]) -> (World, Vec<Vec<BlockRef>>) {
    let world = World::new(3, 3, LATENCY, 1, Hooks::NONE).await.unwrap();
    world.isolate(2);
    let node = &world.nodes[0];
    let (mut all, mut period) = (Vec::new(), 251);
    for &(name, count) in rows {
        let upload = node.block_writer(PartitionId(0)).unwrap();
        let mut blocks = Vec::new();
        for _ in 0..count {
            let content: Vec<u8> = (0..1 << 20).map(|i| (i % period) as u8).collect();
            blocks.push(upload.append(content.into()).await.unwrap());
            period -= 1;
        }
        let row = Value {
            payload: Payload::Blocks(blocks.clone()),
            ..Value::default()
        };
        let how = WriteOptions {
            upload: Some(&upload),
            ..WriteOptions::durable(Durability::Fsync)
        };
        node.write(&key(name), Some(row), how).await.unwrap();
        all.push(blocks);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.network.end_all_cuts();
    measure(&world).await;
    (world, all)
}

fn own_address(node: &Cluster) -> Address {
    let group = node.group(PartitionId(0)).unwrap();
    group.address(group.local().unwrap()).unwrap()
}

/// Runs some work of the last node. Once the other nodes have begun to send, their links become so
/// slow that a frame takes 8 s. Returns how many streams of blocks the work opened.
async fn with_a_pause<T>(world: &World, work: impl Future<Output = T>) -> (u64, T) {
    let before = fetches(&world.nodes[2]);
    limit(world, &[0, 1], 80_000);
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        limit(world, &[0, 1], 8_000);
    };
    let (done, ()) = tokio::join!(work, later);
    (fetches(&world.nodes[2]) - before, done)
}

/// Returns the write of a row as its holder has it.
async fn held_write(holder: &Cluster, name: &'static str) -> Request<Value> {
    let row = holder.store().read(move |rows| rows.row(&key(name))).await;
    let row = row.unwrap().unwrap();
    Request::Write {
        version: Version {
            stamp: row.stamp,
            write: row.write,
            value: row.value,
        },
        guarded: false,
    }
}

/// Returns the call in which the last node is to take a row of the first one.
async fn write_of(world: &World, name: &'static str, background: bool) -> RowCall {
    let [holder, node] = [&world.nodes[0], &world.nodes[2]];
    let write = held_write(holder, name).await;
    RowCall {
        background,
        ..RowCall::plain(own_address(node), key(name).key, write)
    }
}

/// Lets the first node ask the last one to take a row, as a rebalance does.
async fn bring_to_last(world: &World, name: &'static str) -> Result<Answer<Value>, Error> {
    let [driver, node] = [&world.nodes[0], &world.nodes[2]];
    let group = driver.group(PartitionId(0)).unwrap();
    let mut members = group.members.iter();
    let index = members.position(|member| member.node == node.me());
    let (row, write) = (key(name), held_write(driver, name).await);
    let asked = driver.ask_about(&group, index.unwrap(), &row, write);
    asked.await
}

fn is_busy<T>(asked: &Result<T, Error>) -> bool {
    matches!(asked, Err(Error::Storage(storage::Error::Busy(_))))
}

/// Returns the answer of a node that is asked again while its blocks are being fetched.
async fn answer_of(node: &Cluster, call: RowCall) -> Result<Answer<Value>, storage::Error> {
    loop {
        match node.answer(call.clone()).await {
            Err(storage::Error::Busy(_)) => tokio::time::sleep(Duration::from_secs(5)).await,
            answer => return answer,
        }
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
        let call = write_of(&world, "big", background).await;
        if background {
            let (opened, answer) = with_a_pause(&world, answer_of(node, call)).await;
            assert_eq!((opened, answer.unwrap()), (1, Answer::Accepted));
            assert!(classes(node).iter().all(|class| *class == Some(MOVED)));
        } else {
            let asking = timeout(Duration::from_secs(60), answer_of(node, call));
            let (opened, _) = with_a_pause(&world, asking).await;
            assert!(opened > 1, "a client gets no other replica");
            assert!(classes(node).iter().all(Option::is_none));
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
            let call = write_of(&world, "big", wanted.is_some()).await;
            let turns = node.fetches.of(held);
            let fetching = turns.queue(&[block]).lock();
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
            let class = Some(Class::Background);
            match node.bring(own_address(node), &row, class).await {
                // The blocks come meanwhile: an operation takes less time than they do.
                Err(Error::Storage(storage::Error::Busy(_)) | Error::Unavailable(_)) => {}
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
    let class = Some(Class::Background);
    let brought = node.bring(own_address(node), &key("big"), class).await;
    assert!(brought.unwrap());
    world.disks[2].flip(1, 5000, 1);
    node.upkeep().note_damaged([block.hash]);
    let repairing = node.upkeep().repair_round();
    let (opened, round) = with_a_pause(&world, repairing).await;
    assert_eq!((opened, round.unwrap().repaired), (1, 1));
}

/// Found by reading: the calls of a rebalance timed out while the blocks came over a slow link, and
/// the new node was suspected, although it worked for nothing else.
#[tokio::test(start_paused = true)]
async fn a_replica_answers_while_blocks_are_on_their_way_and_takes_the_row_later() {
    let (world, _) = lacking(&[("big", 3)]).await;
    let node = &world.nodes[2];
    limit(&world, &[0, 1], 125_000);
    let asked = bring_to_last(&world, "big").await;
    assert!(is_busy(&asked), "{asked:?}");
    // Nobody asks again.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let held = node.store().read(|rows| rows.metadata(&key("big"))).await;
    assert!(held.unwrap().is_some_and(|row| row.is_live()));
    assert_eq!(fetches(node), 1);
}

/// Found by reading: the time after which a replica said that it was busy counted as its distance, which
/// grew to seconds.
#[tokio::test(start_paused = true)]
async fn the_wait_for_blocks_is_no_distance() {
    let (world, block) = lagging().await;
    let [driver, node] = [&world.nodes[0], &world.nodes[2]];
    let _held = node.fetches.of(Some(MOVED)).queue(&[block]).lock().await;
    let asked = bring_to_last(&world, "big").await;
    assert!(is_busy(&asked), "{asked:?}");
    let distance = driver.peers.as_ref().unwrap().rpc.round_trip(&world.ids[2]);
    let is_near = distance.is_none_or(|distance| distance < Duration::from_millis(500));
    assert!(is_near, "{distance:?}");
}

/// Found by reading: a replica learnt a newer layout first, and then waited for blocks until its caller
/// had given up.
#[tokio::test(start_paused = true)]
async fn the_time_for_a_newer_layout_is_part_of_that_of_an_answer() {
    let (world, block) = lagging().await;
    let [driver, node] = [&world.nodes[0], &world.nodes[2]];
    let epoch = driver.epoch().unwrap();
    driver.learn(epoch.with_level(epoch.level)).await.unwrap();
    // The call, the answer and the layout need 1 s each way.
    world.move_away(2, Duration::from_secs(1));
    let _held = node.fetches.of(Some(MOVED)).queue(&[block]).lock().await;
    let asked = bring_to_last(&world, "big").await;
    assert!(is_busy(&asked), "{asked:?}");
}

/// Found by reading: the driver of a layout change did not wait for its own replica, which said after
/// 7.5 s that it was busy. Writes of clients ended early for the same reason.
#[tokio::test(start_paused = true)]
async fn a_node_waits_for_the_blocks_of_its_own_replica() {
    for background in [true, false] {
        let (world, _) = lacking(&[("big", 2)]).await;
        let node = &world.nodes[2];
        // They take 19 s.
        limit(&world, &[0, 1], 113_000);
        if background {
            let brought = node.replicate(&key("big")).await.unwrap();
            assert!(brought.everywhere);
        } else {
            let call = write_of(&world, "big", background).await;
            assert_eq!(node.answer(call).await.unwrap(), Answer::Accepted);
        }
    }
}

/// Found by reading: a replica that the quorum needed said twice that it was busy, and a client's write
/// ended after 15 s. An operation may take 20 s.
#[tokio::test(start_paused = true)]
async fn a_write_waits_for_the_blocks_of_another_replica_for_as_long_as_it_may_take() {
    let (world, block) = lagging().await;
    let [writer, node] = [&world.nodes[0], &world.nodes[2]];
    world.network.crash(world.ids[1]);
    let held = node.fetches.of(None).queue(&[block]).lock().await;
    let row = Value {
        metadata: Bytes::from_static(b"new"),
        payload: Payload::Blocks(vec![block]),
        ..Value::default()
    };
    let (big, how) = (key("big"), WriteOptions::durable(Durability::Fsync));
    let writing = writer.write(&big, Some(row), how);
    let later = async {
        tokio::time::sleep(Duration::from_secs(16)).await;
        drop(held);
    };
    let (written, ()) = tokio::join!(writing, later);
    written.unwrap();
}

/// Found by reading: the row was asked for again while its blocks came. The first ones were here, and
/// the others were fetched a second time.
#[tokio::test(start_paused = true)]
async fn blocks_that_are_on_their_way_are_not_fetched_again() {
    let (world, blocks) = lacking(&[("big", 3), ("other", 3)]).await;
    let node = &world.nodes[2];
    limit(&world, &[0, 1], 125_000);
    let call = write_of(&world, "big", true).await;
    assert_eq!(answer_of(node, call).await.unwrap(), Answer::Accepted);
    assert_eq!(fetches(node), 1);

    let payload = Payload::Blocks(blocks[1].clone());
    let fetch = |class| node.fetch_with(PartitionId(0), &payload, Some(class));
    let second = async {
        tokio::time::sleep(Duration::from_secs(12)).await;
        fetch(Class::Background).await
    };
    let (first, second) = tokio::join!(fetch(MOVED), second);
    assert_eq!((first.unwrap().blocks, second.unwrap().blocks), (3, 0));
}

/// Found by reading: fetches that waited for one of the same row took all permits.
#[tokio::test(start_paused = true)]
async fn fetches_of_one_row_hold_up_no_other_row() {
    let (world, blocks) = lacking(&[("big", 1), ("other", 1)]).await;
    let node = &world.nodes[2];
    let _held = node.fetches.of(None).queue(&blocks[0]).lock().await;
    for _ in 0..FETCHES {
        let (node, call) = (node.clone(), write_of(&world, "big", false).await);
        tokio::spawn(async move { node.answer(call).await });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let other = write_of(&world, "other", false).await;
    assert_eq!(node.answer(other).await.unwrap(), Answer::Accepted);
}

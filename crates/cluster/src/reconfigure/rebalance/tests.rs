//! The memory of a layout change, and rows that cannot be moved.

use archipel_storage::engine::Durability;
use archipel_storage::{Payload, RowKey, Value};
use bytes::Bytes;

use super::work::Failed;
use super::*;
use crate::cluster::Cluster;
use crate::data::options::WriteOptions;
use crate::layout::{Redundancy, Role};
use crate::memory::World;
use crate::node::options::Hooks;
use crate::reconfigure::change::{LayoutChange, Progress};

const LATENCY: Duration = Duration::from_millis(1);
const ROWS: usize = 2500;
/// The header of a block's record.
const HEADER_BYTES: u64 = 64;

fn key(n: usize) -> RowKey {
    RowKey {
        partition: PartitionId(7),
        key: Bytes::from(format!("row {n:05}")),
    }
}

fn assign(node: &Cluster) -> LayoutChange {
    LayoutChange::Assign(Role {
        store: node.me(),
        zone: "zone".into(),
        capacity_bytes: 1 << 40,
    })
}

/// A partition may have any number of rows.
#[tokio::test(start_paused = true)]
async fn a_rebalance_holds_no_more_keys_than_a_page_of_each_replica() {
    let world = World::unfounded(2, LATENCY, 1, Hooks::NONE).await.unwrap();
    let [old, new] = &world.nodes[..] else {
        panic!("two nodes")
    };
    for node in [old, new] {
        let node = node.clone();
        tokio::spawn(async move { node.layouts().run_rebalance().await });
    }
    old.found("zone", 1 << 40).await.unwrap();
    for n in 0..ROWS {
        let how = WriteOptions::durable(Durability::Buffered);
        let key = key(n);
        let written = old.write(&key, Some(Value::default()), how);
        written.await.unwrap();
    }
    let changes = vec![assign(new), LayoutChange::Remove(old.me().node)];
    let staged = old.layouts().stage(changes).await.unwrap();
    let applied = old.layouts().apply(staged.version, Some(staged.revision));
    applied.await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    while new.epoch().is_none_or(|epoch| epoch.is_changing()) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for n in 0..ROWS {
        assert!(new.read(&key(n)).await.unwrap().is_some(), "{n}");
    }
    let rebalances = [old, new].map(|node| &node.layouts().rebalance);
    let most = rebalances.map(|one| one.note(|work| work.most_held));
    let most = most.into_iter().max().unwrap();
    let page = old.options.sizes.listed_keys;
    assert!((1..=page).contains(&most), "{most} keys at once");
    let rows = rebalances.map(|one| one.note(|work| work.shown(work.epoch).rows));
    let rows: u64 = rows.into_iter().sum();
    assert!(rows >= ROWS as u64, "{rows}");
}

fn progress(node: &Cluster) -> Progress {
    node.layouts().progress().expect("a change is under way")
}

/// The only node had one copy of everything, and a block of it is damaged. The change ends once an
/// operator has deleted the row.
#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_moved_holds_up_no_other_and_is_named() {
    let world = World::unfounded(3, LATENCY, 2, Hooks::NONE).await.unwrap();
    let [a, b, c] = &world.nodes[..] else {
        panic!("three nodes")
    };
    a.found("zone", 1 << 40).await.unwrap();
    let how = || WriteOptions::durable(Durability::Fsync);
    // The row comes between two others of its partition, and the partition before others.
    for n in [1, 3] {
        let row = key(n);
        let written = a.write(&row, Some(Value::default()), how());
        written.await.unwrap();
    }
    for n in 0..200 {
        let row = RowKey {
            partition: PartitionId(n * 5),
            key: Bytes::from_static(b"other"),
        };
        let written = a.write(&row, Some(Value::default()), how());
        written.await.unwrap();
    }
    let lost = key(2);
    let writer = a.block_writer(lost.partition).unwrap();
    let block = writer.append(Bytes::from(vec![7; 100_000])).await.unwrap();
    let value = Value {
        payload: Payload::Blocks(vec![block]),
        ..Value::default()
    };
    let options = WriteOptions {
        upload: Some(&writer),
        ..how()
    };
    a.write(&lost, Some(value), options).await.unwrap();
    drop(writer);
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.disks[0].flip(1, HEADER_BYTES + 1000, 0x10);
    let read = a.store().read_block(&block).await;
    assert!(read.is_err(), "the test damages nothing");

    for node in [a, b, c] {
        let node = node.clone();
        tokio::spawn(async move { node.layouts().run_rebalance().await });
    }
    let redundancy = LayoutChange::Redundancy(Redundancy {
        replicas: 3,
        zones: Some(1),
    });
    let changes = vec![assign(b), assign(c), redundancy];
    let staged = a.layouts().stage(changes).await.unwrap();
    let applied = a.layouts().apply(staged.version, Some(staged.revision));
    applied.await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let stuck = progress(a);
    assert_eq!(stuck.done, stuck.partitions - 1, "{stuck:?}");
    assert_eq!(stuck.row, Some(lost.clone()));
    let trouble = stuck.trouble.clone().unwrap();
    assert!(trouble.contains("row 7/row 00002"), "{trouble}");
    // All that is done stays done, while the row is tried again and again.
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = progress(a);
        assert_eq!((now.done, now.rows), (stuck.done, stuck.rows));
        assert_eq!(now.row, stuck.row);
    }
    a.write(&lost, None, how()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!a.epoch().unwrap().is_changing());
    let rows = a.layouts().rebalance.note(|work| work.shown(2).rows);
    assert_eq!(rows, stuck.rows, "rows are counted twice");
    world.isolate(0);
    for node in [b, c] {
        assert!(node.read(&key(3)).await.unwrap().is_some());
        assert_eq!(node.read(&lost).await.unwrap(), None);
    }
}

/// Found by reading: only the driver knew what held a change up, so that a command which waited for the
/// end at another node waited for ever.
#[tokio::test(start_paused = true)]
async fn other_nodes_tell_what_holds_up_the_driver() {
    let world = World::three_and(1, LATENCY, 3, Hooks::NONE).await.unwrap();
    let [a, b, _, new] = &world.nodes[..] else {
        panic!("four nodes")
    };
    let staged = a.layouts().stage(vec![assign(new)]).await.unwrap();
    let applied = a.layouts().apply(staged.version, Some(staged.revision));
    applied.await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let epoch = b.epoch().unwrap();
    let all = moved(&epoch);
    let error = Error::Unavailable("a node is away".into());
    let mut failed = Failed::default();
    failed.add(&(Bytes::from_static(b"k"), None), &error);
    a.layouts().rebalance.note(|work| {
        work.begin(epoch.number(), all.clone());
        work.looked_at(all[0], 10);
        work.ended(all[0], Ok(()));
        work.ended(all[1], Err(failed));
    });
    let told = b.layouts().driven_progress_of(&epoch).await;
    assert_eq!(told, a.layouts().progress_of(&epoch));
    let told = told.unwrap();
    assert_eq!((told.done, told.rows), (1, 10));
    let trouble = told.trouble.unwrap();
    assert!(trouble.contains("a node is away"), "{trouble}");
    // The others do without a driver that does not answer.
    world.isolate(0);
    let told = b.layouts().driven_progress_of(&epoch).await;
    assert_eq!(told, b.layouts().progress_of(&epoch));
    assert_eq!(told.unwrap().trouble, None);
}

/// A partition fails once, after some of its rows were moved.
#[test]
fn a_partition_that_fails_is_tried_again_alone() {
    let (one, two) = (PartitionId(1), PartitionId(2));
    let error = Error::Unavailable("a node is away".into());
    let mut work = Work::default();
    assert_eq!(work.begin(5, vec![one, two]), [one, two]);
    work.looked_at(one, 10);
    work.looked_at(two, 20);
    let mut failed = Failed::default();
    failed.add(&(Bytes::from_static(b"k"), None), &error);
    work.ended(two, Err(failed));
    work.ended(one, Ok(()));
    let shown = work.shown(5);
    assert_eq!((shown.done, shown.rows), (1, 30));
    let trouble = shown.trouble.unwrap();
    let expected = "row 2/k cannot be moved: unavailable: a node is away";
    assert_eq!(trouble, expected);
    assert_eq!(work.begin(5, vec![one, two]), [two]);
    work.looked_at(two, 15);
    assert_eq!(work.shown(5).rows, 30);
    work.looked_at(two, 25);
    work.ended(two, Ok(()));
    let shown = work.shown(5);
    assert_eq!((shown.done, shown.rows, shown.trouble), (2, 35, None));
    assert_eq!(work.begin(5, vec![one, two]), []);
    // Nothing of it counts in another epoch.
    assert_eq!(work.begin(6, vec![one, two]), [one, two]);
    assert_eq!(work.shown(5), Shown::default());
}

#[test]
fn only_a_few_failed_rows_of_a_partition_are_remembered() {
    let error = Error::Unavailable("a block is lost".into());
    let mut failed = Failed::default();
    let mut added = 0;
    while !failed.is_full() {
        failed.add(&(Bytes::from(format!("k{added}")), None), &error);
        added += 1;
    }
    failed.add(&(Bytes::from_static(b"more"), None), &error);
    assert_eq!(failed.rows.len(), added);
    let mut work = Work::default();
    work.begin(2, vec![PartitionId(3)]);
    work.ended(PartitionId(3), Err(failed.ended_by(&error)));
    let expected = format!(
        "at least {added} of the rows cannot be moved; the first is row 3/k0: unavailable: a block is lost"
    );
    assert_eq!(work.failure(), Some(expected));
}

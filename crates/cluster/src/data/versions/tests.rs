//! Decisions about versions that are behind many dead ones, or unknown.

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_storage::engine::Durability;
use archipel_storage::{Row, RowTxn};
use futures_util::future::join_all;
use tokio::runtime::Handle;

use super::*;
use crate::cluster::Cluster;
use crate::data::COPIES;
use crate::data::options::Versioning;
use crate::data::replicate::LATE;
use crate::memory::World;
use crate::memory::versioned::{FEW_DEAD, VERSIONED};
use crate::node::floors;
use crate::node::replica::versions::kept_row;
use crate::register::floor::Floors;

/// As many of them as a list may hold do not fit into a message.
const METADATA: usize = 20 << 10;

fn object() -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"o/k"),
    }
}

async fn put(node: &Cluster) -> VersionName {
    let how = WriteOptions {
        versioning: Versioning::New,
        ..WriteOptions::durable(Durability::Fsync)
    };
    let row = object();
    let value = Value {
        metadata: vec![7; METADATA].into(),
        ..Value::default()
    };
    let written = node.write(&row, Some(value), how);
    Some(written.await.unwrap())
}

async fn kill(node: &Cluster, name: VersionName) {
    let kill = |_: &VersionSeen<'_>| VersionDecision::<()>::Kill;
    let how = WriteOptions::durable(Durability::Fsync);
    let killed = node.decide_version(&object(), name, how, kill).await;
    killed.unwrap().unwrap();
}

/// The list of dead versions is longer than a replica tells, several times.
#[tokio::test(start_paused = true)]
async fn the_version_before_very_many_dead_ones_becomes_current() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, VERSIONED).await.unwrap();
    let node = &world.nodes[0];
    let mut names = Vec::new();
    for _ in 0..4 * FEW_DEAD {
        names.push(put(node).await);
    }
    let last = names[names.len() - 1];
    let living = FEW_DEAD + 8;
    for dead in &names[living..names.len() - 1] {
        kill(node, *dead).await;
    }
    let current = async || {
        let read = node.read(&object()).await.unwrap();
        let read = read.filter(|value| value.kind() != VersionKind::Void);
        read.map(|value| value.version_name())
    };
    kill(node, last).await;
    for left in (0..living).rev() {
        assert_eq!(current().await, Some(names[left]));
        kill(node, names[left]).await;
    }
    assert_eq!(current().await, None);
}

/// A replica may hold a version that no other one knows. So its deletion writes something, and a
/// refused change of it does not.
#[tokio::test(start_paused = true)]
async fn a_refused_change_of_an_unknown_version_writes_nothing_and_its_deletion_does() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, VERSIONED).await.unwrap();
    let node = &world.nodes[0];
    let name = Some(node.next_stamp(Stamp::ZERO));
    let how = || WriteOptions::durable(Durability::Fsync);
    let refuse = |_: &VersionSeen<'_>| VersionDecision::Abort("no such version");
    let refused = node.decide_version(&object(), name, how(), refuse).await;
    assert_eq!(refused.unwrap(), Err("no such version"));
    assert_eq!(node.read(&object()).await.unwrap(), None);
    let absent = |_: &VersionSeen<'_>| VersionDecision::Absent("no such version");
    let absent = node.decide_version(&object(), name, how(), absent).await;
    assert_eq!(absent.unwrap(), Err("no such version"));
    let written = node.read(&object()).await.unwrap();
    assert_eq!(written.map(|value| value.kind()), Some(VersionKind::Void));
}

/// A replica has agreed a floor, and holds the version in the object's row. It shows no kept row,
/// as if the version had been deleted below the floor.
#[tokio::test(start_paused = true)]
async fn a_version_moves_although_a_replica_with_a_floor_has_not_displaced_it() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 3, VERSIONED).await.unwrap();
    let [displaced, lags, lacks] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    let at = |time| Stamp {
        time,
        ..displaced.next_stamp(Stamp::ZERO)
    };
    let (old, new) = (at(100), at(200));
    let version = |at: Stamp| Row {
        promised: at,
        stamp: at,
        value: Some(named(Value::default(), at)),
        ..Row::default()
    };
    let prefix = (VERSIONED.kept_prefix)(&object()).unwrap();
    let kept = kept_row(&prefix, &object(), Some(old));
    plant(
        displaced,
        [(object(), version(new)), (kept.clone(), version(old))],
    )
    .await;
    plant(lags, [(object(), version(old))]).await;
    plant(lacks, [(object(), version(new))]).await;
    let floors = Floors {
        agreed: old,
        ..Floors::joining(1)
    };
    let agree = move |txn: &mut RowTxn<'_>| floors::write(txn, PartitionId(0), &floors);
    lags.store()
        .transact(Durability::Fsync, agree)
        .await
        .unwrap();

    displaced
        .replicate_version(&object(), Some(old))
        .await
        .unwrap();
    let key = kept.clone();
    let moved = lacks.store().read(move |rows| rows.metadata(&key)).await;
    assert_eq!(moved.unwrap().map(|row| row.stamp), Some(old));
}

/// A node that is gone delays no copy of a version. One that is suspected and answers gets it all
/// the same.
#[tokio::test(start_paused = true)]
async fn copies_of_a_version_do_not_wait_for_a_suspected_node() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 4, VERSIONED).await.unwrap();
    let [node, _, suspected] = &world.nodes[..] else {
        panic!("not three nodes");
    };
    let name = put(node).await;
    put(node).await;
    let how = WriteOptions::durable(Durability::Fsync);
    let report = node.look(&object(), name, &how).await.unwrap().report;
    world.kill(2);
    let row = object();
    let handed = node.hand_round(&row, &report, false);
    let handed = tokio::time::timeout(Duration::from_secs(1), handed).await;
    handed.expect("in time").unwrap();

    world.network.end_all_cuts();
    tokio::time::sleep(Duration::from_secs(60)).await;
    forget(suspected, name).await;
    node.hand_round(&object(), &report, false).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(keeps(suspected, name).await);
}

/// Forgets the kept row of a version.
async fn forget(node: &Cluster, name: VersionName) {
    let prefix = (VERSIONED.kept_prefix)(&object()).unwrap();
    let key = kept_row(&prefix, &object(), name);
    let forget = move |txn: &mut RowTxn<'_>| txn.forget(&key);
    let forgotten = node.store().transact(Durability::Fsync, forget).await;
    forgotten.unwrap();
}

/// Returns true if a node holds the kept row of a version that lives.
async fn keeps(node: &Cluster, name: VersionName) -> bool {
    let prefix = (VERSIONED.kept_prefix)(&object()).unwrap();
    let key = kept_row(&prefix, &object(), name);
    let row = node.store().read(move |rows| rows.metadata(&key)).await;
    row.unwrap().is_some_and(|row| row.is_live())
}

/// Creates three nodes with two versions of the object. Returns a report about the older one, which
/// the other nodes have forgotten.
async fn forgotten_elsewhere() -> (World, VersionReport) {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 5, VERSIONED).await.unwrap();
    let node = &world.nodes[0];
    let name = put(node).await;
    put(node).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let how = WriteOptions::durable(Durability::Fsync);
    let report = node.look(&object(), name, &how).await.unwrap().report;
    for other in &world.nodes[1..] {
        forget(other, name).await;
    }
    (world, report)
}

/// A replica takes no copy below its frozen floor. So the copy must be at the third node, although
/// that one is suspected.
#[tokio::test(start_paused = true)]
async fn a_replica_that_refuses_a_copy_does_not_count_as_its_holder() {
    let (world, report) = forgotten_elsewhere().await;
    let [node, frozen, suspected] = &world.nodes[..] else {
        panic!("not three nodes");
    };
    let floors = Floors {
        closed: report.stamp,
        frozen: report.stamp,
        ..Floors::joining(1)
    };
    let freeze = move |txn: &mut RowTxn<'_>| floors::write(txn, PartitionId(0), &floors);
    let store = frozen.store();
    store.transact(Durability::Fsync, freeze).await.unwrap();
    world.kill(2);
    world.network.end_all_cuts();
    world.move_away(2, Duration::from_millis(100));
    node.hand_round(&object(), &report, false).await.unwrap();
    assert!(!keeps(frozen, report.name).await);
    assert!(keeps(suspected, report.name).await);
}

/// Found by reading: a node answered gossip, and its disk hung. Each deletion of a version waited 10 s
/// for it.
#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_delays_copies_of_a_version_for_a_moment_only() {
    let (world, report) = forgotten_elsewhere().await;
    let [node, other, _] = &world.nodes[..] else {
        panic!("not three nodes");
    };
    world.isolate(2);
    let row = object();
    let handed = node.hand_round(&row, &report, false);
    let handed = tokio::time::timeout(LATE + Duration::from_secs(1), handed);
    handed.await.expect("in time").unwrap();
    assert!(keeps(other, report.name).await);
}

/// Each copy to a node that is gone is a task with the version for ten seconds.
#[tokio::test(start_paused = true)]
async fn few_copies_to_suspected_nodes_are_under_way_at_once() {
    let (world, report) = forgotten_elsewhere().await;
    let [node, other, suspected] = &world.nodes[..] else {
        panic!("not three nodes");
    };
    let _under_way = node.copies.acquire_many(COPIES as u32).await.unwrap();
    world.kill(2);
    world.network.end_all_cuts();
    node.hand_round(&object(), &report, false).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(keeps(other, report.name).await);
    assert!(!keeps(suspected, report.name).await);

    // A quorum needs one of them.
    forget(other, report.name).await;
    world.kill(1);
    world.network.end_all_cuts();
    node.hand_round(&object(), &report, false).await.unwrap();
    assert!(keeps(other, report.name).await || keeps(suspected, report.name).await);
}

/// Found by reading: each copy to a node whose disk hung was a task for ten seconds, without bound.
#[tokio::test(start_paused = true)]
async fn few_copies_to_a_node_that_hangs_go_on_by_themselves() {
    let (world, report) = forgotten_elsewhere().await;
    let [node, other, _] = &world.nodes[..] else {
        panic!("not three nodes");
    };
    world.isolate(2);
    let (row, tasks) = (object(), Handle::current().metrics());
    let before = tasks.num_alive_tasks();
    let handed = (0..4 * COPIES).map(|_| node.hand_round(&row, &report, false));
    for handed in join_all(handed).await {
        handed.unwrap();
    }
    let after = tasks.num_alive_tasks();
    assert!(after < before + 2 * COPIES, "{before} tasks, then {after}");
    assert!(keeps(other, report.name).await);
}

async fn plant<const N: usize>(node: &Cluster, rows: [(RowKey, Row); N]) {
    let set = move |txn: &mut RowTxn<'_>| rows.iter().try_for_each(|(key, row)| txn.set(key, row));
    node.store().transact(Durability::Fsync, set).await.unwrap();
}

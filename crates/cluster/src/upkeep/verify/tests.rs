use std::time::Duration;

use archipel_base::{PartitionId, Stamp};
use archipel_storage::engine::{Durability, Engine, Tree};
use archipel_storage::rows::Granularity;
use archipel_storage::{Row, RowKey, RowTxn, RowVersion, Value};
use bytes::Bytes;

use super::local::{content, end_with, verify_here};
use super::*;
use crate::cluster::Cluster;
use crate::data::options::{Versioning, WriteOptions};
use crate::memory::World;
use crate::memory::versioned::VERSIONED;
use crate::node::options::Hooks;
use crate::upkeep::tests::put;

/// Puts a row into one store, whatever the layout says.
async fn plant(node: &Cluster, key: &RowKey, stamp: Stamp) {
    let key = key.clone();
    let set = move |txn: &mut RowTxn<'_>| {
        let row = Row {
            promised: stamp,
            stamp,
            value: Some(Value::default()),
            ..Row::default()
        };
        txn.set(&key, &row)
    };
    node.store().transact(Durability::Fsync, set).await.unwrap();
}

/// Three versions of an object and the null version fit. Each way to break them is reported.
#[tokio::test(start_paused = true)]
async fn verification_compares_kept_versions_with_their_objects() {
    let latency = Duration::from_millis(5);
    let world = World::new(3, 3, latency, 1, VERSIONED).await.unwrap();
    let node = &world.nodes[0];
    let object = RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"o/k"),
    };
    let put = async |versioning| {
        let how = WriteOptions {
            versioning,
            ..WriteOptions::durable(Durability::Fsync)
        };
        let value = Some(Value::default());
        node.write(&object, value, how).await.unwrap()
    };
    put(Versioning::Plain).await;
    let one = put(Versioning::New).await;
    put(Versioning::New).await;
    let three = put(Versioning::New).await;
    let kill = |_: &crate::VersionSeen<'_>| crate::VersionDecision::<()>::Kill;
    let how = WriteOptions::durable(Durability::Fsync);
    let killed = node.decide_version(&object, Some(three), how, kill).await;
    killed.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let found = verify_here(node.upkeep(), false).await;
    assert_eq!(found.problems, 0, "{found:?}");

    let kept = |name| {
        crate::node::replica::versions::kept_row(
            &(VERSIONED.kept_prefix)(&object).unwrap(),
            &object,
            name,
        )
    };
    let row_of = async |key: RowKey| {
        let read = move |rows: &archipel_storage::RowReader<'_>| rows.row(&key);
        node.store().read(read).await.unwrap().unwrap()
    };
    let set = async |key: RowKey, row: Row| {
        let set = move |txn: &mut RowTxn<'_>| txn.set(&key, &row);
        node.store().transact(Durability::Fsync, set).await.unwrap();
    };
    let (current, old) = (row_of(object.clone()).await, row_of(kept(Some(one))).await);
    let two = current.value.as_ref().unwrap().version_name();
    let later = node.next_stamp(Stamp::ZERO);
    let is_later = Row {
        promised: later,
        stamp: later,
        ..old.clone()
    };
    let faults = [
        (kept(two), old.clone(), "another version than its key names"),
        (
            kept(two),
            Row {
                stamp: old.stamp,
                promised: Stamp::ZERO,
                ..current.clone()
            },
            "changes other versions",
        ),
        (
            kept(None),
            Row {
                value: Some(Value::default()),
                ..old.clone()
            },
            "of no time",
        ),
        (kept(Some(one)), is_later, "is older or absent"),
    ];
    for (key, row, why) in faults {
        let before = node.store().read({
            let key = key.clone();
            move |rows| rows.row(&key)
        });
        let before = before.await.unwrap().unwrap_or_default();
        set(key.clone(), row).await;
        let found = verify_here(node.upkeep(), false).await;
        assert!(
            found.told.iter().any(|told| told.contains(why)),
            "{why}: {found:?}"
        );
        set(key, before).await;
    }
    let mut double = current.clone();
    let version = double
        .value
        .as_mut()
        .and_then(|value| value.version.as_mut());
    version.unwrap().changes.clear();
    set(kept(two), double).await;
    let found = verify_here(node.upkeep(), false).await;
    assert!(
        found
            .told
            .iter()
            .any(|told| told.contains("the current one, too")),
        "{found:?}"
    );
    set(kept(two), Row::default()).await;
    let found = verify_here(node.upkeep(), false).await;
    assert_eq!(found.problems, 0, "{found:?}");
}

/// A store purges the rows that a layout change left stale. Rows that come back against the layout are
/// reported.
#[tokio::test(start_paused = true)]
async fn verification_reports_rows_of_stale_partitions() {
    let latency = Duration::from_millis(5);
    let world = World::new(4, 3, latency, 1, Hooks::NONE).await.unwrap();
    let node = &world.nodes[0];
    let epoch = node.epoch().unwrap();
    let elsewhere = all_partitions().find(|partition| {
        let mut replicas = epoch.replicas(*partition).into_iter().flatten();
        replicas.all(|replica| replica.node != node.me())
    });
    let key = RowKey {
        partition: elsewhere.unwrap(),
        key: Bytes::from_static(b"stale"),
    };
    let stamp = node.next_stamp(Stamp::ZERO);
    plant(node, &key, stamp).await;
    let found = verify_here(node.upkeep(), false).await;
    assert_eq!((found.problems, found.unchecked.len()), (0, 0), "{found:?}");
    assert_eq!(found.rows, 0);
    let (store, gone) = (node.store(), key.clone());
    let row = store.read(move |rows| rows.row(&gone)).await;
    assert_eq!(row.unwrap(), None);
    plant(node, &key, stamp).await;
    let found = verify_here(node.upkeep(), false).await;
    assert_eq!(found.problems, 1, "{found:?}");
    assert!(found.told[0].contains("is stale"), "{found:?}");
}

/// A purge drops the rows of objects before those of their kept versions. The rows that are left
/// are stale, and not damaged.
#[tokio::test(start_paused = true)]
async fn a_purge_that_is_under_way_does_not_look_like_damage() {
    let latency = Duration::from_millis(5);
    let world = World::new(4, 3, latency, 1, VERSIONED).await.unwrap();
    let node = &world.nodes[0];
    // The store counts as purged from here on, so that the verification does not do it.
    let found = verify_here(node.upkeep(), false).await;
    assert_eq!(found.problems, 0, "{found:?}");
    let epoch = node.epoch().unwrap();
    let elsewhere = all_partitions().find(|partition| !node.upkeep().is_here(&epoch, *partition));
    let stamp = node.next_stamp(Stamp::ZERO);
    for partition in [elsewhere.unwrap(), here(node, &epoch)] {
        let object = RowKey {
            partition,
            key: Bytes::from_static(b"o/k"),
        };
        let prefix = (VERSIONED.kept_prefix)(&object).unwrap();
        let kept = crate::node::replica::versions::kept_row(&prefix, &object, Some(stamp));
        let version = RowVersion {
            at: Some(stamp),
            ..RowVersion::default()
        };
        let row = Row {
            promised: stamp,
            stamp,
            value: Some(Value {
                version: Some(Box::new(version)),
                ..Value::default()
            }),
            ..Row::default()
        };
        let set = move |txn: &mut RowTxn<'_>| txn.set(&kept, &row);
        node.store().transact(Durability::Fsync, set).await.unwrap();
    }
    let found = verify_here(node.upkeep(), false).await;
    let tell = |what: &str| found.told.iter().filter(|told| told.contains(what)).count();
    assert_eq!(tell("is stale"), 1, "{found:?}");
    // That of the other partition.
    assert_eq!(tell("a kept version"), 1, "{found:?}");
}

/// Returns a partition that a node holds.
fn here(node: &Cluster, epoch: &Epoch) -> PartitionId {
    let mut own = all_partitions().filter(|partition| node.upkeep().is_here(epoch, *partition));
    own.next().unwrap()
}

/// Nodes that hold the same rows have the same digest, in whatever order the rows came. Each change
/// of a row changes it.
#[tokio::test(start_paused = true)]
async fn digests_tell_equal_rows_from_others() {
    let latency = Duration::from_millis(5);
    let world = World::new(2, 2, latency, 1, Hooks::NONE).await.unwrap();
    let [here, there] = &world.nodes[..] else {
        panic!("not two nodes");
    };
    let digests = async || {
        let here = verify_here(here.upkeep(), false).await.digest;
        (here, verify_here(there.upkeep(), false).await.digest)
    };
    let key = |partition| RowKey {
        partition: PartitionId(partition),
        key: Bytes::from_static(b"k"),
    };
    let stamp = here.next_stamp(Stamp::ZERO);
    let before = digests().await;
    assert_eq!(before.0, before.1);
    // The same row in two partitions does not cancel itself out.
    plant(here, &key(7), stamp).await;
    plant(here, &key(9), stamp).await;
    let one = verify_here(here.upkeep(), false).await.digest;
    assert_ne!(one, before.0);
    plant(there, &key(9), stamp).await;
    plant(there, &key(7), stamp).await;
    let both = digests().await;
    assert_eq!(both, (one, one));
    plant(here, &key(7), here.next_stamp(stamp)).await;
    assert_ne!(verify_here(here.upkeep(), false).await.digest, one);
}

/// Returns the call of a verification.
fn call() -> VerifyCall {
    VerifyCall {
        run: Id([7; 16]),
        deep: false,
        stop: false,
    }
}

/// Lets a node's part begin. Nothing ends it.
fn begin(node: &Cluster, run: Id) {
    *node.upkeep().verify.run() = Some(Run {
        id: run,
        reply: VerifyReply::default(),
        is_stopped: false,
    });
}

/// The step of a node never ends, because its disk hangs. The node answers all the same.
#[tokio::test(start_paused = true)]
async fn a_verification_of_a_node_that_hangs_can_be_stopped() {
    let latency = Duration::from_millis(5);
    let world = World::new(2, 2, latency, 1, Hooks::NONE).await.unwrap();
    let [here, there] = &world.nodes[..] else {
        panic!("not two nodes");
    };
    begin(there, call().run);
    *here.upkeep().verify.asked() = Some(Verification {
        nodes: vec![NodePart {
            node: there.me().node,
            step: Step::default(),
            ended: None,
        }],
        ..Verification::default()
    });
    assert!(here.upkeep().verify_stop());
    let gathering = gather(here.upkeep(), call(), vec![there.me()]);
    let ended = tokio::time::timeout(2 * STOPPING, gathering).await;
    ended.expect("the verification ends");
    let ended = here.upkeep().verification().unwrap();
    assert!(ended.ended_ms > 0, "{ended:?}");
    let told = ended.nodes[0].ended.as_ref().unwrap();
    assert!(told.as_ref().unwrap_err().contains("stopped"), "{told:?}");
    // There it ends with the step.
    assert!(there.upkeep().verify.is_stopped());
}

/// Otherwise the node would be busy with it until its next start.
#[tokio::test(start_paused = true)]
async fn a_part_that_panics_has_ended() {
    let latency = Duration::from_millis(5);
    let world = World::new(1, 1, latency, 1, Hooks::NONE).await.unwrap();
    let node = &world.nodes[0];
    begin(node, call().run);
    end_with(node.upkeep(), async { panic!("as it is meant to") }).await;
    let findings = node.upkeep().serve_verify(call()).findings.unwrap();
    assert_eq!(findings.unchecked.len(), 1, "{findings:?}");
    let another = VerifyCall {
        run: Id([8; 16]),
        ..call()
    };
    assert!(!node.upkeep().serve_verify(another).busy);
}

/// The key of a window is damaged, so that the rows have no digest.
#[tokio::test(start_paused = true)]
async fn rows_without_a_digest_are_verified_all_the_same() {
    let latency = Duration::from_millis(5);
    let world = World::new(1, 1, latency, 1, Hooks::NONE).await.unwrap();
    let node = &world.nodes[0];
    let key = RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"k"),
    };
    plant(node, &key, node.next_stamp(Stamp::ZERO)).await;
    // A partition, the part of windows, and a number that is too short.
    let window = [0, 0, 1, Granularity::Month as u8, 7];
    let mut txn = world.engines[0].write().unwrap();
    txn.put(Tree::Derived, &window, b"damaged").unwrap();
    txn.commit(Durability::Fsync).unwrap();
    let found = verify_here(node.upkeep(), false).await;
    assert_eq!((found.rows, found.problems), (1, 1), "{found:?}");
    assert!(found.told[0].contains("windows"), "{found:?}");
    let told = |what: &&String| what.contains("the digest of the rows");
    assert_eq!(found.unchecked.iter().filter(told).count(), 1);
}

/// There is no other node, whose comparison would notice it.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_stopped_among_its_blocks_is_not_whole() {
    let latency = Duration::from_millis(5);
    let world = World::new(1, 1, latency, 1, Hooks::NONE).await.unwrap();
    let node = &world.nodes[0];
    // One step reads 16 MiB.
    for byte in 0..17 {
        put(node, &byte.to_string(), vec![byte; 1 << 20].into()).await;
    }
    begin(node, call().run);
    node.upkeep().verify.run().as_mut().unwrap().is_stopped = true;
    let mut findings = Findings::default();
    content(node.upkeep(), &mut findings).await.unwrap();
    assert!(findings.verified < 17, "{findings:?}");
    assert_eq!(findings.unchecked.len(), 1, "{findings:?}");
}

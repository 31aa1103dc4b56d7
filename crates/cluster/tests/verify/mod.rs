//! Verification of all nodes finds real faults and only those.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_cluster::{Cluster, Findings, Verification, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{Payload, Row, Value};
use bytes::Bytes;

use crate::support::{World, key, value};

/// Opens nodes with rows with and without blocks, a deletion, and the data derived from them.
async fn world(seed: u64) -> World {
    let world = World::new(3, seed).await;
    let node = &world.nodes[0];
    let durable = || WriteOptions::durable(Durability::Fsync);
    for n in 0..20 {
        let row = key(&format!("row {n}"));
        node.write(&row, Some(value("metadata")), durable())
            .await
            .unwrap();
    }
    node.write(&key("row 3"), None, durable()).await.unwrap();
    let upload = node.block_writer(PartitionId(0)).unwrap();
    let block = upload.append(Bytes::from(vec![5; 100_000])).await.unwrap();
    let big = Value {
        payload: Payload::Blocks(vec![block]),
        ..value("big")
    };
    let how = WriteOptions {
        upload: Some(&upload),
        ..durable()
    };
    node.write(&key("big"), Some(big), how).await.unwrap();
    drop(upload);
    world.settle().await;
    world
}

async fn verify(node: &Cluster, deep: bool) -> Verification {
    node.upkeep().verify_start(deep).unwrap();
    assert!(
        node.upkeep().verify_start(deep).is_err(),
        "two verifications at once"
    );
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let verification = node.upkeep().verification().unwrap();
        if verification.ended_ms > 0 {
            return verification;
        }
    }
    panic!("the verification does not end");
}

/// Returns the findings of each node.
fn findings(verification: &Verification) -> Vec<&Findings> {
    let parts = verification.nodes.iter();
    parts
        .map(|part| part.ended.as_ref().unwrap().as_ref().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn intact_nodes_have_no_findings() {
    let world = world(1).await;
    for deep in [false, true] {
        let verification = verify(&world.nodes[2], deep).await;
        let found = findings(&verification);
        assert_eq!(found.len(), 3);
        for findings in &found {
            assert_eq!((findings.problems, findings.unchecked.len()), (0, 0));
            assert_eq!((findings.rows, findings.blocks), (21, 1));
            assert_eq!(findings.verified, u64::from(deep));
        }
        // Each of the three pairs is compared once, for all partitions and the control partition.
        let compared: u64 = found.iter().map(|findings| findings.compared).sum();
        assert_eq!(compared, 3 * 1025);
    }
}

#[tokio::test(start_paused = true)]
async fn deep_verification_finds_a_damaged_block_and_it_is_repaired() {
    let world = world(2).await;
    world.disks[1].flip(1, 5000, 1);
    let shallow = verify(&world.nodes[0], false).await;
    assert!(findings(&shallow).iter().all(|found| found.problems == 0));
    let deep = verify(&world.nodes[0], true).await;
    let problems: Vec<u64> = findings(&deep).iter().map(|f| f.problems).collect();
    assert_eq!(problems, [0, 1, 0]);
    assert_eq!(
        world.nodes[1]
            .upkeep()
            .repair_round()
            .await
            .unwrap()
            .repaired,
        1
    );
    let again = verify(&world.nodes[0], true).await;
    assert!(findings(&again).iter().all(|found| found.problems == 0));
}

/// One replica holds another version of a row, and lacks one. Another one alone has a deletion, of
/// a row that no replica holds.
#[tokio::test(start_paused = true)]
async fn verification_finds_rows_that_differ() {
    let world = world(3).await;
    let store = world.nodes[1].store().clone();
    let change = move |txn: &mut archipel_storage::RowTxn<'_>| {
        let old = txn.row(&key("row 7"))?.unwrap_or_default();
        let changed = Row {
            value: None,
            ..old.clone()
        };
        let other = archipel_base::Stamp::new(old.stamp.millis() + 1, 0, archipel_base::Writer(9));
        txn.set(
            &key("row 7"),
            &Row {
                stamp: other,
                ..old
            },
        )?;
        txn.set(&key("nobody's"), &changed)?;
        txn.forget(&key("row 8"))
    };
    store.transact(Durability::Fsync, change).await.unwrap();
    let verification = verify(&world.nodes[0], false).await;
    let found = findings(&verification);
    // The second node differs from both others.
    assert_eq!(found.iter().map(|f| f.problems).sum::<u64>(), 2);
    let told: Vec<&String> = found.iter().flat_map(|f| &f.told).collect();
    assert!(
        told.iter().all(|what| what.contains("2 rows differ")),
        "{told:?}"
    );
    assert!(
        told.iter().all(|what| what.contains("row 7: a value of")),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn verification_reports_an_unreachable_node_as_unchecked() {
    let world = world(4).await;
    world.isolate(1);
    let verification = verify(&world.nodes[0], false).await;
    let away: Vec<bool> = verification
        .nodes
        .iter()
        .map(|part| part.ended.as_ref().unwrap().is_err())
        .collect();
    assert_eq!(away, [false, true, false]);
    let first = verification.nodes[0].ended.as_ref().unwrap();
    let first = first.as_ref().unwrap();
    assert_eq!((first.problems, first.unchecked.len()), (0, 1));
    assert_eq!(first.compared, 1025, "with the third node");
}

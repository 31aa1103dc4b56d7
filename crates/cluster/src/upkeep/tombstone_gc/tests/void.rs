//! Rows that hold no version.

use std::ops::Bound;

use archipel_storage::engine::Flow;
use archipel_storage::{RowVersion, Value, VersionKind};

use super::*;
use crate::data::options::{Versioning, WriteOptions};
use crate::memory::versioned::VERSIONED;

/// The deletion of an object's last version leaves a row that holds no version. It goes, too.
#[tokio::test(start_paused = true)]
async fn a_row_without_a_version_goes_once_all_replicas_have_it() {
    let latency = Duration::from_millis(20);
    let world = World::new(3, 3, latency, 13, VERSIONED).await.unwrap();
    let node = &world.nodes[0];
    let object = key("o/k");
    let how = WriteOptions {
        versioning: Versioning::New,
        ..durable()
    };
    let at = node.write(&object, Some(value("one")), how).await.unwrap();
    let kill = |_: &crate::VersionSeen<'_>| crate::VersionDecision::<()>::Kill;
    let killed = node.decide_version(&object, Some(at), durable(), kill);
    killed.await.unwrap().unwrap();
    let partition = object.partition;
    let rows_at = async |node: &Cluster| {
        let look = move |rows: &archipel_storage::RowReader<'_>| {
            let mut found = Vec::new();
            rows.scan_metadata(partition, &[], Bound::Unbounded, &mut |key, row| {
                found.push((key.to_vec(), row.is_some_and(|row| row.is_live())));
                Ok(Flow::Continue)
            })?;
            Ok(found)
        };
        node.store().read(look).await.unwrap()
    };
    let lives = |rows: &[(Vec<u8>, bool)]| rows.iter().any(|(_, lives)| *lives);
    assert!(lives(&rows_at(node).await));
    run(&world);
    // Once for the floor above the row, and once for that above its tombstone.
    for hours in [2, 4, 6] {
        for node in 0..3 {
            world.set_clock_ahead(node, Duration::from_secs(hours * 3600));
        }
        tokio::time::sleep(LONG).await;
    }
    for node in &world.nodes {
        assert_eq!(rows_at(node).await, []);
        assert_eq!(node.read(&object).await.unwrap(), None);
    }
    let floors = world
        .nodes
        .iter()
        .map(|n| n.upkeep().anti_entropy_status().floors);
    assert_eq!(floors.map(|floors| floors.retired).sum::<u64>(), 1);
}

/// Floors of all partitions wait for it, so it must not try each row in vain.
#[tokio::test(start_paused = true)]
async fn retiring_rows_ends_soon_while_replicas_are_away() {
    let latency = Duration::from_millis(20);
    let world = World::new(3, 3, latency, 19, VERSIONED).await.unwrap();
    let at = stamp(world.nodes[0].now_ms() - HOUR_MS);
    let rows = (0..super::super::void::MOST).map(|number| (key(format!("o/k{number}")), at));
    let rows: Vec<(RowKey, Stamp)> = rows.collect();
    for node in &world.nodes {
        let rows = rows.clone();
        let set = move |txn: &mut RowTxn<'_>| {
            let version = RowVersion {
                kind: VersionKind::Void,
                ..RowVersion::default()
            };
            let mut row = live(at);
            row.value = Some(Value {
                version: Some(Box::new(version)),
                ..Value::default()
            });
            rows.iter().try_for_each(|(key, _)| txn.set(key, &row))
        };
        node.store().transact(Durability::Fsync, set).await.unwrap();
    }
    let partition = rows[0].0.partition;
    let first = |node: &&Cluster| node.upkeep().rank(partition) == 0;
    let first = world.nodes.iter().find(first).unwrap();
    let retired = || first.upkeep().anti_entropy_status().floors.retired;
    for (index, node) in world.nodes.iter().enumerate() {
        if node.me() != first.me() {
            world.isolate(index);
        }
    }
    let minute = Duration::from_secs(60);
    let retiring = first.upkeep().retire(partition, rows.clone());
    let ended = tokio::time::timeout(minute, retiring).await;
    assert!(ended.is_ok(), "it waits for one row after another");
    assert_eq!(retired(), 0);

    world.network.end_all_cuts();
    let all = async {
        while retired() < rows.len() as u64 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            first.upkeep().retire(partition, rows.clone()).await;
        }
    };
    tokio::time::timeout(LONG, all).await.unwrap();
}

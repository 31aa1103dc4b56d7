//! Several nodes in one process, on a simulated network.

mod cross_row;
mod failures;
mod levels;
mod remove_dead;
mod repair;
mod support;
mod verify;
mod versions;

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_cluster::change::LayoutChange;
use archipel_cluster::layout::{Redundancy, Role};
use archipel_cluster::{Decision, Error, Guard, ListQuery, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{ListEntry, Payload, Value};
use bytes::Bytes;
use support::{World, key, value};

fn durable() -> WriteOptions<'static> {
    WriteOptions::durable(Durability::Fsync)
}

#[tokio::test(start_paused = true)]
async fn all_other_nodes_read_what_one_node_writes() {
    let world = World::new(3, 1).await;
    let [a, b, c] = world.three();
    a.write(&key("k"), Some(value("one")), durable())
        .await
        .unwrap();
    for node in [a, b, c] {
        assert_eq!(
            node.metadata(&key("k")).await.unwrap(),
            Some(Bytes::from("one"))
        );
    }
    b.write(&key("k"), None, durable()).await.unwrap();
    for node in [a, b, c] {
        assert_eq!(node.read(&key("k")).await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn exactly_one_of_racing_updates_wins() {
    let world = World::new(3, 2).await;
    let nodes = world.three();
    let racers = (0..12).map(|n| {
        let node = nodes[n % 3].clone();
        async move {
            let new = value(&format!("racer {n}"));
            let row = key("race");
            let won = node.update(&row, durable(), |current| match current {
                None => Decision::Write(Some(new.clone())),
                Some(_) => Decision::Abort(()),
            });
            won.await.unwrap().is_ok()
        }
    });
    let won = futures_util::future::join_all(racers).await;
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn content_reaches_all_replicas_and_is_readable_from_each() {
    let world = World::new(3, 3).await;
    let [a, b, c] = world.three();
    let content = Bytes::from(vec![7; 300_000]);
    let writer = a.block_writer(PartitionId(0)).unwrap();
    let block = writer.append(content.clone()).await.unwrap();
    let row = Value {
        payload: Payload::Blocks(vec![block]),
        ..value("big")
    };
    let options = WriteOptions {
        upload: Some(&writer),
        ..durable()
    };
    a.write(&key("big"), Some(row), options).await.unwrap();
    drop(writer);
    for node in [a, b, c] {
        let value = node
            .open_row(&key("big"), &[])
            .await
            .unwrap()
            .unwrap()
            .value;
        let mut stream = node.read_blocks(PartitionId(0), value.payload.blocks().to_vec());
        assert_eq!(stream.next().await.unwrap().unwrap(), content);
        assert!(stream.next().await.is_none());
    }
    world.settle().await;
    for node in [a, b, c] {
        let missing = node.store().missing_blocks(vec![block]).await.unwrap();
        assert!(missing.is_empty(), "a replica lacks the content");
    }
}

#[tokio::test(start_paused = true)]
async fn a_returning_replica_gets_the_content_with_the_row() {
    let world = World::new(3, 4).await;
    let [a, _, c] = world.three();
    world.isolate(2);
    let writer = a.block_writer(PartitionId(0)).unwrap();
    let block = writer.append(Bytes::from(vec![9; 100_000])).await.unwrap();
    let row = Value {
        payload: Payload::Blocks(vec![block]),
        ..value("big")
    };
    let options = WriteOptions {
        upload: Some(&writer),
        ..durable()
    };
    a.write(&key("big"), Some(row), options).await.unwrap();
    world.network.end_all_cuts();
    world.isolate(0);
    // Only b has the content. c must fetch it whole before it shows the row.
    assert_eq!(
        c.metadata(&key("big")).await.unwrap(),
        Some(Bytes::from("big"))
    );
    let missing = c.store().missing_blocks(vec![block]).await.unwrap();
    assert!(
        missing.is_empty(),
        "the replica has the row without its content"
    );
}

/// In virtual time: a replica that falls silent in the middle of an upload delays it for less than
/// a second, not for as long as a slow one.
#[tokio::test(start_paused = true)]
async fn a_write_goes_on_soon_without_a_silent_replica() {
    let world = World::new(3, 6).await;
    let [a, _, _] = world.three();
    let writer = a.block_writer(PartitionId(0)).unwrap();
    writer.append(Bytes::from(vec![0; 1000])).await.unwrap();
    world.isolate(2);
    let begun = tokio::time::Instant::now();
    for number in 1..=30 {
        let content = Bytes::from(vec![number; 1 << 20]);
        writer.append(content).await.unwrap();
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_isolated_node_hinders_no_other_and_serves_nothing_stale() {
    let world = World::new(3, 5).await;
    let [a, b, c] = world.three();
    a.write(&key("k"), Some(value("old")), durable())
        .await
        .unwrap();
    world.isolate(2);
    b.write(&key("k"), Some(value("new")), durable())
        .await
        .unwrap();
    assert_eq!(
        a.metadata(&key("k")).await.unwrap(),
        Some(Bytes::from("new"))
    );
    assert!(c.metadata(&key("k")).await.is_err());
    // Nobody knows whether this write took effect, so it goes to another row.
    assert!(c.write(&key("other"), None, durable()).await.is_err());
    world.network.end_all_cuts();
    assert_eq!(
        c.metadata(&key("k")).await.unwrap(),
        Some(Bytes::from("new"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_listing_shows_every_acknowledged_row() {
    let world = World::new(3, 6).await;
    let [a, b, c] = world.three();
    for n in 0..5 {
        a.write(&key(&format!("k{n}")), Some(value("x")), durable())
            .await
            .unwrap();
    }
    world.isolate(2);
    a.write(&key("k5"), Some(value("x")), durable())
        .await
        .unwrap();
    b.write(&key("k1"), None, durable()).await.unwrap();
    world.network.end_all_cuts();
    for node in [a, b, c] {
        let listing = node
            .list(ListQuery::new(PartitionId(0), Bytes::new()))
            .await
            .unwrap();
        let names = listing.entries.iter().map(|entry| match entry {
            ListEntry::Row { key, .. } => String::from_utf8(key.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        });
        assert_eq!(names.collect::<Vec<_>>(), ["k0", "k2", "k3", "k4", "k5"]);
    }
}

fn assign(node: &archipel_cluster::Cluster, zone: &str) -> LayoutChange {
    LayoutChange::Assign(Role {
        store: node.me(),
        zone: zone.into(),
        capacity_bytes: 1 << 40,
    })
}

/// One node founds a cluster and adds two more. All rows move to them, and the old version retires.
#[tokio::test(start_paused = true)]
async fn a_cluster_grows_from_one_node_to_three() {
    let world = World::unfounded(3, 7).await;
    let [a, b, c] = world.three();
    a.found("zone0", 1 << 40).await.unwrap();
    let writer = a.block_writer(PartitionId(0)).unwrap();
    let block = writer.append(Bytes::from(vec![5; 50_000])).await.unwrap();
    for n in 0..40 {
        let row = Value {
            payload: Payload::Blocks(vec![block]),
            ..value(&format!("v{n}"))
        };
        let options = WriteOptions {
            upload: Some(&writer),
            ..durable()
        };
        a.write(&key(&format!("k{n}")), Some(row), options)
            .await
            .unwrap();
    }
    drop(writer);
    a.write(&key("k7"), None, durable()).await.unwrap();
    for node in [a, b, c] {
        let node = node.clone();
        tokio::spawn(async move { node.layouts().run_rebalance().await });
    }
    let redundancy = LayoutChange::Redundancy(Redundancy {
        replicas: 3,
        zones: None,
    });
    let staged = a
        .layouts()
        .stage(vec![assign(b, "zone1"), assign(c, "zone2"), redundancy])
        .await
        .unwrap();
    a.layouts()
        .apply(staged.version, Some(staged.revision))
        .await
        .unwrap();
    let again = a.layouts().apply(staged.version, None).await;
    assert!(again.is_err(), "applied twice");
    let changing = a.epoch().unwrap();
    assert!(changing.is_changing(), "the change ended at once");
    while a.layouts().progress().is_some() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // An answer that read the epoch before the change ended still shows the change.
    assert_eq!(a.epoch().unwrap().number(), 3);
    let before = a.layouts().progress_of(&changing);
    assert_eq!(before.map(|progress| progress.to_version), Some(2));
    world.settle().await;
    // The first node is not needed any more: the other two have everything.
    world.isolate(0);
    for node in [b, c] {
        assert_eq!(node.epoch().unwrap().number(), 3);
        for n in 0..40 {
            let wanted = (n != 7).then(|| Bytes::from(format!("v{n}")));
            assert_eq!(node.metadata(&key(&format!("k{n}"))).await.unwrap(), wanted);
        }
        let missing = node.store().missing_blocks(vec![block]).await.unwrap();
        assert!(missing.is_empty(), "the content has not moved");
    }
    b.write(&key("k3"), None, durable()).await.unwrap();
    assert_eq!(c.metadata(&key("k3")).await.unwrap(), None);
}

/// A guard is a row like any other. A replica that was unreachable when it was written must not
/// treat it as gone.
#[tokio::test(start_paused = true)]
async fn a_replica_that_missed_a_guard_reads_it_before_it_refuses() {
    let world = World::new(3, 8).await;
    let [a, b, c] = world.three();
    world.isolate(2);
    a.write(&key("guard"), Some(value("held")), durable())
        .await
        .unwrap();
    world.network.end_all_cuts();
    world.isolate(0);
    let guarded = || WriteOptions {
        guards: vec![Guard::of(key("guard"))],
        ..durable()
    };
    for node in [b, c] {
        node.write(&key("k"), Some(value("x")), guarded())
            .await
            .unwrap();
    }
    b.write(&key("guard"), None, durable()).await.unwrap();
    // A write below the version found might be that version, as far as two replicas can tell.
    for (node, at) in [(b, 1), (c, 2)] {
        world.set_clock_ahead(at, Duration::from_secs(at as u64));
        let refused = node.write(&key("k"), None, guarded()).await;
        assert!(matches!(refused, Err(Error::Guarded)), "{refused:?}");
    }
}

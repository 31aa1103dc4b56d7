//! Several nodes in one process, on a simulated network.

mod failing;
mod mending;
mod skipping;
mod support;
mod verifying;

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_cluster::change::Change;
use archipel_cluster::layout::{Redundancy, Role};
use archipel_cluster::{Decision, Error, How, ListQuery};
use archipel_storage::engine::Durability;
use archipel_storage::{Body, ListEntry, Value};
use bytes::Bytes;
use support::{World, key, value};

fn durable() -> How<'static> {
    How::durable(Durability::Fsync)
}

#[tokio::test(start_paused = true)]
async fn what_one_node_writes_all_others_read() {
    let world = World::new(3, 1).await;
    let [a, b, c] = world.three();
    a.write(&key("k"), Some(value("one")), durable())
        .await
        .unwrap();
    for node in [a, b, c] {
        assert_eq!(
            node.head(&key("k")).await.unwrap(),
            Some(Bytes::from("one"))
        );
    }
    b.write(&key("k"), None, durable()).await.unwrap();
    for node in [a, b, c] {
        assert_eq!(node.read(&key("k")).await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn of_racing_updates_one_wins() {
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
async fn content_reaches_all_replicas_and_is_read_from_any() {
    let world = World::new(3, 3).await;
    let [a, b, c] = world.three();
    let content = Bytes::from(vec![7; 300_000]);
    let upload = a.upload(PartitionId(0)).unwrap();
    let block = upload.append(content.clone()).await.unwrap();
    let row = Value {
        body: Body::Blocks(vec![block]),
        ..value("big")
    };
    let how = How {
        upload: Some(&upload),
        ..durable()
    };
    a.write(&key("big"), Some(row), how).await.unwrap();
    drop(upload);
    for node in [a, b, c] {
        let value = node.open_row(&key("big")).await.unwrap().unwrap().value;
        let mut stream = node.read_blocks(PartitionId(0), value.body.blocks().to_vec());
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
async fn a_replica_that_was_away_gets_the_content_with_the_row() {
    let world = World::new(3, 4).await;
    let [a, _, c] = world.three();
    world.isolate(2);
    let upload = a.upload(PartitionId(0)).unwrap();
    let block = upload.append(Bytes::from(vec![9; 100_000])).await.unwrap();
    let row = Value {
        body: Body::Blocks(vec![block]),
        ..value("big")
    };
    let how = How {
        upload: Some(&upload),
        ..durable()
    };
    a.write(&key("big"), Some(row), how).await.unwrap();
    world.network.heal_all();
    world.isolate(0);
    // Only b has it: c must take it, whole, before it is shown.
    assert_eq!(c.head(&key("big")).await.unwrap(), Some(Bytes::from("big")));
    let missing = c.store().missing_blocks(vec![block]).await.unwrap();
    assert!(missing.is_empty(), "the row is here without its content");
}

/// In virtual time: who falls silent in the middle of an upload holds it up for less than a second, not for as long as who is slow.
#[tokio::test(start_paused = true)]
async fn a_replica_that_falls_silent_is_soon_left_behind() {
    let world = World::new(3, 6).await;
    let [a, _, _] = world.three();
    let upload = a.upload(PartitionId(0)).unwrap();
    upload.append(Bytes::from(vec![0; 1000])).await.unwrap();
    world.isolate(2);
    let begun = tokio::time::Instant::now();
    for number in 1..=30 {
        let content = Bytes::from(vec![number; 1 << 20]);
        upload.append(content).await.unwrap();
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn one_node_away_hinders_nobody_and_serves_nothing_stale() {
    let world = World::new(3, 5).await;
    let [a, b, c] = world.three();
    a.write(&key("k"), Some(value("old")), durable())
        .await
        .unwrap();
    world.isolate(2);
    b.write(&key("k"), Some(value("new")), durable())
        .await
        .unwrap();
    assert_eq!(a.head(&key("k")).await.unwrap(), Some(Bytes::from("new")));
    assert!(c.head(&key("k")).await.is_err());
    // Not known whether it took effect: so of another row.
    assert!(c.write(&key("other"), None, durable()).await.is_err());
    world.network.heal_all();
    assert_eq!(c.head(&key("k")).await.unwrap(), Some(Bytes::from("new")));
}

#[tokio::test(start_paused = true)]
async fn a_listing_has_all_that_was_acknowledged() {
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
    world.network.heal_all();
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

fn assign(node: &archipel_cluster::Cluster, zone: &str) -> Change {
    Change::Assign(Role {
        store: node.me(),
        zone: zone.into(),
        capacity_bytes: 1 << 40,
    })
}

/// One node founds a cluster and takes in two more; all rows move to them, and the old version retires.
#[tokio::test(start_paused = true)]
async fn a_cluster_grows_from_one_node_to_three() {
    let world = World::unfounded(3, 7).await;
    let [a, b, c] = world.three();
    a.found("zone0", 1 << 40).await.unwrap();
    let upload = a.upload(PartitionId(0)).unwrap();
    let block = upload.append(Bytes::from(vec![5; 50_000])).await.unwrap();
    for n in 0..40 {
        let row = Value {
            body: Body::Blocks(vec![block]),
            ..value(&format!("v{n}"))
        };
        let how = How {
            upload: Some(&upload),
            ..durable()
        };
        a.write(&key(&format!("k{n}")), Some(row), how)
            .await
            .unwrap();
    }
    drop(upload);
    a.write(&key("k7"), None, durable()).await.unwrap();
    for node in [a, b, c] {
        let node = node.clone();
        tokio::spawn(async move { node.move_forever().await });
    }
    let redundancy = Change::Redundancy(Redundancy {
        replicas: 3,
        zones: None,
    });
    let staged = a
        .stage(vec![assign(b, "zone1"), assign(c, "zone2"), redundancy])
        .await
        .unwrap();
    a.apply(staged.version, Some(staged.revision))
        .await
        .unwrap();
    let again = a.apply(staged.version, None).await;
    assert!(again.is_err(), "applied twice");
    while a.progress().is_some() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    world.settle().await;
    // Any two now know everything, without the first.
    world.isolate(0);
    for node in [b, c] {
        assert_eq!(node.epoch().unwrap().number(), 3);
        for n in 0..40 {
            let wanted = (n != 7).then(|| Bytes::from(format!("v{n}")));
            assert_eq!(node.head(&key(&format!("k{n}"))).await.unwrap(), wanted);
        }
        let missing = node.store().missing_blocks(vec![block]).await.unwrap();
        assert!(missing.is_empty(), "the content has not moved");
    }
    b.write(&key("k3"), None, durable()).await.unwrap();
    assert_eq!(c.head(&key("k3")).await.unwrap(), None);
}

/// A guard is a row like any other: a replica that was away when it was written must not
/// take it for gone.
#[tokio::test(start_paused = true)]
async fn a_replica_that_missed_a_guard_asks_before_it_refuses() {
    let world = World::new(3, 8).await;
    let [a, b, c] = world.three();
    world.isolate(2);
    a.write(&key("guard"), Some(value("held")), durable())
        .await
        .unwrap();
    world.network.heal_all();
    world.isolate(0);
    let guarded = || How {
        guards: vec![key("guard")],
        ..durable()
    };
    for node in [b, c] {
        node.write(&key("k"), Some(value("x")), guarded())
            .await
            .unwrap();
    }
    b.write(&key("guard"), None, durable()).await.unwrap();
    for node in [b, c] {
        let refused = node.write(&key("k"), None, guarded()).await;
        assert!(matches!(refused, Err(Error::Guarded)), "{refused:?}");
    }
}

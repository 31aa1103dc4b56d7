//! Feature levels: nodes of different releases in one cluster.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use archipel_cluster::change::LayoutChange;
use archipel_cluster::layout::Role;
use archipel_cluster::{Error, Hooks, World};
use bytes::Bytes;

use crate::durable;
use crate::support::{key, value};

const LATENCY: Duration = Duration::from_millis(5);

async fn world(levels: &[u32], seed: u64) -> World {
    let world = World::with_levels(levels, LATENCY, seed, Hooks::NONE).await;
    let world = world.unwrap();
    for node in &world.nodes {
        let node = node.clone();
        tokio::spawn(async move { node.layouts().run_rebalance().await });
    }
    world
}

async fn settle() {
    tokio::time::sleep(Duration::from_secs(30)).await;
}

fn levels(world: &World) -> Vec<(u64, u32)> {
    let epochs = world.nodes.iter().map(|node| node.epoch().unwrap());
    epochs.map(|epoch| (epoch.number(), epoch.level)).collect()
}

/// The level is raised by one epoch, and reads and writes continue.
#[tokio::test(start_paused = true)]
async fn the_level_is_raised_once_all_nodes_speak_it() {
    let world = world(&[2, 3, 2], 1).await;
    world.says(world.ids[2], 1);
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    a.write(&key("k"), Some(value("one")), durable())
        .await
        .unwrap();
    settle().await;
    assert_eq!(levels(&world), [(1, 1); 3]);
    // It is not known what this node speaks.
    world.says(world.ids[2], 0);
    settle().await;
    assert_eq!(levels(&world), [(1, 1); 3]);
    world.says(world.ids[2], 2);
    settle().await;
    assert_eq!(levels(&world), [(2, 2); 3]);
    for node in [a, b, c] {
        let read = node.metadata(&key("k")).await.unwrap();
        assert_eq!(read, Some(Bytes::from("one")));
        node.check_level().unwrap();
    }
    c.write(&key("k"), Some(value("two")), durable())
        .await
        .unwrap();
}

/// The third node was started again with an older release while the level was raised.
#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_speak_the_level_serves_nothing() {
    let world = world(&[2, 2, 1], 2).await;
    let [a, b, old] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    a.write(&key("k"), Some(value("one")), durable())
        .await
        .unwrap();
    world.says(world.ids[2], 2);
    settle().await;
    assert_eq!(levels(&world), [(2, 2); 3]);
    let refused = old.read(&key("k")).await.unwrap_err();
    let Error::Unavailable(why) = &refused else {
        panic!("{refused:?}");
    };
    let expected = "this node speaks feature level 1, the cluster has level 2";
    assert!(why.contains(expected) && why.contains("fix: "), "{why}");
    assert_eq!(
        old.check_level().unwrap_err().to_string(),
        refused.to_string()
    );
    assert!(
        old.write(&key("k"), Some(value("old")), durable())
            .await
            .is_err()
    );
    // The others go on, and do not count on it.
    b.write(&key("k"), Some(value("two")), durable())
        .await
        .unwrap();
    world.kill(1);
    assert!(
        a.write(&key("k"), Some(value("three")), durable())
            .await
            .is_err()
    );
    assert!(a.metadata(&key("k")).await.is_err());
}

/// It would serve nothing, so it gets no data.
#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_speak_the_level_gets_no_role() {
    let world = World::speaking(&[2, 1], LATENCY, 3, Hooks::NONE).await;
    let world = world.unwrap();
    let (node, old) = (&world.nodes[0], &world.nodes[1]);
    node.found("zone0", 1 << 40).await.unwrap();
    assert_eq!(node.epoch().unwrap().level, 2);
    let role = Role {
        store: old.me(),
        zone: "zone1".into(),
        capacity_bytes: 1 << 40,
    };
    let stage = node.layouts().stage(vec![LayoutChange::Assign(role)]);
    let staged = stage.await.unwrap();
    let refused = node.layouts().apply(staged.version, None).await;
    let why = refused.unwrap_err().to_string();
    assert!(
        why.contains("it speaks feature level 1, the cluster has level 2"),
        "{why}"
    );
    world.says(world.ids[1], 2);
    node.layouts().apply(staged.version, None).await.unwrap();
}

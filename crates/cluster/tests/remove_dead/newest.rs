//! A layout change is stuck because nodes are lost that it moves data to.

use archipel_cluster::change::Staged;
use archipel_cluster::layout::{Redundancy, Role};

use super::*;

/// Returns the role of a node in a zone of its own.
fn role(node: &Cluster) -> Role {
    archipel_cluster::World::role(node, &node.me().node.short())
}

/// Opens five nodes. The first three are in the layout, with a copy of everything.
async fn world(seed: u64) -> World {
    let world = World::three_and(2, seed).await;
    for n in 0..KEYS {
        let row = Some(value(&format!("v{n}")));
        let written = world.nodes[0].write(&key(n), row, durable()).await;
        written.expect("the row is written");
    }
    for n in (0..KEYS).step_by(8) {
        let deleted = world.nodes[0].write(&key(n), None, durable()).await;
        deleted.expect("the row is deleted");
    }
    world
}

async fn stage(node: &Cluster, changes: Vec<LayoutChange>) -> Staged {
    node.layouts()
        .stage(changes)
        .await
        .expect("the change is staged")
}

async fn apply(node: &Cluster, staged: &Staged) -> Result<(), String> {
    let applied = node
        .layouts()
        .apply(staged.version, Some(staged.revision))
        .await;
    applied.map(drop).map_err(|error| error.to_string())
}

/// Two nodes are added, and both die before any data has moved to them. They are the majority of
/// many partitions in the newest version.
#[tokio::test(start_paused = true)]
async fn change_that_lost_the_nodes_it_moves_data_to_goes_on_without_them() {
    let world = world(31).await;
    let [a, b, c] = world.three();
    let added = [&world.nodes[3], &world.nodes[4]].map(|node| LayoutChange::Assign(role(node)));
    apply(a, &stage(a, added.into()).await).await.unwrap();
    // All nodes answer, so nothing else is applied meanwhile.
    let other = stage(a, vec![LayoutChange::Remove(world.ids[3])]).await;
    let refused = apply(a, &other).await.unwrap_err();
    assert!(refused.contains("under way"), "{refused}");
    world.kill(3);
    world.kill(4);
    for node in [a, b, c] {
        let node = node.clone();
        tokio::spawn(async move { node.layouts().run_rebalance().await });
    }
    wait(120).await;
    let progress = a.layouts().progress().expect("the change is stuck");
    assert!(progress.trouble.is_some(), "{progress:?}");
    let late = Some(value("late"));
    let mut refused_writes = 0;
    for n in 0..KEYS {
        let written = a.write(&key(n), late.clone(), durable()).await;
        refused_writes += u32::from(written.is_err());
        let back = (n % 8 != 0).then(|| value(&format!("v{n}")));
        if written.is_ok() {
            a.write(&key(n), back, durable()).await.unwrap();
        }
    }
    assert!(refused_writes > 0, "no majority of the newest version");

    // One of them is left in the layout: it would be stuck as before.
    let refused = refusal(b.layouts().removal_risk(&world.ids[4]).await);
    assert!(refused.contains("layout remove"), "{refused}");
    stage(b, vec![LayoutChange::Revert]).await;
    let redundancy = Redundancy {
        replicas: 2,
        zones: None,
    };
    let still = stage(b, vec![LayoutChange::Redundancy(redundancy)]).await;
    let refused = apply(b, &still).await.unwrap_err();
    assert!(refused.contains("do not answer"), "{refused}");
    stage(b, vec![LayoutChange::Revert]).await;
    let gone = [3, 4].map(|n| LayoutChange::Remove(world.ids[n]));
    apply(b, &stage(b, gone.into()).await).await.unwrap();
    assert_eq!(b.epoch().unwrap().layouts.len(), 3);
    for lost in [3, 4] {
        let risk = b.layouts().remove_dead(&world.ids[lost]).await.unwrap();
        assert!(!risk.may_lose(), "the oldest version holds all: {risk:?}");
        assert_eq!(risk.version, 2);
    }
    while a.layouts().progress().is_some() {
        wait(1).await;
    }
    wait(30).await;
    for node in [a, b, c] {
        let epoch = node.epoch().unwrap();
        assert_eq!((epoch.layouts.len(), epoch.newest().version), (1, 3));
        for n in (0..KEYS).filter(|n| n % 8 != 0) {
            let found = node.metadata(&key(n)).await.unwrap();
            let found = found.map(|found| String::from_utf8_lossy(&found).into_owned());
            let (old, late) = (format!("v{n}"), "late".to_owned());
            assert!(found == Some(old) || found == Some(late), "k{n}");
        }
    }
}

/// The asked node leaves the layout, and hears of none that stays. The change has not ended.
#[tokio::test(start_paused = true)]
async fn change_that_nobody_drives_is_told_as_one() {
    let world = world(32).await;
    let [a, b, c] = world.three();
    let added = [&world.nodes[3], &world.nodes[4]].map(|node| LayoutChange::Assign(role(node)));
    let removed = [b, c].map(|node| LayoutChange::Remove(node.me().node));
    let staged = stage(a, added.into_iter().chain(removed).collect()).await;
    apply(a, &staged).await.unwrap();
    b.learn_from(&world.ids[0]).await.unwrap();
    assert_eq!(b.layouts().progress().unwrap().trouble, None);
    for n in [0, 3, 4] {
        world.kill(n);
    }
    wait(30).await;
    let progress = b.layouts().progress().expect("the change has not ended");
    assert_eq!(
        progress.trouble.as_deref(),
        Some("no node of the new layout answers this node")
    );
}

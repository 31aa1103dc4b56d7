use std::time::Duration;

use archipel_base::Id;

use crate::cluster::Cluster;
use crate::layout::Role;
use crate::memory::World;
use crate::node::options::Hooks;
use crate::reconfigure::change::LayoutChange;
use crate::reconfigure::rebalance::moved;

const LATENCY: Duration = Duration::from_millis(5);

/// Returns the role of a node in a zone of its own.
fn role(node: &Cluster) -> Role {
    World::role(node, &node.me().node.short())
}

/// Opens five nodes. The first three are in the layout, with a copy of everything.
async fn world() -> World {
    World::three_and(2, LATENCY, 1, Hooks::NONE).await.unwrap()
}

async fn apply(node: &Cluster, changes: Vec<LayoutChange>) -> Result<(), String> {
    let staged = node.layouts().stage(changes).await.unwrap();
    let applied = node.layouts().apply(staged.version, None).await;
    applied.map(drop).map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_lost_since_it_was_staged_is_not_taken_in() {
    let world = world().await;
    let (a, new) = (&world.nodes[0], &world.nodes[3]);
    world.says_store(new.me().node, Id([77; 16]));
    let refused = apply(a, vec![LayoutChange::Assign(role(new))]).await;
    let refused = refused.unwrap_err();
    assert!(refused.contains("has another store"), "{refused}");
    assert_eq!(a.epoch().unwrap().number(), 1);
    // The operator assigns the node with the store that it has.
    world.says_store(new.me().node, new.me().store);
    apply(a, vec![LayoutChange::Assign(role(new))])
        .await
        .unwrap();
}

/// Two nodes that data moves to come back with new disks. They answer, and their stores are gone.
#[tokio::test(start_paused = true)]
async fn change_that_waits_for_lost_stores_of_nodes_that_answer_goes_on_without_them() {
    let world = world().await;
    let (a, added) = (&world.nodes[0], &world.nodes[3..]);
    let assigned = added.iter().map(|node| LayoutChange::Assign(role(node)));
    apply(a, assigned.collect()).await.unwrap();
    let removed = || {
        let removed = added
            .iter()
            .map(|node| LayoutChange::Remove(node.me().node));
        removed.collect::<Vec<_>>()
    };
    let refused = apply(a, removed()).await.unwrap_err();
    assert!(refused.contains("wait until"), "{refused}");
    for (node, new) in added.iter().zip([77, 78]) {
        world.says_store(node.me().node, Id([new; 16]));
    }
    apply(a, removed()).await.unwrap();
    for node in added {
        let risk = a.layouts().remove_dead(&node.me().node).await.unwrap();
        assert_eq!((risk.store, risk.version), (node.me(), 2));
        assert!(!risk.may_lose(), "the oldest version holds all: {risk:?}");
    }
    for node in &world.nodes[..3] {
        let node = node.clone();
        tokio::spawn(async move { node.layouts().run_rebalance().await });
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    let epoch = a.epoch().unwrap();
    assert_eq!((epoch.layouts.len(), epoch.newest().version), (1, 3));
}

/// Data has moved to two nodes. They lose their disks before the older version has retired, and the
/// older replicas have the only copies.
#[tokio::test(start_paused = true)]
async fn an_older_version_does_not_retire_if_stores_that_data_moved_to_are_lost() {
    let world = world().await;
    let (a, added) = (&world.nodes[0], &world.nodes[3..]);
    let assigned = added.iter().map(|node| LayoutChange::Assign(role(node)));
    let removed = world.nodes[1..3].iter();
    let removed = removed.map(|node| LayoutChange::Remove(node.me().node));
    apply(a, assigned.chain(removed).collect()).await.unwrap();
    let epoch = a.epoch().unwrap();
    a.layouts().rebalance.note(|work| {
        for partition in work.begin(epoch.number(), moved(&epoch)) {
            work.ended(partition, Ok(()));
        }
    });
    for (node, new) in added.iter().zip([77, 78]) {
        world.says_store(node.me().node, Id([new; 16]));
    }
    let driver = a.clone();
    tokio::spawn(async move { driver.layouts().run_rebalance().await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(a.epoch().unwrap().layouts.len(), 2);
    let trouble = a.layouts().progress().unwrap().trouble.unwrap();
    assert!(trouble.contains("have lost the store"), "{trouble}");
    // It was a mistake: they have their stores.
    for node in added {
        world.says_store(node.me().node, node.me().store);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(a.epoch().unwrap().layouts.len(), 1);
}

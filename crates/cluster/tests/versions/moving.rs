//! Versions while the layout changes to other nodes, without anti-entropy, which would bring them too.

use archipel_cluster::Faults;
use archipel_cluster::change::LayoutChange;
use archipel_cluster::layout::Redundancy;
use archipel_cluster::register::Rules;
use archipel_cluster::register::rules::Mutant;

use super::*;
use crate::assign;

/// Opens twice as many nodes as there are replicas. The first half holds everything.
async fn halves(replicas: u8, seed: u64) -> World {
    halves_by(Rules::CORRECT, replicas, seed).await
}

async fn halves_by(rules: Rules, replicas: u8, seed: u64) -> World {
    let opened = World::unfounded(2 * replicas, LATENCY, seed, VERSIONED);
    let world = opened.await.unwrap();
    for node in &world.nodes {
        let node = node.clone();
        let faults = Faults {
            rules,
            ..Faults::default()
        };
        tokio::spawn(async move { node.layouts().run_rebalance_with(faults).await });
    }
    let half = usize::from(replicas);
    world.nodes[0].found("zone0", 1 << 40).await.unwrap();
    if replicas > 1 {
        let redundancy = LayoutChange::Redundancy(Redundancy {
            replicas,
            zones: None,
        });
        let mut changes = vec![redundancy];
        changes.extend((1..half).map(|n| assign(&world.nodes[n], &format!("zone{n}"))));
        apply(&world.nodes[0], changes).await;
        changed(&world.nodes[0]).await;
    }
    world
}

async fn apply(node: &Cluster, changes: Vec<LayoutChange>) {
    let staged = node.layouts().stage(changes).await.unwrap();
    let applied = node.layouts().apply(staged.version, Some(staged.revision));
    applied.await.unwrap();
}

/// Replaces all nodes of the first half by those of the second.
async fn replace(world: &World, through: usize) {
    let half = world.nodes.len() / 2;
    let (old, new) = world.nodes.split_at(half);
    let numbered = new.iter().enumerate();
    let assigned = numbered.map(|(n, node)| assign(node, &format!("zone{n}")));
    let removed = old.iter().map(|node| LayoutChange::Remove(node.me().node));
    apply(&world.nodes[through], assigned.chain(removed).collect()).await;
}

/// Waits until the layout has changed, as far as this node knows.
async fn changed(node: &Cluster) {
    tokio::time::sleep(Duration::from_secs(5)).await;
    while node.epoch().is_none() || node.layouts().progress().is_some() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Two replicas missed different writes. The one that displaced the older version is away while rows
/// are listed and moved.
#[tokio::test(start_paused = true)]
async fn a_version_that_one_replica_has_displaced_moves_with_the_others() {
    let world = halves(3, 1).await;
    world.isolate(2);
    let x = put(&world.nodes[0], "x").await;
    world.network.end_all_cuts();
    world.isolate(1);
    let y = put(&world.nodes[0], "y").await;
    world.network.end_all_cuts();
    world.kill(0);
    replace(&world, 1).await;
    changed(&world.nodes[3]).await;
    for node in &world.nodes[3..] {
        assert_eq!(node.epoch().unwrap().newest().roles.len(), 3);
        assert_eq!(look(node, Some(y)).await.as_deref(), Some("y"));
        assert_eq!(look(node, Some(x)).await.as_deref(), Some("x"));
    }
}

/// The death of the null version is known to two of three replicas. The third one must not bring it back.
#[tokio::test(start_paused = true)]
async fn a_null_version_stays_deleted_although_the_one_replica_that_moves_it_missed_that() {
    let world = halves(3, 2).await;
    put_null(&world.nodes[0], "null").await;
    settle().await;
    world.isolate(2);
    let deleted = world.nodes[0].write(&key("o/k"), None, durable()).await;
    deleted.unwrap();
    put(&world.nodes[0], "y").await;
    world.network.end_all_cuts();
    world.kill(0);
    replace(&world, 2).await;
    changed(&world.nodes[3]).await;
    for node in &world.nodes[3..] {
        assert_eq!(current(node).await.as_deref(), Some("y"));
        assert_eq!(look(node, None).await, None);
    }
}

/// Returns how many acknowledged versions are lost if versions are written while rows move. Rows are listed, then
/// moved in batches. A version that is displaced in between was not listed as a kept one.
async fn lost_while_rows_move(rules: Rules, seed: u64) -> usize {
    const KEYS: u64 = 100;
    let world = halves_by(rules, 1, seed).await;
    let mut acknowledged = Vec::new();
    let write = async |node: &Cluster, n: u64| {
        let row = key(&format!("o/{n:03}"));
        let written = node.write(&row, Some(value("v")), new()).await;
        written.map(|name| (row, name))
    };
    for n in 0..KEYS {
        acknowledged.push(write(&world.nodes[0], n).await.unwrap());
    }
    replace(&world, 0).await;
    let mut at = seed;
    while world.nodes[0].layouts().progress().is_some() {
        at = (at * 31 + 7) % KEYS;
        // While the layout changes a write may fail.
        acknowledged.extend(write(&world.nodes[0], at).await);
    }
    changed(&world.nodes[1]).await;
    assert!(
        acknowledged.len() as u64 > KEYS + 10,
        "nothing was written meanwhile"
    );
    let mut lost = 0;
    for (row, name) in acknowledged {
        let found = world.nodes[1].version_of(&row, Some(name)).await.unwrap();
        lost += usize::from(found.is_none());
    }
    lost
}

#[tokio::test(start_paused = true)]
async fn versions_that_are_written_while_rows_move_displace_nothing_for_good() {
    let mut lost_without = 0;
    for seed in 0..4 {
        let lost = lost_while_rows_move(Rules::CORRECT, seed).await;
        assert_eq!(lost, 0, "seed {seed}");
        lost_without += lost_while_rows_move(Rules::broken(Mutant::MoveRowsAlone), seed).await;
    }
    assert!(lost_without > 0, "the control does not work");
}

//! A cluster goes on without a node that is lost for good.

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_cluster::change::LayoutChange;
use archipel_cluster::{Cluster, Error};
use archipel_storage::RowKey;
use bytes::Bytes;

use crate::durable;
use crate::support::{World, value};

mod newest;

const KEYS: u16 = 64;

/// Keys of many partitions.
fn key(n: u16) -> RowKey {
    RowKey {
        partition: PartitionId(n),
        key: Bytes::from(format!("k{n}")),
    }
}

async fn wait(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn assert_all_rows(node: &Cluster) {
    for n in 0..KEYS {
        let wanted = (n % 8 != 0).then(|| Bytes::from(format!("v{n}")));
        let found = node.metadata(&key(n)).await.expect("the row is read");
        assert_eq!(found, wanted, "k{n}");
    }
}

fn refusal(risk: Result<archipel_cluster::remove_dead::Risk, Error>) -> String {
    risk.expect_err("a refusal").to_string()
}

/// Four nodes, two copies of everything: the loss of one node takes away the majority of half of
/// all partitions.
#[tokio::test(start_paused = true)]
async fn an_older_layout_retires_without_a_lost_node_only_after_its_removal() {
    let world = World::with_replicas(4, 2, 21).await;
    let [a, b, c] = world.three();
    for n in 0..KEYS {
        let node = &world.nodes[usize::from(n) % 4];
        let (row, new) = (key(n), value(&format!("v{n}")));
        node.write(&row, Some(new), durable()).await.unwrap();
    }
    for n in (0..KEYS).step_by(8) {
        a.write(&key(n), None, durable()).await.unwrap();
    }
    for node in [a, b, c] {
        let node = node.clone();
        tokio::spawn(async move { node.layouts().run_rebalance().await });
    }
    let lost = world.ids[3];
    assert!(refusal(b.layouts().removal_risk(&lost).await).contains("newest layout version"));
    world.kill(3);
    let staged = a
        .layouts()
        .stage(vec![LayoutChange::Remove(lost)])
        .await
        .unwrap();
    assert!(refusal(a.layouts().removal_risk(&lost).await).contains("layout remove"));
    a.layouts()
        .apply(staged.version, Some(staged.revision))
        .await
        .unwrap();
    wait(300).await;
    let progress = a
        .layouts()
        .progress()
        .expect("the older version cannot retire");
    assert!(progress.trouble.is_some(), "{progress:?}");
    assert!(
        a.metadata(&key(3)).await.is_err(),
        "no majority of both versions"
    );
    assert!(refusal(b.layouts().removal_risk(&world.ids[0]).await).contains("layout remove"));

    let risk = b.layouts().remove_dead(&lost).await.unwrap();
    assert!(!risk.may_lose(), "{risk:?}");
    let again = b.layouts().remove_dead(&lost).await;
    assert!(refusal(again).contains("already"));
    assert_all_rows(b).await;
    while a.layouts().progress().is_some() {
        wait(1).await;
    }
    wait(30).await;
    for node in [a, b, c] {
        assert_eq!(node.epoch().unwrap().layouts.len(), 1);
        assert_all_rows(node).await;
    }
    // The removed node comes back. It is shut out, and takes no part itself once it is admitted.
    world.network.end_all_cuts();
    let back = &world.nodes[3];
    assert!(back.metadata(&key(3)).await.is_err());
    a.layouts().admit(lost).await.unwrap();
    back.learn_from(&world.ids[0]).await.unwrap();
    assert_all_rows(back).await;
    let epoch = back.epoch().unwrap();
    assert_eq!(epoch.number(), a.epoch().unwrap().number());
    assert_eq!(epoch.incarnation_of(&back.me()), None);
}

/// A node that does not know yet of the removal cannot acknowledge anything together with the
/// removed node alone.
#[tokio::test(start_paused = true)]
async fn a_removed_node_acknowledges_nothing() {
    let world = World::with_replicas(4, 2, 22).await;
    let [a, _, _] = world.three();
    let cut_off = &world.nodes[3];
    world.kill(3);
    let staged = a
        .layouts()
        .stage(vec![LayoutChange::Remove(world.ids[3])])
        .await
        .unwrap();
    a.layouts().apply(staged.version, None).await.unwrap();
    a.layouts().remove_dead(&world.ids[3]).await.unwrap();
    // The copies of partition 3 are on the last node and the first.
    a.write(&key(3), Some(value("new")), durable())
        .await
        .unwrap();
    assert!(
        cut_off
            .write(&key(3), Some(value("x")), durable())
            .await
            .is_err()
    );
    assert!(cut_off.metadata(&key(3)).await.is_err());
    world.network.end_all_cuts();
    wait(60).await;
    // It is shut out, whether it knows of the removal or not.
    let (row, late) = (key(3), || Some(value("late")));
    for _ in 0..2 {
        assert!(cut_off.metadata(&row).await.is_err());
        assert!(cut_off.write(&row, late(), durable()).await.is_err());
        cut_off.learn_from(&world.ids[0]).await.unwrap();
    }
    assert_eq!(a.metadata(&row).await.unwrap(), Some(Bytes::from("new")));
}

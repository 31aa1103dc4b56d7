//! Going on without a node that is lost for good.

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_cluster::change::Change;
use archipel_cluster::{Cluster, Error};
use archipel_storage::RowKey;
use bytes::Bytes;

use crate::durable;
use crate::support::{World, value};

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

async fn all_is_there(node: &Cluster) {
    for n in 0..KEYS {
        let wanted = (n % 8 != 0).then(|| Bytes::from(format!("v{n}")));
        let found = node.head(&key(n)).await.expect("it is read");
        assert_eq!(found, wanted, "k{n}");
    }
}

fn refusal(asked: Result<archipel_cluster::skip::Risk, Error>) -> String {
    asked.expect_err("it is refused").to_string()
}

/// Four nodes, two copies of everything: a node that is lost takes the majority of half of all partitions with it.
#[tokio::test(start_paused = true)]
async fn an_older_layout_retires_without_a_node_that_is_lost_only_when_it_is_told_to() {
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
        tokio::spawn(async move { node.move_forever().await });
    }
    let lost = world.ids[3];
    assert!(refusal(b.skip_risk(&lost)).contains("newest layout version"));
    world.kill(3);
    let staged = a.stage(vec![Change::Remove(lost)]).await.unwrap();
    assert!(refusal(a.skip_risk(&lost)).contains("layout remove"));
    a.apply(staged.version, Some(staged.revision))
        .await
        .unwrap();
    wait(300).await;
    let progress = a.progress().expect("the older version cannot retire");
    assert!(progress.trouble.is_some(), "{progress:?}");
    assert!(
        a.head(&key(3)).await.is_err(),
        "no majority of both versions"
    );
    assert!(refusal(b.skip_risk(&world.ids[0])).contains("layout remove"));

    let risk = b.skip_dead(&lost).await.unwrap();
    assert!(!risk.may_lose(), "{risk:?}");
    let again = b.skip_dead(&lost).await;
    assert!(refusal(again).contains("already"));
    all_is_there(b).await;
    while a.progress().is_some() {
        wait(1).await;
    }
    wait(30).await;
    for node in [a, b, c] {
        assert_eq!(node.epoch().unwrap().layouts.len(), 1);
        all_is_there(node).await;
    }
    // It comes back: it asks others, and has no part in it itself.
    world.network.heal_all();
    let back = &world.nodes[3];
    all_is_there(back).await;
    let epoch = back.epoch().unwrap();
    assert_eq!(epoch.number(), a.epoch().unwrap().number());
    assert_eq!(epoch.incarnation_of(&back.me()), None);
}

/// Somebody who does not know yet that it was skipped cannot acknowledge anything with it alone.
#[tokio::test(start_paused = true)]
async fn who_was_skipped_acknowledges_nothing() {
    let world = World::with_replicas(4, 2, 22).await;
    let [a, _, _] = world.three();
    let cut_off = &world.nodes[3];
    world.kill(3);
    let staged = a.stage(vec![Change::Remove(world.ids[3])]).await.unwrap();
    a.apply(staged.version, None).await.unwrap();
    a.skip_dead(&world.ids[3]).await.unwrap();
    // Partition 3 has its copies on the last node and the first.
    a.write(&key(3), Some(value("new")), durable())
        .await
        .unwrap();
    assert!(
        cut_off
            .write(&key(3), Some(value("x")), durable())
            .await
            .is_err()
    );
    assert!(cut_off.head(&key(3)).await.is_err());
    world.network.heal_all();
    wait(60).await;
    let seen = cut_off.head(&key(3)).await.unwrap();
    assert_eq!(seen, a.head(&key(3)).await.unwrap());
    let (row, new) = (key(3), value("later"));
    cut_off.write(&row, Some(new), durable()).await.unwrap();
    assert_eq!(a.head(&key(3)).await.unwrap(), Some(Bytes::from("later")));
}

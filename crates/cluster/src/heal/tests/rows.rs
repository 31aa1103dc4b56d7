//! Rows and blocks come, and come right.

use super::*;
use crate::register::{Answer, Request};
use crate::wire::RowCall;

const LONG: Duration = Duration::from_secs(120);

/// A node promises an update of which nothing more is heard.
async fn promise(node: &Cluster, name: &str) {
    let group = node.0.group(PartitionId(0)).unwrap();
    let place = group.local().unwrap();
    let later = Stamp::new(node.now_ms() + 5_000, 0, Writer(7));
    let prepare = RowCall {
        address: group.address(place).unwrap(),
        key: key(name).key,
        guards: Vec::new(),
        buffered: false,
        with_body: false,
        background: false,
        request: Request::Prepare {
            ballot: node.0.next_stamp(later),
            asking: None,
            guarded: false,
        },
    };
    let promised = node.0.answer(prepare).await.unwrap();
    assert!(matches!(promised, Answer::Promised { .. }));
}

#[tokio::test(start_paused = true)]
async fn what_a_node_missed_while_it_was_away_comes_by_itself() {
    let world = three(1).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    for n in 0..10 {
        let old = Some(value("old"));
        a.write(&key(format!("row {n}")), old, durable())
            .await
            .unwrap();
    }
    tokio::time::sleep(LONG).await;
    world.isolate(2);
    for n in 0..5 {
        let row = key(format!("row {n}"));
        a.write(&row, Some(value("new")), durable()).await.unwrap();
    }
    b.write(&key("row 9"), None, durable()).await.unwrap();
    let content = Bytes::from(vec![5; 200_000]);
    put(a, "big", content).await;
    tokio::time::sleep(LONG).await;
    assert_ne!(print(a).await, print(c).await);

    world.network.heal_all();
    heal_all(&world);
    tokio::time::sleep(LONG).await;
    assert_eq!(print(a).await, print(b).await);
    assert_eq!(print(a).await, print(c).await);
    let row = c.store().read(|rows| rows.row(&key("big"))).await.unwrap();
    let body = row.unwrap().value.unwrap().body;
    let missing = c.store().missing_blocks(body.blocks().to_vec()).await;
    assert_eq!(missing.unwrap(), []);
    let healing = c.healing();
    assert_eq!((healing.rows, healing.blocks), (7, 1));
    assert_eq!((healing.block_bytes, healing.waiting_bytes), (200_000, 0));
    let whole = |peer: &super::super::PeerHealing| peer.whole_ms > 0 && peer.partitions == 0;
    assert!(healing.peers.iter().all(whole), "{healing:?}");
}

#[tokio::test(start_paused = true)]
async fn a_row_waits_until_its_blocks_can_be_had() {
    let world = three(2).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    world.isolate(2);
    // It does not get shorter by compression.
    let mut content = vec![0; 100_000];
    a.fill_random(&mut content);
    let content = Bytes::from(content);
    put(a, "big", content.clone()).await;
    tokio::time::sleep(LONG).await;
    world.network.heal_all();
    // Whoever has the content can be asked for rows, but gives no blocks.
    for disk in &world.disks[..2] {
        disk.flip(1, 5000, 1);
    }
    let healed = c.heal_from(&world.ids[0], HealOptions::default()).await;
    assert!(!healed.unwrap());
    let row = c.store().read(|rows| rows.row(&key("big"))).await.unwrap();
    assert_eq!(row, None);

    let mended = b.store().upload();
    mended.append(content).await.unwrap();
    mended.sync().await.unwrap();
    let healed = c.heal_from(&world.ids[0], HealOptions::default()).await;
    assert!(healed.unwrap());
    assert_eq!(print(a).await, print(c).await);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_a_promise_holds_back_is_read_and_comes() {
    let world = three(3).await;
    let [a, _, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    world.isolate(2);
    a.write(&key("k"), Some(value("v")), durable())
        .await
        .unwrap();
    tokio::time::sleep(LONG).await;
    // An update that its client gave up reached c alone.
    promise(c, "k").await;

    world.network.heal_all();
    let healed = c.heal_from(&world.ids[0], HealOptions::default()).await;
    assert!(healed.unwrap());
    assert_eq!(print(a).await, print(c).await);
}

/// What only a minority holds may spread like any late message, but never over a promise.
#[tokio::test(start_paused = true)]
async fn what_a_minority_holds_does_not_pass_a_promise() {
    let world = three(4).await;
    let [a, _, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    let now = c.now_ms();
    plant(a, vec![(key("k"), stamp(now - 5000))]).await;
    let group = c.0.group(PartitionId(0)).unwrap();
    let promise = move |txn: &mut RowTxn<'_>| txn.promise(&key("k"), stamp(now));
    c.store()
        .transact(Durability::Fsync, promise)
        .await
        .unwrap();
    let pass = super::super::pass::Pass::new(
        c.0.clone(),
        group.members[1],
        &c.epoch().unwrap(),
        HealOptions::default(),
    );
    let offer = crate::replica::Offer {
        version: crate::register::Version {
            stamp: stamp(now - 5000),
            write: Id::default(),
            value: Some(value("planted")),
        },
        settled: false,
        rules: crate::register::Rules::CORRECT,
    };
    let address = pass.own_address(PartitionId(0));
    let taken = c.0.replica.take(address, key("k"), offer).await.unwrap();
    assert_eq!(taken, crate::replica::Taken::Promised);
}

/// What one replica alone holds, and a quorum's promises keep from the others: a read does not see it, and yet all
/// come to hold the same.
#[tokio::test(start_paused = true)]
async fn what_nobody_may_take_is_written_over() {
    let world = three(5).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    a.write(&key("k"), Some(value("v")), durable())
        .await
        .unwrap();
    tokio::time::sleep(LONG).await;
    let late = c.now_ms() + 1000;
    plant(c, vec![(key("k"), stamp(late))]).await;
    for node in [a, b] {
        let promise = move |txn: &mut RowTxn<'_>| txn.promise(&key("k"), stamp(late + 1000));
        node.store()
            .transact(Durability::Fsync, promise)
            .await
            .unwrap();
    }
    heal_all(&world);
    tokio::time::sleep(LONG).await;
    assert_eq!(print(a).await, print(b).await);
    assert_eq!(print(a).await, print(c).await);
}

/// A race leaves a replica out: it promised an update that came to nothing. It is told, and need not wait for its next pass.
#[tokio::test(start_paused = true)]
async fn a_replica_that_refused_a_write_is_told_to_fetch_it() {
    let world = three(5).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    heal_all(&world);
    tokio::time::sleep(LONG).await;
    promise(c, "k").await;
    let passes = c.healing().passes;
    a.write(&key("k"), Some(value("v")), durable())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_ne!(print(b).await, print(c).await);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(print(b).await, print(c).await);
    assert_eq!(c.healing().passes, passes + 2, "one with each other node");
}

/// A replica that missed that a row was replaced refers to content that nobody else has any more: its block cannot be
/// mended, but is not needed once the row has come.
#[tokio::test(start_paused = true)]
async fn a_block_that_nobody_has_brings_the_row_that_replaced_it() {
    let world = three(6).await;
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    a.write(&key("k"), Some(value("new")), durable())
        .await
        .unwrap();
    heal_all(&world);
    tokio::time::sleep(LONG).await;
    let upload = c.store().upload();
    let block = upload.append(Bytes::from(vec![3; 9000])).await.unwrap();
    upload.sync().await.unwrap();
    let before = stamp(c.now_ms() - 600_000);
    let old = Row {
        promised: before,
        stamp: before,
        write: Id::default(),
        value: Some(Value {
            body: Body::Blocks(vec![block]),
            ..value("old")
        }),
    };
    let set = move |txn: &mut RowTxn<'_>| txn.set(&key("k"), &old);
    c.store().transact(Durability::Fsync, set).await.unwrap();
    drop(upload);
    world.disks[2].flip(1, 100, 1);
    c.note_damaged([block.hash]);
    assert_eq!(c.mend_round().await.unwrap().failed, 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(print(a).await, print(c).await);
    c.hurry_mending();
    c.mend_round().await.unwrap();
    assert_eq!(c.mending().waiting, 0);
}

/// What one other node still holds comes before what two hold.
#[tokio::test(start_paused = true)]
async fn what_has_the_fewest_copies_comes_first() {
    let latency = Duration::from_millis(20);
    let world = World::new(5, 3, latency, 1, Hooks::NONE).await.unwrap();
    let [me, dead] = [&world.nodes[0], &world.nodes[4]];
    world.kill(4);
    let epoch = me.epoch().unwrap();
    let shared = me.0.shared(&epoch);
    let mut partitions: Vec<_> = shared.values().flatten().copied().collect();
    partitions.sort_unstable();
    partitions.dedup();
    super::super::pass::most_urgent_first(&me.0, &mut partitions);
    let urgent = |partition: &PartitionId| {
        let group = me.0.group(*partition).unwrap();
        group.members.iter().any(|member| member.node == dead.me())
    };
    let count = partitions.iter().filter(|p| urgent(p)).count();
    assert!(count > 0 && count < partitions.len());
    assert!(partitions.iter().take(count).all(urgent));
}

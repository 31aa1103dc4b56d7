//! Rows and blocks arrive, and arrive intact.

use archipel_base::{Stamp, Writer};
use archipel_storage::engine::Durability;
use archipel_storage::{Payload, RowTxn};

use super::*;
use crate::node::wire::RowCall;
use crate::register::{Answer, Request};

const LONG: Duration = Duration::from_secs(120);

/// Makes a node promise that it accepts nothing below a stamp.
async fn promise_up_to(node: &Cluster, up_to: Stamp) {
    let promise = move |txn: &mut RowTxn<'_>| txn.promise(&key("k"), up_to);
    let promised = node.store().transact(Durability::Fsync, promise).await;
    promised.unwrap();
}

/// Returns the stamp of a row as a node holds it.
async fn held(node: &Cluster, name: &'static str) -> Stamp {
    let row = node.store().read(move |rows| rows.row(&key(name))).await;
    row.unwrap().unwrap().stamp
}

/// Makes a node promise an update that is never written.
async fn promise(node: &Cluster, name: &str) {
    let group = node.group(PartitionId(0)).unwrap();
    let index = group.local().unwrap();
    let later = Stamp::new(node.now_ms() + 5_000, 0, Writer(7));
    let prepare = Request::Prepare {
        ballot: node.next_stamp(later),
        asking: None,
        guarded: false,
    };
    let address = group.address(index).unwrap();
    let prepare = RowCall::plain(address, key(name).key, prepare);
    let promised = node.answer(prepare).await.unwrap();
    assert!(matches!(promised, Answer::Promised { .. }));
}

#[tokio::test(start_paused = true)]
async fn anti_entropy_brings_rows_that_a_node_missed_while_it_was_away() {
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
    assert_ne!(digest(a).await, digest(c).await);

    world.network.end_all_cuts();
    run_anti_entropy_everywhere(&world);
    tokio::time::sleep(LONG).await;
    assert_eq!(digest(a).await, digest(b).await);
    assert_eq!(digest(a).await, digest(c).await);
    let row = c.store().read(|rows| rows.row(&key("big"))).await.unwrap();
    let payload = row.unwrap().value.unwrap().payload;
    let missing = c.store().missing_blocks(payload.blocks().to_vec()).await;
    assert_eq!(missing.unwrap(), []);
    let status = c.upkeep().anti_entropy_status();
    assert_eq!((status.rows, status.blocks), (7, 1));
    assert_eq!((status.block_bytes, status.waiting_bytes), (200_000, 0));
    let whole = |peer: &super::super::PeerStatus| peer.whole_ms > 0 && peer.partitions == 0;
    assert!(status.peers.iter().all(whole), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn row_waits_until_its_blocks_can_be_fetched() {
    let world = three(2).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    world.isolate(2);
    // Random bytes, because compression must not shorten them.
    let mut content = vec![0; 100_000];
    a.fill_random(&mut content);
    let content = Bytes::from(content);
    put(a, "big", content.clone()).await;
    tokio::time::sleep(LONG).await;
    world.network.end_all_cuts();
    // Nodes with damaged content still serve rows, but no blocks.
    for disk in &world.disks[..2] {
        disk.flip(1, 5000, 1);
    }
    let pulled = c
        .upkeep()
        .pull_from(&world.ids[0], AntiEntropyOptions::default())
        .await;
    assert!(!pulled.unwrap());
    let row = c.store().read(|rows| rows.row(&key("big"))).await.unwrap();
    assert_eq!(row, None);

    let restored = b.store().appender();
    restored.append(content).await.unwrap();
    restored.sync().await.unwrap();
    let pulled = c
        .upkeep()
        .pull_from(&world.ids[0], AntiEntropyOptions::default())
        .await;
    assert!(pulled.unwrap());
    assert_eq!(digest(a).await, digest(c).await);
}

#[tokio::test(start_paused = true)]
async fn row_that_a_promise_keeps_out_is_read_from_a_quorum() {
    let world = three(3).await;
    let [a, _, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    world.isolate(2);
    a.write(&key("k"), Some(value("v")), durable())
        .await
        .unwrap();
    tokio::time::sleep(LONG).await;
    // An update that its client gave up reached c alone.
    promise(c, "k").await;

    world.network.end_all_cuts();
    let to_b = || {
        let frames = world.network.frames();
        frames.get(&(world.ids[2], world.ids[1])).copied()
    };
    let before = to_b();
    let pulled = c
        .upkeep()
        .pull_from(&world.ids[0], AntiEntropyOptions::default())
        .await;
    assert!(pulled.unwrap());
    assert_eq!(digest(a).await, digest(c).await);
    assert_eq!(held(c, "k").await, held(a, "k").await);
    // One replica that holds it is not enough.
    assert!(to_b() > before, "c took what a holds, and asked no quorum");
}

/// A version that only a minority holds may spread like a late message, but never against a
/// promise.
#[tokio::test(start_paused = true)]
async fn version_of_a_minority_does_not_pass_a_promise() {
    let world = three(4).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    let now = c.now_ms();
    plant(a, vec![(key("k"), stamp(now - 5000))]).await;
    for node in [b, c] {
        promise_up_to(node, stamp(now)).await;
    }
    let pulled = c
        .upkeep()
        .pull_from(&world.ids[0], AntiEntropyOptions::default())
        .await;
    assert!(pulled.unwrap());
    tokio::time::sleep(Duration::from_secs(1)).await;
    // A quorum has decided what the row is, under a stamp that the promise lets pass.
    assert!(held(c, "k").await > stamp(now));
}

/// One replica alone holds a version, and the promises of a quorum keep it out elsewhere. A read
/// does not see it, and yet all replicas converge.
#[tokio::test(start_paused = true)]
async fn version_that_no_replica_may_apply_is_overwritten() {
    let world = three(5).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    a.write(&key("k"), Some(value("v")), durable())
        .await
        .unwrap();
    tokio::time::sleep(LONG).await;
    let late = c.now_ms() + 1000;
    plant(c, vec![(key("k"), stamp(late))]).await;
    for node in [a, b] {
        promise_up_to(node, stamp(late + 1000)).await;
    }
    run_anti_entropy_everywhere(&world);
    tokio::time::sleep(LONG).await;
    assert_eq!(digest(a).await, digest(b).await);
    assert_eq!(digest(a).await, digest(c).await);
    for node in [a, b, c] {
        assert!(held(node, "k").await > stamp(late + 1000));
    }
}

/// In a race one replica promised an update that failed, and missed the write. It is told, and need
/// not wait for its next pass.
#[tokio::test(start_paused = true)]
async fn replica_that_refused_a_write_is_told_to_fetch_it() {
    let world = three(5).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    run_anti_entropy_everywhere(&world);
    tokio::time::sleep(LONG).await;
    promise(c, "k").await;
    let passes = c.upkeep().anti_entropy_status().passes;
    a.write(&key("k"), Some(value("v")), durable())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_ne!(digest(b).await, digest(c).await);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(digest(b).await, digest(c).await);
    assert_eq!(
        c.upkeep().anti_entropy_status().passes,
        passes + 2,
        "one with each other node"
    );
}

/// A replica missed that a row was replaced. It refers to content that no other node has any more.
/// The block cannot be repaired, but is not needed once the newer row has come.
#[tokio::test(start_paused = true)]
async fn block_that_no_replica_has_makes_the_newer_row_come() {
    let world = three(6).await;
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    a.write(&key("k"), Some(value("new")), durable())
        .await
        .unwrap();
    run_anti_entropy_everywhere(&world);
    tokio::time::sleep(LONG).await;
    let upload = c.store().appender();
    let block = upload.append(Bytes::from(vec![3; 9000])).await.unwrap();
    upload.sync().await.unwrap();
    let before = stamp(c.now_ms() - 600_000);
    let old = Row {
        promised: before,
        stamp: before,
        write: Id::default(),
        value: Some(Value {
            payload: Payload::Blocks(vec![block]),
            ..value("old")
        }),
    };
    let set = move |txn: &mut RowTxn<'_>| txn.set(&key("k"), &old);
    c.store().transact(Durability::Fsync, set).await.unwrap();
    drop(upload);
    world.disks[2].flip(1, 100, 1);
    c.upkeep().note_damaged([block.hash]);
    assert_eq!(c.upkeep().repair_round().await.unwrap().failed, 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(digest(a).await, digest(c).await);
    c.upkeep().retry_repairs();
    c.upkeep().repair_round().await.unwrap();
    assert_eq!(c.upkeep().repair_status().waiting, 0);
}

/// A write reached one replica alone, and had no answer. Then the disk with its blocks was lost. Nobody
/// can store that version any more, so all replicas go back to the one before.
#[tokio::test(start_paused = true)]
async fn version_of_a_minority_whose_blocks_are_lost_is_overwritten() {
    let world = three(7).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    a.write(&key("k"), Some(value("old")), durable())
        .await
        .unwrap();
    run_anti_entropy_everywhere(&world);
    tokio::time::sleep(LONG).await;
    let upload = c.store().appender();
    let block = upload.append(Bytes::from(vec![3; 9000])).await.unwrap();
    upload.sync().await.unwrap();
    let later = stamp(c.now_ms());
    let new = Row {
        promised: later,
        stamp: later,
        write: Id::default(),
        value: Some(Value {
            payload: Payload::Blocks(vec![block]),
            ..value("new")
        }),
    };
    let set = move |txn: &mut RowTxn<'_>| txn.set(&key("k"), &new);
    c.store().transact(Durability::Fsync, set).await.unwrap();
    drop(upload);
    world.disks[2].flip(1, 100, 1);
    c.upkeep().note_damaged([block.hash]);
    assert_eq!(c.upkeep().repair_round().await.unwrap().failed, 1);

    tokio::time::sleep(Duration::from_secs(1800)).await;
    for node in [a, b, c] {
        let row = node.store().read(|rows| rows.row(&key("k"))).await.unwrap();
        assert_eq!(row.unwrap().value, Some(value("old")));
        assert_eq!(digest(a).await, digest(node).await);
    }
    c.upkeep().retry_repairs();
    c.upkeep().repair_round().await.unwrap();
    assert_eq!(c.upkeep().repair_status().waiting, 0);
}

/// A row with one other copy comes before a row with two.
#[tokio::test(start_paused = true)]
async fn partitions_with_the_fewest_copies_come_first() {
    let latency = Duration::from_millis(20);
    let world = World::new(5, 3, latency, 1, Hooks::NONE).await.unwrap();
    let [me, dead] = [&world.nodes[0], &world.nodes[4]];
    world.kill(4);
    let epoch = me.epoch().unwrap();
    let shared = me.upkeep().shared(&epoch);
    let mut partitions: Vec<_> = shared.values().flatten().copied().collect();
    partitions.sort_unstable();
    partitions.dedup();
    super::super::pass::most_urgent_first(me.upkeep(), &mut partitions);
    let urgent = |partition: &PartitionId| {
        let group = me.group(*partition).unwrap();
        group.members.iter().any(|member| member.node == dead.me())
    };
    let count = partitions.iter().filter(|p| urgent(p)).count();
    assert!(count > 0 && count < partitions.len());
    assert!(partitions.iter().take(count).all(urgent));
}

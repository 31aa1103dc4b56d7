//! Rows and blocks that one of the two nodes cannot read.

use archipel_storage::engine::{Durability, Engine, Tree};
use archipel_storage::{Payload, RowTxn};

use super::*;
use crate::memory::versioned::VERSIONED;
use crate::node::replica::versions::kept_row;
use crate::upkeep::anti_entropy::pass::Pass;
use crate::upkeep::anti_entropy::schedule::Ended;

const LONG: Duration = Duration::from_secs(120);

/// Damages a node's row of partition 0.
pub(super) fn damage(world: &World, node: usize, name: &str) {
    let place = [&[0, 0], name.as_bytes()].concat();
    let mut txn = world.engines[node].write().unwrap();
    let row = txn.get(Tree::Rows, &place).unwrap().unwrap();
    let mut row = row.into_owned();
    row[20] ^= 4;
    txn.put(Tree::Rows, &place, &row).unwrap();
    txn.commit(Durability::Fsync).unwrap();
}

/// Returns a pass of a node with another one.
pub(super) fn pass(node: &Cluster, other: &Cluster) -> Pass {
    let members = node.group(PartitionId(0)).unwrap().members;
    let other = members.iter().find(|member| member.node == other.me());
    let epoch = node.epoch().unwrap();
    let (upkeep, options) = (node.upkeep().clone(), AntiEntropyOptions::default());
    Pass::new(upkeep, *other.unwrap(), &epoch, options)
}

/// A damaged row cannot be replaced. Rows beside it, of the same hour, arrive all the same.
#[tokio::test(start_paused = true)]
async fn a_damaged_row_keeps_no_other_row_away() {
    let world = three(8).await;
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    let old = Some(value("old"));
    a.write(&key("rotten"), old, durable()).await.unwrap();
    tokio::time::sleep(LONG).await;
    world.isolate(2);
    for name in ["rotten", "a", "z"] {
        let new = Some(value("new"));
        a.write(&key(name), new, durable()).await.unwrap();
    }
    tokio::time::sleep(LONG).await;
    damage(&world, 2, "rotten");

    world.network.end_all_cuts();
    let from_a = c.upkeep();
    let pulled = from_a.pull_from(&world.ids[0], AntiEntropyOptions::default());
    assert!(!pulled.await.unwrap(), "the damaged row is left");
    for name in ["a", "z"] {
        let row = c.store().read(move |rows| rows.row(&key(name))).await;
        assert_eq!(row.unwrap().unwrap().value, Some(value("new")), "{name}");
    }
    let rotten = c.store().read(|rows| rows.metadata(&key("rotten"))).await;
    assert!(matches!(rotten, Err(archipel_storage::Error::Damaged(_))));
    let again = pass(c, a).run([PartitionId(0)].into()).await;
    assert_eq!(again.unwrap(), Ended::Stuck, "nothing comes any more");
}

/// A kept row is listed. When it is asked for, its version is current (again), and in the object's
/// row.
#[tokio::test(start_paused = true)]
async fn a_kept_row_that_is_gone_is_not_left() {
    let latency = Duration::from_millis(20);
    let world = World::new(3, 3, latency, 11, VERSIONED).await.unwrap();
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    let prefix = (VERSIONED.kept_prefix)(&key("o/k")).unwrap();
    let at = stamp(a.now_ms());
    let kept = kept_row(&prefix, &key("o/k"), Some(at));
    let pass = pass(c, a);
    assert!(pass.pull(vec![(kept, at)]).await.unwrap());
    assert!(!pass.pull(vec![(key("o/k"), at)]).await.unwrap());
}

/// A row is damaged on the node that is asked. It did not come, and a row beside it did.
#[tokio::test(start_paused = true)]
async fn a_row_that_the_other_node_cannot_read_is_left() {
    let world = three(9).await;
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    world.isolate(2);
    for name in ["rotten", "z"] {
        let new = Some(value("new"));
        a.write(&key(name), new, durable()).await.unwrap();
    }
    tokio::time::sleep(LONG).await;
    damage(&world, 0, "rotten");

    world.network.end_all_cuts();
    let whole = async |other: usize| {
        let options = AntiEntropyOptions::default();
        let pulled = c.upkeep().pull_from(&world.ids[other], options);
        pulled.await.unwrap()
    };
    let held = async |name: &'static str| {
        let row = c.store().read(move |rows| rows.row(&key(name))).await;
        row.unwrap().and_then(|row| row.value)
    };
    assert!(!whole(0).await, "the damaged row is left");
    assert_eq!(c.upkeep().anti_entropy_status().rows, 1);
    assert_eq!(
        (held("rotten").await, held("z").await),
        (None, Some(value("new")))
    );
    assert!(whole(1).await);
    assert_eq!(held("rotten").await, Some(value("new")));
    assert!(whole(0).await, "nothing newer is left there");
}

/// The holder of a version is asked once about all blocks, of which the last one is lost.
#[tokio::test(start_paused = true)]
async fn a_node_is_asked_once_what_a_row_has_lost() {
    const BLOCKS: u8 = 40;
    let world = three(10).await;
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    let upload = c.store().appender();
    let mut blocks = Vec::new();
    for n in 0..BLOCKS {
        let block = upload.append(Bytes::from(vec![n; 9000])).await;
        blocks.push(block.unwrap());
    }
    upload.sync().await.unwrap();
    blocks.rotate_left(1);
    let at = stamp(c.now_ms());
    let row = Row {
        promised: at,
        stamp: at,
        write: Id::default(),
        value: Some(Value {
            payload: Payload::Blocks(blocks),
            ..value("big")
        }),
    };
    let set = move |txn: &mut RowTxn<'_>| txn.set(&key("k"), &row);
    c.store().transact(Durability::Fsync, set).await.unwrap();
    drop(upload);
    let pass = pass(a, c);
    let is_lost = async |at| pass.is_lost_there(&key("k"), at).await.unwrap();
    assert!(!is_lost(at).await);
    world.disks[2].flip(1, 100, 1);
    let asked = || world.network.frames()[&(world.ids[0], world.ids[2])];
    let before = asked();
    assert!(is_lost(at).await);
    assert!(asked() - before < u64::from(BLOCKS));
    // It holds another version by now.
    assert!(!is_lost(stamp(at.millis() - 1)).await);
}

//! Tombstones and promises are dropped once every replica agrees, and only then.

use std::time::Duration;

use archipel_base::Id;
use archipel_storage::engine::Durability;
use archipel_storage::{Row, RowKey, RowTxn};

use super::*;
use crate::cluster::Cluster;
use crate::faults::Faults;
use crate::layout::Epoch;
use crate::memory::World;
use crate::node::floors;
use crate::node::options::Hooks;
use crate::node::wire::RowCall;
use crate::register::Rules;
use crate::register::floor::FloorRequest;
use crate::register::rules::Mutant;
use crate::upkeep::anti_entropy::AntiEntropyOptions;
use crate::upkeep::anti_entropy::wire::FloorCall;
use crate::upkeep::tests::*;

mod stale;
mod void;
mod woken;

const HOUR_MS: u64 = 3_600_000;
const LONG: Duration = Duration::from_secs(300);

fn options() -> AntiEntropyOptions {
    AntiEntropyOptions {
        interval: Duration::from_secs(60),
        floor_age: Duration::ZERO,
        floor_look: Duration::from_secs(5),
        ..AntiEntropyOptions::default()
    }
}

fn run(world: &World) {
    for node in world.nodes.clone() {
        tokio::spawn(async move { node.upkeep().run_anti_entropy(options()).await });
    }
}

async fn plant_row(node: &Cluster, row: Row) {
    let set = move |txn: &mut RowTxn<'_>| txn.set(&key("k"), &row);
    node.store().transact(Durability::Fsync, set).await.unwrap();
}

fn tombstone(stamp: Stamp) -> Row {
    Row {
        promised: stamp,
        stamp,
        ..Row::default()
    }
}

fn live(stamp: Stamp) -> Row {
    Row {
        value: Some(value("planted")),
        ..tombstone(stamp)
    }
}

async fn row_at(node: &Cluster) -> Option<Row> {
    node.store().read(|rows| rows.row(&key("k"))).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn tombstones_are_dropped_once_all_replicas_agree() {
    let world = three(11).await;
    let now = world.nodes[0].now_ms();
    // One replica still has the deleted row, another one only promised something.
    plant_row(&world.nodes[0], tombstone(stamp(now - 3 * HOUR_MS))).await;
    plant_row(&world.nodes[1], live(stamp(now - 5 * HOUR_MS))).await;
    let promise = Row {
        promised: stamp(now - 4 * HOUR_MS),
        ..Row::default()
    };
    plant_row(&world.nodes[2], promise).await;
    run(&world);
    tokio::time::sleep(LONG).await;
    for node in &world.nodes {
        assert_eq!(row_at(node).await, None);
        assert_eq!(node.upkeep().anti_entropy_status().floors.waiting, 0);
        assert_eq!(node.read(&key("k")).await.unwrap(), None);
    }
    let moved: u64 = world
        .nodes
        .iter()
        .map(|n| n.upkeep().anti_entropy_status().floors.moved)
        .sum();
    assert!(moved > 0);
    assert!(world.nodes[0].store().verify().await.unwrap().is_clean());
}

#[tokio::test(start_paused = true)]
async fn floor_waits_for_an_unreachable_replica_and_says_why() {
    let world = three(12).await;
    let now = world.nodes[0].now_ms();
    for node in &world.nodes {
        plant_row(node, tombstone(stamp(now - 3 * HOUR_MS))).await;
    }
    world.isolate(2);
    run(&world);
    tokio::time::sleep(LONG).await;
    for node in &world.nodes {
        assert!(row_at(node).await.is_some());
        let floors = node.upkeep().anti_entropy_status().floors;
        assert_eq!((floors.waiting, floors.moved), (1, 0));
        assert_eq!(floors.oldest_ms, now - 3 * HOUR_MS);
        assert!(floors.why.is_some());
    }
    world.network.end_all_cuts();
    tokio::time::sleep(LONG).await;
    for node in &world.nodes {
        assert_eq!(row_at(node).await, None);
    }
}

/// A row from before the floor, delayed for days or out of an old backup, is not applied, whichever
/// node has it. As a control, a node that breaks the rule gets the row back.
#[tokio::test(start_paused = true)]
async fn row_below_a_floor_is_not_applied() {
    let world = three(13).await;
    let now = world.nodes[0].now_ms();
    for node in &world.nodes {
        plant_row(node, tombstone(stamp(now - 3 * HOUR_MS))).await;
    }
    run(&world);
    tokio::time::sleep(LONG).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    plant_row(c, live(stamp(now - 4 * HOUR_MS))).await;
    a.upkeep()
        .pull_from(&world.ids[2], options())
        .await
        .unwrap();
    assert_eq!(row_at(a).await, None);
    let broken = AntiEntropyOptions {
        faults: Faults {
            rules: Rules::broken(Mutant::TakeBelowFloor),
            ..Faults::default()
        },
        ..options()
    };
    b.upkeep().pull_from(&world.ids[2], broken).await.unwrap();
    assert!(row_at(b).await.is_some(), "the control does not work");
}

/// A node that lost a partition while it was away must not bring its old rows when it gets the
/// partition again.
#[tokio::test(start_paused = true)]
async fn no_floor_moves_before_every_store_is_purged() {
    let latency = Duration::from_millis(20);
    let world = World::new(4, 3, latency, 14, Hooks::NONE).await.unwrap();
    let now = world.nodes[0].now_ms();
    for node in &world.nodes[..3] {
        plant_row(node, tombstone(stamp(now - 3 * HOUR_MS))).await;
    }
    let stale = &world.nodes[3];
    plant_row(stale, live(stamp(now - 5 * HOUR_MS))).await;
    world.isolate(3);
    run(&world);
    tokio::time::sleep(LONG).await;
    assert!(row_at(&world.nodes[0]).await.is_some(), "the floor moved");
    world.network.end_all_cuts();
    tokio::time::sleep(LONG).await;
    assert_eq!(row_at(&world.nodes[0]).await, None);
    assert_eq!(row_at(stale).await, None);
}

/// A partition that moved to other nodes takes no space here any longer, even if nothing was
/// deleted anywhere.
#[tokio::test(start_paused = true)]
async fn store_purges_stale_partitions_by_itself() {
    let latency = Duration::from_millis(20);
    let world = World::new(4, 3, latency, 16, Hooks::NONE).await.unwrap();
    let stale = &world.nodes[3];
    for node in [&world.nodes[0], stale] {
        plant_row(node, live(stamp(node.now_ms() - 1000))).await;
    }
    run(&world);
    tokio::time::sleep(LONG).await;
    assert_eq!(row_at(stale).await, None);
    assert!(row_at(&world.nodes[0]).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn floor_ahead_of_the_clock_and_stamps_below_a_floor_are_refused() {
    let world = three(15).await;
    let a = &world.nodes[0];
    let group = a.group(PartitionId(0)).unwrap();
    let close = |hour| FloorCall {
        address: group.address(group.local().unwrap()).unwrap(),
        request: FloorRequest::Close {
            floor: before_hour(hour),
        },
    };
    let hour = a.now_ms() / HOUR_MS;
    assert!(a.upkeep().answer_floor(close(hour + 1)).await.is_err());
    a.upkeep().answer_floor(close(hour)).await.unwrap();
    let look = |rows: &archipel_storage::RowReader<'_>| floors::read(rows, PartitionId(0));
    let kept = a.store().read(look).await.unwrap().unwrap();
    assert_eq!(kept.closed, before_hour(hour));
    let write = crate::register::Request::Write {
        version: crate::register::Version {
            stamp: stamp(hour * HOUR_MS - 10),
            write: Id::default(),
            value: Some(value("late")),
        },
        guarded: false,
    };
    let address = group.address(group.local().unwrap()).unwrap();
    let write = RowCall::plain(address, key("k").key, write);
    let answer = a.answer(write).await.unwrap();
    assert!(matches!(answer, crate::register::Answer::Stale { .. }));
    a.write(&key("k"), Some(value("new")), durable())
        .await
        .unwrap();
}

/// Found by the simulator (seeds 40760 and 41186). One replica had agreed to a floor when the third
/// was rolled back, so that not all could ever agree. The two remaining replicas differed for ever
/// in the tombstones that one of them had dropped. The same happened with a replica that joined
/// after the floor was agreed.
#[tokio::test(start_paused = true)]
async fn replica_that_missed_the_end_of_a_round_learns_the_floor_in_a_pass() {
    for joined_since in [false, true] {
        let world = three(16).await;
        let hour = world.nodes[0].now_ms() / HOUR_MS;
        let floor = before_hour(hour);
        for node in &world.nodes {
            plant_row(node, tombstone(stamp((hour - 1) * HOUR_MS))).await;
        }
        let ask = async |node: &Cluster, request| {
            let group = node.group(PartitionId(0)).unwrap();
            let address = group.address(group.local().unwrap()).unwrap();
            let call = FloorCall { address, request };
            node.upkeep().answer_floor(call).await.unwrap()
        };
        let compare = FloorRequest::Compare {
            floor,
            gone: Stamp::ZERO,
            gone_epoch: 0,
        };
        let [agreed, other] = [&world.nodes[1], &world.nodes[2]];
        for request in [FloorRequest::Close { floor }, compare] {
            ask(agreed, request.clone()).await;
            if !joined_since {
                ask(other, request).await;
            }
        }
        ask(agreed, FloorRequest::Agree { floor }).await;
        agreed.upkeep().collect(PartitionId(0)).await.unwrap();
        world.kill(0);
        assert_eq!(row_at(agreed).await, None);
        assert!(row_at(other).await.is_some());
        run(&world);
        tokio::time::sleep(LONG).await;
        assert_eq!(row_at(other).await, None, "{joined_since}");
        assert_eq!(digest(agreed).await, digest(other).await);
    }
}

/// Returns the epoch in which the layout of `epoch` has partition 0 on these nodes alone.
fn with_partition_on(epoch: &Epoch, places: [u16; 3]) -> Epoch {
    let mut layout = epoch.newest().clone();
    layout.version += 1;
    layout.assignment[..3].copy_from_slice(&places);
    let retired = epoch.with_next(layout).without_oldest();
    retired.expect("two versions")
}

/// Takes partition 0 from node 2 and gives it back while the node purges it. Returns how many of
/// the eight rows a read through that node finds then, and whether it holds all of them later.
async fn return_in_the_middle_of_a_purge(rules: Rules) -> (usize, bool) {
    let latency = Duration::from_millis(20);
    let world = World::new(4, 3, latency, 18, Hooks::NONE).await.unwrap();
    let returning = &world.nodes[2];
    let now = returning.now_ms();
    let keys: Vec<RowKey> = (0..8).map(|n| key(format!("k{n}"))).collect();
    let old = stamp(now - 4 * HOUR_MS);
    let rows: Vec<_> = keys.iter().map(|key| (key.clone(), old)).collect();
    for node in &world.nodes[..3] {
        plant(node, rows.clone()).await;
        plant_row(node, tombstone(stamp(now - 3 * HOUR_MS))).await;
    }
    let faults = Faults {
        purge_rows: 1,
        purge_pause: Duration::from_secs(60),
        rules,
        ..Faults::default()
    };
    let slowly = AntiEntropyOptions {
        faults,
        ..options()
    };
    for node in world.nodes.clone() {
        tokio::spawn(async move { node.upkeep().run_anti_entropy(slowly).await });
    }
    tokio::time::sleep(LONG).await;
    let floors = |rows: &archipel_storage::RowReader<'_>| floors::read(rows, PartitionId(0));
    let agreed = returning.store().read(floors).await.unwrap().unwrap();
    assert!(agreed.agreed > old, "no floor was agreed");

    let first = with_partition_on(&returning.epoch().unwrap(), [0, 1, 3]);
    plant(&world.nodes[3], rows.clone()).await;
    for node in &world.nodes {
        node.learn(first.clone()).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(150)).await;
    let left = digest(returning).await.rows;
    assert!(0 < left && left < 8, "{left} rows are left");

    let second = with_partition_on(&first, [1, 2, 3]);
    for node in &world.nodes {
        node.learn(second.clone()).await.unwrap();
    }
    let mut found = 0;
    for key in &keys {
        found += usize::from(returning.read(key).await.unwrap().is_some());
    }
    tokio::time::sleep(LONG).await;
    let is_whole = digest(returning).await == digest(&world.nodes[1]).await;
    (found, is_whole)
}

/// A store lost a partition, began to purge it, and got it back before the purge ended. It had
/// agreed a floor, which says that its rows up to there are complete, and they no longer were.
/// Objects of the other replicas counted as deleted, and could not be written back.
#[tokio::test(start_paused = true)]
async fn partition_that_returns_during_its_purge_lacks_no_row() {
    let purged = return_in_the_middle_of_a_purge(Rules::CORRECT).await;
    assert_eq!(purged, (8, true));
    let broken = Rules::broken(Mutant::FloorOutlivesRows);
    let (found, is_whole) = return_in_the_middle_of_a_purge(broken).await;
    assert!(found < 8 && !is_whole, "the control does not work");
}

/// Of two nodes, neither corrects the other's clock. One that was wrong may not leave anything behind that
/// refuses writes once it is right.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_ahead_closes_nothing() {
    let latency = Duration::from_millis(20);
    let world = World::new(2, 2, latency, 16, Hooks::NONE).await.unwrap();
    let [a, b] = [&world.nodes[0], &world.nodes[1]];
    a.write(&key("k"), Some(value("v")), durable())
        .await
        .unwrap();
    a.write(&key("k"), None, durable()).await.unwrap();
    world.set_clock_ahead(0, Duration::from_secs(10 * 3600));
    run(&world);
    tokio::time::sleep(LONG).await;
    let floors = a.upkeep().anti_entropy_status().floors;
    assert_eq!((floors.waiting, floors.moved), (1, 0), "{floors:?}");
    assert!(floors.why.unwrap_or_default().contains("ahead"));
    world.set_clock_ahead(0, Duration::ZERO);
    for node in [a, b] {
        node.write(&key("k"), Some(value("v")), durable())
            .await
            .unwrap();
    }
}

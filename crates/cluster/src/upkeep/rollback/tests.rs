use std::time::Duration;

use archipel_base::{Id, PartitionId};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, RowTxn, Value};
use bytes::Bytes;

use super::*;
use crate::data::options::WriteOptions;
use crate::layout::{Epoch, Layout, PARTITIONS, Redundancy, Role};
use crate::memory::World;
use crate::node::history::{Contradiction, History, MAX_RUNS, Run};
use crate::node::history_record as record;
use crate::node::options::Hooks;
use crate::upkeep::anti_entropy::AntiEntropyOptions;

fn history(runs: &[(u8, u64)]) -> History {
    let mut history = History::default();
    for (token, mark) in runs {
        history.begin(Id([*token; 16]));
        (0..*mark).for_each(|_| history.mark());
    }
    history
}

fn seen(number: u64, token: u8, mark: u64) -> Run {
    Run {
        number,
        token: Id([token; 16]),
        mark,
    }
}

#[test]
fn earlier_state_that_others_remember_is_no_contradiction() {
    let now = history(&[(1, 5), (2, 7), (3, 0)]);
    for past in [seen(1, 1, 5), seen(2, 2, 6), seen(2, 2, 7), seen(3, 3, 0)] {
        assert_eq!(now.contradicts(&past), None, "{past:?}");
    }
}

#[test]
fn earlier_state_of_a_store_is_detected() {
    // A copy of the second run, in which the others heard of mark 7, and of a third run.
    let copy = history(&[(1, 5), (2, 4), (9, 0)]);
    assert_eq!(copy.contradicts(&seen(2, 2, 7)), Some(Contradiction::Older));
    assert_eq!(copy.contradicts(&seen(2, 2, 4)), None);
    assert_eq!(
        copy.contradicts(&seen(3, 3, 0)),
        Some(Contradiction::Forked)
    );
    assert_eq!(copy.contradicts(&seen(4, 4, 0)), Some(Contradiction::Older));
}

#[test]
fn store_without_runs_contradicts_every_remembered_run() {
    assert_eq!(
        History::default().contradicts(&seen(1, 1, 0)),
        Some(Contradiction::Older)
    );
}

#[test]
fn only_the_last_runs_are_kept() {
    let tokens: Vec<(u8, u64)> = (1..=100).map(|token| (token, 1)).collect();
    let long = history(&tokens);
    assert_eq!(long.0.len(), MAX_RUNS);
    assert_eq!(long.contradicts(&seen(1, 200, 9)), None);
    assert_eq!(long.contradicts(&seen(100, 100, 1)), None);
}

#[test]
fn mark_that_most_stores_know_is_among_the_answers() {
    for others in 1..20 {
        assert!(enough_of(others) + others / 2 + 1 > others, "{others}");
    }
}

#[tokio::test(start_paused = true)]
async fn remembered_run_of_a_store_only_grows() {
    let world = three().await;
    let store = world.nodes[0].store();
    let name = Id([7; 16]);
    let remember = |runs| record::remember(store, name, history(runs));
    remember(&[(1, 5)]).await.unwrap();
    remember(&[(1, 5), (2, 1)]).await.unwrap();
    for other in [vec![(1, 5)], vec![(1, 5), (8, 3)], vec![(1, 5), (2, 0)]] {
        let before = record::remember(store, name, history(&other)).await;
        assert_eq!(before.unwrap(), Some(seen(2, 2, 1)));
    }
    assert_eq!(
        record::seen(store, name).await.unwrap(),
        Some(seen(2, 2, 1))
    );
}

async fn three() -> World {
    let latency = Duration::from_millis(20);
    World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap()
}

fn run_anti_entropy_everywhere(world: &World) {
    let options = AntiEntropyOptions {
        mark_interval: Duration::from_secs(5),
        ..AntiEntropyOptions::default()
    };
    for node in world.nodes.clone() {
        tokio::spawn(async move { node.upkeep().run_anti_entropy(options).await });
    }
}

#[tokio::test(start_paused = true)]
async fn other_stores_hear_the_mark_of_a_store() {
    let world = three().await;
    run_anti_entropy_everywhere(&world);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let store = world.nodes[0].me().store;
    let (run, mark) = world.nodes[0].upkeep().progress_mark();
    assert!(run == 1 && mark > 3, "{run} {mark}");
    for other in &world.nodes[1..] {
        let (seen_run, seen_mark) = other.upkeep().remembers(store).await.unwrap().unwrap();
        assert!(seen_run == 1 && seen_mark + 1 >= mark, "{seen_mark} {mark}");
    }
    assert!(
        world
            .nodes
            .iter()
            .all(|node| node.upkeep().rollback().is_none())
    );
}

/// Any machine with the cluster's secret can show itself as a node. One answer of it shut out every store that asked.
#[tokio::test(start_paused = true)]
async fn a_stranger_cannot_say_that_a_store_was_rolled_back() {
    let world = World::unfounded(4, Duration::from_millis(20), 1, Hooks::NONE);
    let world = world.await.unwrap();
    let roles = world.nodes[..3].iter().zip(["a", "b", "c"]);
    let roles = roles.map(|(node, zone)| Role {
        store: node.me(),
        zone: zone.into(),
        capacity_bytes: 1 << 40,
    });
    let layout = Layout {
        version: 1,
        redundancy: Redundancy {
            replicas: 3,
            zones: None,
        },
        roles: roles.collect(),
        assignment: (0..PARTITIONS).flat_map(|_| 0..3).collect(),
        control: vec![0, 1, 2],
    };
    let epoch = Epoch::first(Id([1; 16]), layout);
    for node in &world.nodes {
        node.learn(epoch.clone()).await.unwrap();
    }
    let (stranger, members) = world.nodes.split_last().unwrap();
    for member in members {
        let later = history(&[(8, 3), (9, 3)]);
        let remembered = record::remember(stranger.store(), member.me().store, later);
        remembered.await.unwrap();
    }
    run_anti_entropy_everywhere(&world);
    tokio::time::sleep(Duration::from_secs(60)).await;
    for member in members {
        assert!(member.upkeep().rollback().is_none());
    }
}

/// A node answers gossip, and not what it remembers. The others learn the next layout while they wait for that.
#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_delays_no_proof_in_the_next_epoch() {
    let world = three().await;
    for node in &world.nodes {
        node.epochs.history.disprove();
    }
    run_anti_entropy_everywhere(&world);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let epoch = world.nodes[0].epoch().unwrap();
    for node in &world.nodes {
        assert!(node.epochs.may_answer(&epoch));
    }
    world.isolate(2);
    // The next mark is due after five seconds. The third node is asked to remember it, and asked again.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for node in &world.nodes[..2] {
        let (_, mark) = node.upkeep().progress_mark();
        assert!(mark > 0);
        node.learn(epoch.with_level(epoch.level)).await.unwrap();
    }
    // The tasks that prove the stores run meanwhile.
    tokio::time::sleep(Duration::from_millis(10)).await;
    let key = RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"k"),
    };
    let how = WriteOptions::durable(Durability::Fsync);
    let written = world.nodes[0].write(&key, Some(Value::default()), how);
    let written = tokio::time::timeout(Duration::from_secs(1), written).await;
    written.expect("in time").unwrap();
}

#[tokio::test(start_paused = true)]
async fn rolled_back_store_continues_under_another_name() {
    let world = three().await;
    let was = world.nodes[0].me().store;
    let held = RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"held"),
    };
    let how = WriteOptions::durable(Durability::Fsync);
    let written = world.nodes[1].write(&held, Some(Value::default()), how);
    written.await.unwrap();
    let more = history(&[(50, 2)]);
    record::remember(world.nodes[1].store(), was, more)
        .await
        .unwrap();
    run_anti_entropy_everywhere(&world);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let put_back = world.nodes[0].upkeep().rollback().unwrap();
    assert_eq!((put_back.was, put_back.told_by), (was, world.ids[1]));
    assert_ne!(world.nodes[0].me().store, was);
    // Found by the simulator (seed 20089). The shares were not computed again in the same epoch,
    // and anti-entropy waited for ever for passes that had never begun.
    let epoch = world.nodes[0].epoch().unwrap();
    assert_eq!(world.nodes[0].upkeep().others_with_a_share(&epoch), []);
    // The effect is that of a lost disk: the other nodes continue, and this node continues through
    // them.
    let key = RowKey {
        key: Bytes::from_static(b"k"),
        ..held.clone()
    };
    let how = WriteOptions::durable(Durability::Fsync);
    let written = world.nodes[0]
        .write(&key, Some(Value::default()), how)
        .await;
    written.unwrap();
    let row = world.nodes[0]
        .store()
        .read(move |rows| rows.row(&key))
        .await;
    assert_eq!(row.unwrap(), None);
    // The store may hold the last copy of something. It keeps all data as long as no layout names
    // it, also after a restart.
    world.nodes[0]
        .upkeep()
        .purge_stale(epoch.number())
        .await
        .unwrap_err();
    let row = world.nodes[0]
        .store()
        .read(move |rows| rows.row(&held))
        .await;
    assert!(row.unwrap().is_some());
}

/// All nodes were rolled back: each remembers more of the others than they know.
#[tokio::test(start_paused = true)]
async fn stores_that_were_rolled_back_together_accept_one_another() {
    let world = three().await;
    let names: Vec<Id> = world.nodes.iter().map(|node| node.me().store).collect();
    for node in &world.nodes {
        for name in &names {
            let more = history(&[(50, 2), (51, 1)]);
            record::remember(node.store(), *name, more).await.unwrap();
        }
    }
    let (store, was) = (world.nodes[0].store(), names[0]);
    // The node has continued under another name already.
    let mut fresh = History::default();
    fresh.begin(Id([3; 16]));
    record::rename(store, Id([9; 16]), &fresh).await.unwrap();
    for node in &world.nodes {
        let accepted = accept_rollback(node.store(), node.me().node).await;
        assert_eq!(accepted.unwrap(), 1);
    }
    let begun = record::begin(store, was, Id([4; 16]), true).await.unwrap();
    assert_eq!((begun.name, begun.is_new), (was, false));
    assert_eq!(begun.history.current(), Some(seen(1, 4, 0)));
    for node in &world.nodes {
        assert_eq!(record::seen(node.store(), was).await.unwrap(), None);
    }
}

/// While a layout changes, the node has two stores in it: the one that was rolled back, and the one that
/// replaces it, whose rows are on the disk. As the older one, the next start would wipe them.
#[tokio::test(start_paused = true)]
async fn a_node_with_two_stores_in_the_layout_is_accepted_as_the_one_that_it_holds() {
    let world = three().await;
    let node = &world.nodes[0];
    let (was, new) = (node.me().store, Id([9; 16]));
    let told = (world.ids[1], Contradiction::Older);
    let history = &node.epochs.history;
    let renamed = history.rename(node.store(), (new, Id([3; 16])), told);
    renamed.await.unwrap();
    let mut layout = node.epoch().unwrap().newest().clone();
    layout.version += 1;
    layout.roles[0].store.store = new;
    let epoch = node.epoch().unwrap().with_next(layout);
    node.learn(epoch.clone()).await.unwrap();
    let stores = epoch.config.members();
    let stores = stores.iter().filter(|m| m.node.node == world.ids[0]);
    assert_eq!(stores.count(), 2);
    let accepted = accept_rollback(node.store(), world.ids[0]).await;
    assert_eq!(accepted.unwrap(), epoch.number());
    let begun = record::begin(node.store(), was, Id([4; 16]), true).await;
    assert_eq!(begun.unwrap().name, new);

    // Rows of a store that the layout does not name would be wiped under either name.
    let set = |txn: &mut RowTxn<'_>| txn.set_meta("incarnation", Some(&77_u64.to_be_bytes()));
    let set = node.store().transact(Durability::Fsync, set).await;
    set.unwrap();
    let accepted = accept_rollback(node.store(), world.ids[0]).await;
    let why = accepted.unwrap_err().to_string();
    assert!(why.contains("another store of this node"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn store_that_was_in_no_layout_is_not_accepted() {
    let latency = Duration::from_millis(20);
    let world = World::unfounded(2, latency, 1, Hooks::NONE).await.unwrap();
    let node = &world.nodes[0];
    let accepted = accept_rollback(node.store(), node.me().node).await;
    assert!(accepted.unwrap_err().to_string().contains("no cluster"));
}

#[tokio::test(start_paused = true)]
async fn new_name_and_its_runs_survive_a_restart() {
    let world = three().await;
    let store = world.nodes[0].store();
    let (old, new, token) = (Id([1; 16]), Id([2; 16]), Id([3; 16]));
    let mut fresh = History::default();
    fresh.begin(token);
    record::rename(store, new, &fresh).await.unwrap();
    let begun = record::begin(store, old, Id([4; 16]), true).await.unwrap();
    assert_eq!((begun.name, begun.is_new), (new, false));
    assert_eq!(begun.history.contradicts(&seen(1, 3, 0)), None);
    assert_eq!(begun.history.current(), Some(seen(2, 4, 0)));
}

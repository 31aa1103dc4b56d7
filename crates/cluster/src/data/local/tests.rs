use std::time::Duration;

use archipel_base::{PartitionId, Stamp};
use archipel_storage::RowKey;
use archipel_storage::engine::Durability;
use archipel_storage::engine::memory::Fault;

use super::*;
use crate::cluster::Cluster;
use crate::data::options::{Guard, WriteOptions};
use crate::memory::World;
use crate::node::options::Hooks;
use crate::node::replica::AHEAD_MILLIS;
use crate::register::Version;

fn key(name: &'static str) -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(name.as_bytes()),
    }
}

/// Returns a guarded write to this node's replica.
fn guarded_write(node: &Cluster) -> RowCall {
    let group = node.group(PartitionId(0)).unwrap();
    let address = group.address(group.local().unwrap()).unwrap();
    let write = Request::Write {
        version: Version {
            stamp: node.next_stamp(Stamp::ZERO),
            write: node.random_id(),
            value: Some(Value::default()),
        },
        guarded: true,
    };
    RowCall {
        guards: vec![Guard::of(key("guard")).to_wire()],
        ..RowCall::plain(address, key("row").key, write)
    }
}

/// Found in the code after PUTs had failed at the end of layout changes. A write met a replica that
/// did not hold the guard yet and could not ask for it at that moment. The write would not have
/// been acknowledged although other replicas had accepted it.
#[tokio::test(start_paused = true)]
async fn replica_that_cannot_read_a_guard_does_not_say_that_it_is_gone() {
    let latency = Duration::from_millis(20);
    let world = World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap();
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    world.isolate(2);
    let how = WriteOptions::durable(Durability::Fsync);
    a.write(&key("guard"), Some(Value::default()), how.clone())
        .await
        .unwrap();
    let answer = c.answer(guarded_write(c)).await;
    assert!(matches!(answer, Err(storage::Error::Busy(_))), "{answer:?}");

    world.network.end_all_cuts();
    let answer = c.answer(guarded_write(c)).await.unwrap();
    assert_eq!(answer, Answer::Accepted);
    a.write(&key("guard"), None, how).await.unwrap();
    let answer = c.answer(guarded_write(c)).await.unwrap();
    assert_eq!(answer, Answer::Guarded);
}

/// Its disk fails, for instance, or has no space. A write would be refused as if its guard was gone.
#[tokio::test(start_paused = true)]
async fn replica_that_cannot_store_a_guard_says_why() {
    let latency = Duration::from_millis(20);
    let world = World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap();
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    world.isolate(2);
    let how = WriteOptions::durable(Durability::Fsync);
    a.write(&key("guard"), Some(Value::default()), how)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.network.end_all_cuts();
    // From now on, so that neither the read nor what follows it stores the guard.
    world.engines[2].inject(Fault {
        after_commits: 0,
        error: storage::Error::Failed("on purpose".into()),
    });
    let group = c.group(PartitionId(0)).unwrap();
    let address = group.address(group.local().unwrap()).unwrap();
    let brought = c.bring(address, &key("guard"), None).await;
    let why = brought.unwrap_err().to_string();
    assert!(why.contains("on purpose"), "{why}");
}

/// One replica claims to hold a stamp of the far future, because its clock was wrong or because it
/// lies. This does not keep the node from writing other rows: its stamps follow its clock.
#[tokio::test(start_paused = true)]
async fn stamp_of_the_far_future_does_not_move_the_stamp_clock() {
    let latency = Duration::from_millis(20);
    let world = World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap();
    let node = &world.nodes[0];
    let now = node.next_stamp(Stamp::ZERO);
    let at = |millis: u64| Stamp {
        time: (now.millis() + millis) << 16,
        ..now
    };
    let near = node.next_stamp(at(AHEAD_MILLIS / 2));
    assert!(near > at(AHEAD_MILLIS / 2), "{near} after {now}");
    let after = node.next_stamp(at(10 * AHEAD_MILLIS));
    assert!(
        after > near && after < at(AHEAD_MILLIS),
        "{after} after {now}"
    );
    let after = node.next_stamp(Stamp::from_bytes([0xff; 16]));
    assert!(after < at(AHEAD_MILLIS), "{after} after {now}");
}

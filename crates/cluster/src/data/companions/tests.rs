use std::time::Duration;

use archipel_base::{PartitionId, Stamp};
use archipel_storage::engine::Durability;
use bytes::Bytes;

use super::*;
use crate::data::decision::Decision;
use crate::data::options::WriteOptions;
use crate::memory::World;
use crate::node::options::Hooks;
use crate::node::wire::RowCall;

fn key(name: &'static str) -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(name.as_bytes()),
    }
}

async fn world() -> World {
    let latency = Duration::from_millis(20);
    World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap()
}

/// All replicas refuse the companion, because they promised a higher stamp, and none holds it.
#[tokio::test(start_paused = true)]
async fn replica_that_refuses_a_companion_does_not_count_as_its_holder() {
    let world = world().await;
    let (node, row) = (&world.nodes[0], key("companion"));
    let version = Version {
        stamp: node.next_stamp(Stamp::ZERO),
        write: node.random_id(),
        value: Some(Value::default()),
    };
    let how = WriteOptions::durable(Durability::Fsync);
    let aborted = node.update(&row, how.clone(), |_| Decision::Abort(()));
    assert_eq!(aborted.await.unwrap(), Err(()));
    let written = node.0.data.write_companion(row.clone(), version.clone());
    assert!(matches!(written.await, Err(Error::Unavailable(_))));
    assert_eq!(node.read(&row).await.unwrap(), None);

    // Its deletion is as good as the companion.
    node.write(&row, None, how).await.unwrap();
    let written = node.0.data.write_companion(row, version);
    assert!(written.await.is_ok());
}

/// A run that hears of a newer epoch sends an attempt again. The companion stays the same.
#[tokio::test(start_paused = true)]
async fn companion_names_the_epoch_in_which_its_attempt_went_out() {
    let world = world().await;
    let (node, row) = (&world.nodes[0], key("row"));
    let companion = Companion {
        prefix: Bytes::from_static(b"n-"),
        metadata: Bytes::new(),
        group: Id::default(),
        most: 1,
        refuses: false,
    };
    let how = WriteOptions {
        companions: vec![companion],
        ..WriteOptions::durable(Durability::Fsync)
    };
    let (write, stamp) = (node.random_id(), node.next_stamp(Stamp::ZERO));
    let mut run = node.0.data.run(&row, &how).unwrap().writing(write);
    let request = |stamp| Request::Write {
        version: Version {
            stamp,
            write,
            value: Some(Value::default()),
        },
        guarded: false,
    };
    run.note_attempt(&request(stamp));
    let first = run.companions_of(&request(stamp));
    run.group.epoch += 1;
    run.note_attempt(&request(stamp));
    assert_eq!(run.companions_of(&request(stamp)), first);

    let later = node.next_stamp(stamp);
    run.note_attempt(&request(later));
    let second = run.companions_of(&request(later));
    assert_ne!(second[0].value.metadata, first[0].value.metadata);
}

/// One replica accepted the write and one did not. The third answers gossip, and nothing else: the
/// fate stays open, and those who can ask again do not wait for it.
#[tokio::test(start_paused = true)]
async fn open_fate_waits_for_a_replica_that_hangs_for_a_moment_only() {
    let world = world().await;
    let (node, row) = (&world.nodes[0], key("row"));
    let group = node.group(row.partition).unwrap();
    let version = Version {
        stamp: node.next_stamp(Stamp::ZERO),
        write: node.random_id(),
        value: Some(Value::default()),
    };
    let bringer = Bringer::new(version.stamp, version.write, group.epoch);
    let address = group.address(group.local().unwrap()).unwrap();
    let request = Request::Write {
        version,
        guarded: false,
    };
    let call = RowCall::plain(address, row.key.clone(), request);
    assert_eq!(node.answer(call).await.unwrap(), Answer::Accepted);
    world.isolate(2);
    let how = WriteOptions::durable(Durability::Fsync);
    let written = node.write(&row, Some(Value::default()), how);
    let reached = written.await.unwrap();

    let late = Duration::from_secs(1);
    let asked = node.fate_of_bringer(&row, &bringer, reached, Some(late));
    let asked = tokio::time::timeout(2 * late, asked).await;
    let told = asked.expect("in time").unwrap();
    assert_eq!(told, (PastFate::Unknown, false));
}

/// The answer that tells the fate comes just before the end of the time for the others. One more
/// comes a moment later.
#[tokio::test(start_paused = true)]
async fn once_a_fate_is_known_the_others_have_a_moment_more() {
    let latency = Duration::from_millis(20);
    let world = World::new(5, 5, latency, 1, Hooks::NONE).await.unwrap();
    let (node, row) = (&world.nodes[0], key("row"));
    let version = Version {
        stamp: node.next_stamp(Stamp::ZERO),
        write: node.random_id(),
        value: Some(Value::default()),
    };
    let group = node.group(row.partition).unwrap();
    let bringer = Bringer::new(version.stamp, version.write, group.epoch);
    for index in [0, 1, 3] {
        let holder = &world.nodes[index];
        let group = holder.group(row.partition).unwrap();
        let address = group.address(group.local().unwrap()).unwrap();
        let request = Request::Write {
            version: version.clone(),
            guarded: false,
        };
        let call = RowCall::plain(address, row.key.clone(), request);
        assert_eq!(holder.answer(call).await.unwrap(), Answer::Accepted);
    }
    let how = WriteOptions::durable(Durability::Fsync);
    let written = node.write(&row, Some(Value::default()), how);
    let reached = written.await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;

    world.move_away(3, Duration::from_millis(480));
    world.move_away(4, Duration::from_millis(550));
    let late = Duration::from_secs(1);
    let asked = node.fate_of_bringer(&row, &bringer, reached, Some(late));
    let chosen = PastFate::Chosen([version.stamp].into());
    assert_eq!(asked.await.unwrap(), (chosen, true));
}

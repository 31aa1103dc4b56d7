use std::time::Duration;

use archipel_base::{PartitionId, Stamp};
use archipel_storage::engine::Durability;
use bytes::Bytes;

use super::*;
use crate::data::decision::Decision;
use crate::data::options::WriteOptions;
use crate::memory::World;
use crate::node::options::Hooks;

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

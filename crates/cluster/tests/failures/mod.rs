//! Transient and permanent failures of calls between nodes.

mod slow;

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_cluster::{Error, ListQuery, WriteOptions};
use archipel_storage::{Payload, Value};
use bytes::Bytes;
use tokio::time::Instant;

use crate::durable;
use crate::support::{World, key, value};

impl World {
    /// Makes the next `calls` calls of a node to all others fail.
    fn break_next(&self, from: usize, calls: u32) {
        for to in self.ids.iter().filter(|id| **id != self.ids[from]) {
            self.network.break_next(self.ids[from], *to, calls);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_failed_call_fails_no_request() {
    let world = World::new(3, 31).await;
    let [a, b, _] = world.three();
    for (number, calls) in [1, 3].into_iter().enumerate() {
        let (row, name) = (key(&format!("k{number}")), format!("v{number}"));
        world.break_next(0, calls);
        a.write(&row, Some(value(&name)), durable()).await.unwrap();
        world.break_next(1, calls);
        assert_eq!(b.metadata(&row).await.unwrap(), Some(Bytes::from(name)));
        world.break_next(1, calls);
        let decided = b.update(&row, durable(), |current| match current {
            Some(_) => archipel_cluster::Decision::Write(Some(value("new"))),
            None => archipel_cluster::Decision::Abort(()),
        });
        assert_eq!(decided.await.unwrap(), Ok(()));
        world.break_next(0, calls);
        let query = ListQuery::new(PartitionId(0), Bytes::new());
        assert_eq!(a.list(query).await.unwrap().entries.len(), number + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn content_is_written_although_its_streams_break_when_opened() {
    let world = World::new(3, 32).await;
    let [a, b, _] = world.three();
    world.break_next(0, 1);
    let writer = a.block_writer(PartitionId(0)).unwrap();
    let content = Bytes::from(vec![3; 200_000]);
    let block = writer.append(content.clone()).await.unwrap();
    let options = WriteOptions {
        upload: Some(&writer),
        ..durable()
    };
    let row = Value {
        payload: Payload::Blocks(vec![block]),
        ..value("big")
    };
    a.write(&key("big"), Some(row), options).await.unwrap();
    let mut stream = b.read_blocks(PartitionId(0), vec![block]);
    assert_eq!(stream.next().await.unwrap().unwrap(), content);
}

#[tokio::test(start_paused = true)]
async fn the_only_remaining_replica_is_asked_again() {
    let world = World::new(3, 33).await;
    let [a, _, _] = world.three();
    world.kill(2);
    for n in 0..5 {
        world.break_next(0, 2);
        let row = key(&format!("k{n}"));
        a.write(&row, Some(value("x")), durable()).await.unwrap();
    }
}

/// In virtual time: a node that knows that it is cut off fails requests within seconds.
#[tokio::test(start_paused = true)]
async fn an_isolated_node_soon_fails_its_requests() {
    let world = World::new(3, 34).await;
    let [a, _, _] = world.three();
    world.kill(1);
    world.kill(2);
    let begun = Instant::now();
    let written = a.write(&key("k"), Some(value("x")), durable()).await;
    assert!(matches!(written, Err(Error::Unavailable(_))), "{written:?}");
    let took = begun.elapsed();
    assert!(took <= Duration::from_millis(3100), "{took:?}");
    assert!(a.metadata(&key("k")).await.is_err());
}

/// In virtual time: replicas that fail for good, although no node suspects them, delay a request
/// only while the retries last.
#[tokio::test(start_paused = true)]
async fn lasting_failures_end_a_request() {
    let world = World::new(3, 35).await;
    let [a, _, _] = world.three();
    world.break_next(0, u32::MAX);
    let begun = Instant::now();
    let written = a.write(&key("k"), Some(value("x")), durable()).await;
    assert!(written.is_err(), "{written:?}");
    let took = begun.elapsed();
    assert!(took <= Duration::from_millis(2600), "{took:?}");
}

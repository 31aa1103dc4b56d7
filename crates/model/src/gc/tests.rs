//! Tasks that fail.

use std::sync::Arc;

use archipel_cluster::{World, WriteOptions};
use archipel_storage::Value;
use archipel_storage::engine::Durability;
use bytes::Bytes;

use super::*;
use crate::bucket::Bucket;
use crate::owner::Owner;
use crate::rowkeys;

async fn alone() -> (Model, Arc<Bucket>) {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    (model, bucket)
}

fn owner(bucket: &Bucket, key: &str) -> Owner {
    Owner::Object {
        bucket: bucket.id,
        key: key.into(),
    }
}

async fn push(model: &Model, bytes: impl Into<Bytes>) {
    let pushed = model.cluster().queue_push(bytes.into(), Durability::Fsync);
    pushed.await.unwrap();
}

/// Queues a task for a tail of one extent that the object never had.
async fn push_tail(model: &Model, owner: Owner) {
    let group = model.random_id();
    let extent = rowkeys::extent(model.cluster(), &group, 0);
    let value = Value {
        metadata: Bytes::from_static(b"extent"),
        ..Value::default()
    };
    let how = WriteOptions::durable(Durability::Fsync);
    let written = model.cluster().write(&extent, Some(value), how);
    written.await.unwrap();
    push(model, codec::encode(&GcTask::Tail { owner, group })).await;
}

#[tokio::test]
async fn a_task_that_fails_holds_up_no_other() {
    let (model, bucket) = alone().await;
    let damaged = owner(&bucket, "damaged");
    let value = Value {
        metadata: Bytes::from_static(b"no object"),
        ..Value::default()
    };
    let how = WriteOptions::durable(Durability::Fsync);
    let row = rowkeys::owner(model.cluster(), &damaged);
    model.cluster().write(&row, Some(value), how).await.unwrap();
    push(&model, &b"no task"[..]).await;
    push_tail(&model, damaged).await;
    push_tail(&model, owner(&bucket, "none")).await;
    for completed in [1, 0] {
        let report = model.run_all_gc_tasks().await.unwrap();
        assert_eq!((report.failed, report.completed), (2, completed));
    }
    assert_eq!(model.gc_tasks().await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn tasks_that_cannot_be_done_now_are_done_later() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, crate::HOOKS).await.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    for n in 0..20 {
        push_tail(&model, owner(&bucket, &format!("key-{}", n % 2))).await;
    }
    world.isolate(0);
    let report = model.run_all_gc_tasks().await.unwrap();
    assert_eq!((report.failed, report.completed), (20, 0));
    world.network.end_all_cuts();
    let report = model.run_all_gc_tasks().await.unwrap();
    assert_eq!((report.failed, report.completed), (0, 20));
}

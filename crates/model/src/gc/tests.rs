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
use crate::{Condition, ModelOptions, ObjectMeta};

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

async fn put(model: &Model, bucket: &Arc<Bucket>, key: &str, size: usize) {
    let mut writer = model.begin_object(bucket, key).unwrap();
    writer.write(Bytes::from(vec![3; size])).await.unwrap();
    let written = writer.finish(ObjectMeta::default(), Condition::Always);
    written.await.unwrap();
}

/// The extents of a tail are in other partitions than their owner. That the tail is needed, the
/// owner's row and its kept versions show alone.
#[tokio::test(start_paused = true)]
async fn task_for_needed_content_takes_only_the_partition_of_its_owner() {
    let latency = Duration::from_millis(1);
    let world = World::new(6, 3, latency, 1, crate::HOOKS).await.unwrap();
    let options = ModelOptions {
        extent_blocks: 1,
        ..ModelOptions::default()
    };
    let opened = Model::open_with(world.nodes[0].clone(), options).await;
    let model = opened.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let enabled = model.set_versioning(&bucket, Versioning::Enabled).await;
    let bucket = enabled.unwrap();
    let local = |node: usize| world.nodes[node].local_partitions(None);
    let (first, second, third) = (local(0), local(1), local(2));
    let is_near = |key: &String| {
        let partition = rowkeys::object(model.cluster(), &bucket.id, key).partition;
        [&first, &second, &third]
            .iter()
            .all(|local| local.contains(&partition))
    };
    let key = (0..).map(|n| format!("key-{n}")).find(is_near).unwrap();
    for size in [(1 << 20) + 1; 24].into_iter().chain([1]) {
        put(&model, &bucket, &key, size).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let tasks = model.gc_tasks().await.unwrap();
    assert!(tasks >= 24, "{tasks}");
    // So the first extents of some of the tails cannot be reached.
    world.kill(4);
    world.kill(5);
    let report = model.run_all_gc_tasks().await.unwrap();
    assert_eq!((report.failed, report.completed), (0, tasks));
    assert_eq!(report.dropped, 0);
}

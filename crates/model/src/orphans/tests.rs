use std::sync::Arc;
use std::time::Duration;

use archipel_base::Id;
use archipel_base::codec;
use archipel_cluster::{Cluster, State, WriteOptions};
use archipel_storage::Value;
use archipel_storage::engine::Durability;
use bytes::Bytes;

use crate::form::ExtentHead;
use crate::gc::GcTask;
use crate::owner::Owner;
use crate::rowkeys;
use crate::{Bucket, Condition, Model, ObjectMeta, PartMeta, Upload, UploadMeta};

const NOW: Duration = Duration::ZERO;

async fn model() -> (Model, Arc<Bucket>) {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    (model, bucket)
}

/// Writes extents of a tail that no object refers to, as `store`. Returns the tail's name.
async fn extents(model: &Model, bucket: &Bucket, store: Option<Id>) -> Id {
    let group = Id([9; 16]);
    let owner = Owner::Object {
        bucket: bucket.id,
        key: "k".into(),
    };
    for index in 0..3 {
        let metadata = ExtentHead {
            owner: owner.clone(),
            store,
        };
        let value = Value {
            metadata: codec::encode(&metadata).into(),
            ..Value::default()
        };
        let row = rowkeys::extent(model.cluster(), &group, index);
        let how = WriteOptions::durable(Durability::Fsync);
        model.cluster().write(&row, Some(value), how).await.unwrap();
    }
    group
}

async fn states(model: &Model, group: &Id) -> Vec<State> {
    let mut states = Vec::new();
    for index in 0..3 {
        let row = rowkeys::extent(model.cluster(), group, index);
        states.push(model.cluster().state(&row).await.unwrap());
    }
    states
}

#[tokio::test]
async fn extents_of_a_store_that_left_the_layout_are_dropped() {
    let (model, bucket) = model().await;
    let group = extents(&model, &bucket, Some(Id([7; 16]))).await;
    assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 1);
    // The task may wait for long. No search queues it again.
    assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 0);
    assert_eq!(model.gc_tasks().await.unwrap(), 1);
    assert_eq!(model.run_all_gc_tasks().await.unwrap().dropped, 3);
    assert_eq!(states(&model, &group).await, [State::Tombstone; 3]);
    assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 0);
}

#[tokio::test]
async fn extents_of_a_store_that_may_still_write_are_skipped() {
    let (model, bucket) = model().await;
    let me = model.cluster().own_store();
    for store in [Some(me), None] {
        let group = extents(&model, &bucket, store).await;
        assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 0);
        assert_eq!(states(&model, &group).await, [State::Live; 3]);
    }
}

#[tokio::test]
async fn recently_written_extents_are_skipped() {
    let (model, bucket) = model().await;
    extents(&model, &bucket, Some(Id([7; 16]))).await;
    let day = Duration::from_secs(24 * 3600);
    assert_eq!(model.find_orphans(day, None).await.unwrap(), 0);
}

/// An interrupted pass must leave the extents from 0 on, because the first absent extent ends the
/// tail.
#[tokio::test]
async fn the_last_extent_of_a_tail_is_dropped_first() {
    let (model, bucket) = model().await;
    let group = extents(&model, &bucket, None).await;
    let owner = Owner::Object {
        bucket: bucket.id,
        key: "k".into(),
    };
    let task = codec::encode(&GcTask::Tail { owner, group }).into();
    let pushed = model.cluster().queue_push(task, Durability::Fsync).await;
    pushed.unwrap();
    assert_eq!(model.run_all_gc_tasks().await.unwrap().dropped, 3);
    let mut stamps = Vec::new();
    for index in 0..3 {
        let row = rowkeys::extent(model.cluster(), &group, index);
        let look = move |rows: &archipel_storage::RowReader<'_>| rows.metadata(&row);
        let metadata = model.cluster().store().read(look).await.unwrap();
        stamps.push(metadata.unwrap().stamp);
    }
    assert!(stamps.is_sorted_by(|a, b| a > b), "{stamps:?}");
}

async fn part(model: &Model, bucket: &Arc<Bucket>, upload: &Upload) -> crate::Part {
    let mut writer = model.begin_part(bucket, upload, 1).unwrap();
    writer.write(Bytes::from_static(b"part")).await.unwrap();
    let meta = PartMeta {
        etag: "e".into(),
        checksum: None,
    };
    writer.finish(meta).await.unwrap()
}

#[tokio::test]
async fn parts_without_a_gc_task_are_dropped_unless_the_object_lists_them() {
    let (model, bucket) = model().await;
    let begun = model.create_upload(&bucket, "k", None, UploadMeta::default());
    let upload = begun.await.unwrap();
    let (unused, used) = (
        part(&model, &bucket, &upload).await,
        part(&model, &bucket, &upload).await,
    );
    assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 0);
    let parts = [used.clone()];
    let completed = model.complete_upload(
        &bucket,
        &upload,
        &parts,
        ObjectMeta::default(),
        Condition::Always,
    );
    completed.await.unwrap();
    // The queue is lost with its node.
    for (sequence, _) in model.cluster().queue_read(0, 100).await.unwrap() {
        model.cluster().queue_remove(sequence).await.unwrap();
    }
    assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 1);
    assert_eq!(model.run_all_gc_tasks().await.unwrap().dropped, 1);
    for (part, state) in [(unused, State::Tombstone), (used, State::Live)] {
        let row = rowkeys::part(
            model.cluster(),
            &upload.name_in(&bucket.id).parts(),
            1,
            &part.attempt,
        );
        assert_eq!(model.cluster().state(&row).await.unwrap(), state);
    }
    assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 0);
}

/// Writes an extent of a tail that the object `key` does not refer to.
async fn extent(model: &Model, bucket: &Bucket, key: &str, group: &Id) {
    let metadata = ExtentHead {
        owner: Owner::Object {
            bucket: bucket.id,
            key: key.into(),
        },
        store: Some(Id([7; 16])),
    };
    let value = Value {
        metadata: codec::encode(&metadata).into(),
        ..Value::default()
    };
    let row = rowkeys::extent(model.cluster(), group, 0);
    let how = WriteOptions::durable(Durability::Fsync);
    model.cluster().write(&row, Some(value), how).await.unwrap();
}

/// The owner of an orphan cannot be read. Those in the partitions before and behind it are found.
#[tokio::test]
async fn a_partition_that_cannot_be_searched_holds_up_no_other() {
    let (model, bucket) = model().await;
    let mut groups: Vec<Id> = (0..60).map(|n| Id([n; 16])).collect();
    groups.sort_by_key(|group| rowkeys::extent(model.cluster(), group, 0).partition);
    groups.dedup_by_key(|group| rowkeys::extent(model.cluster(), group, 0).partition);
    for at in [0, groups.len() - 1] {
        extent(&model, &bucket, "none", &groups[at]).await;
    }
    extent(&model, &bucket, "damaged", &groups[groups.len() / 2]).await;
    let row = rowkeys::object(model.cluster(), &bucket.id, "damaged");
    let value = Value {
        metadata: Bytes::from_static(b"no object"),
        ..Value::default()
    };
    let how = WriteOptions::durable(Durability::Fsync);
    model.cluster().write(&row, Some(value), how).await.unwrap();
    let found = model.find_orphans(NOW, None).await;
    assert!(matches!(found, Err(crate::Error::Damaged(_))), "{found:?}");
    assert_eq!(model.gc_tasks().await, Ok(2));
}

use std::sync::Arc;
use std::time::Duration;

use archipel_base::Id;
use archipel_base::codec;
use archipel_cluster::{Cluster, How, State};
use archipel_storage::Value;
use archipel_storage::engine::Durability;
use bytes::Bytes;

use crate::content::ExtentHead;
use crate::rowkeys::{self, Owner};
use crate::sweep::Check;
use crate::{Bucket, Condition, Model, ObjectMeta, PartMeta, Upload, UploadMeta};

const NOW: Duration = Duration::ZERO;

async fn model() -> (Model, Arc<Bucket>) {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    (model, bucket)
}

/// Extents of a tail that no object refers to, written by a store.
async fn extents(model: &Model, bucket: &Bucket, store: Option<Id>) -> Id {
    let group = Id([9; 16]);
    let owner = Owner::Object {
        bucket: bucket.id,
        key: "k".into(),
    };
    for index in 0..3 {
        let head = ExtentHead {
            owner: owner.clone(),
            store,
        };
        let value = Value {
            head: codec::encode(&head).into(),
            ..Value::default()
        };
        let row = rowkeys::extent(model.cluster(), &group, index);
        let how = How::durable(Durability::Fsync);
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
async fn extents_of_a_store_that_is_gone_are_dropped() {
    let (model, bucket) = model().await;
    let group = extents(&model, &bucket, Some(Id([7; 16]))).await;
    assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 1);
    assert_eq!(model.sweep_once().await.unwrap().dropped, 3);
    assert_eq!(states(&model, &group).await, [State::Tombstone; 3]);
    assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 0);
}

#[tokio::test]
async fn extents_of_whoever_may_still_write_are_left_alone() {
    let (model, bucket) = model().await;
    let me = model.cluster().me().store;
    for store in [Some(me), None] {
        let group = extents(&model, &bucket, store).await;
        assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 0);
        assert_eq!(states(&model, &group).await, [State::Live; 3]);
    }
}

#[tokio::test]
async fn what_was_written_lately_is_left_alone() {
    let (model, bucket) = model().await;
    extents(&model, &bucket, Some(Id([7; 16]))).await;
    let day = Duration::from_secs(24 * 3600);
    assert_eq!(model.find_orphans(day, None).await.unwrap(), 0);
}

/// A pass that is broken off leaves extents from 0 on: those that are gone are found to be the end of the tail.
#[tokio::test]
async fn a_tail_is_dropped_from_its_end() {
    let (model, bucket) = model().await;
    let group = extents(&model, &bucket, None).await;
    let owner = Owner::Object {
        bucket: bucket.id,
        key: "k".into(),
    };
    let work = codec::encode(&Check::Tail { owner, group }).into();
    let pushed = model.cluster().queue_push(work, Durability::Fsync).await;
    pushed.unwrap();
    assert_eq!(model.sweep_once().await.unwrap().dropped, 3);
    let mut stamps = Vec::new();
    for index in 0..3 {
        let row = rowkeys::extent(model.cluster(), &group, index);
        let look = move |rows: &archipel_storage::RowReader<'_>| rows.head(&row);
        let head = model.cluster().store().read(look).await.unwrap();
        stamps.push(head.unwrap().stamp);
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
async fn parts_that_nobody_asked_for_are_dropped() {
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
    // Whoever should have asked is gone with its queue.
    for (sequence, _) in model.cluster().queue_read(0, 100).await.unwrap() {
        model.cluster().queue_remove(sequence).await.unwrap();
    }
    assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 1);
    assert_eq!(model.sweep_once().await.unwrap().dropped, 1);
    for (part, state) in [(unused, State::Tombstone), (used, State::Live)] {
        let row = rowkeys::part(model.cluster(), &upload.id, 1, &part.attempt);
        assert_eq!(model.cluster().state(&row).await.unwrap(), state);
    }
    assert_eq!(model.find_orphans(NOW, None).await.unwrap(), 0);
}

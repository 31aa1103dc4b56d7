//! Reads of objects while their bucket is deleted.

use archipel_cluster::WriteOptions;
use archipel_storage::engine::Durability;

use super::model;
use crate::{Error, rowkeys};

/// A write that was never acknowledged reaches replicas after the bucket's deletion, unseen by it.
/// A node that has not heard of the deletion does not show it.
#[tokio::test]
async fn a_deleted_bucket_shows_no_write_that_its_deletion_did_not_see() {
    let model = model().await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let writer = model.begin_object(&bucket, "key").unwrap();
    let written = writer.finish(crate::ObjectMeta::default(), crate::Condition::Always);
    written.await.unwrap();
    let row = rowkeys::object(model.cluster(), &bucket.id, "key");
    let value = model.cluster().read(&row).await.unwrap();
    let condition = crate::Condition::Always;
    let deleted = model.delete_object(&bucket, "key", condition).await;
    deleted.unwrap();
    model.delete_bucket("bucket").await.unwrap();

    let how = WriteOptions::durable(Durability::Fsync);
    model.cluster().write(&row, value, how).await.unwrap();
    let head = model.head_object(&bucket, "key").await;
    assert_eq!(head.err(), Some(Error::NoSuchBucket));
    let opened = model.open_object(&bucket, "key").await;
    assert_eq!(opened.err(), Some(Error::NoSuchBucket));
}

/// A deletion that fails leaves its fences closed if its node dies.
#[tokio::test]
async fn objects_are_read_while_write_fences_are_closed() {
    let model = model().await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let writer = model.begin_object(&bucket, "key").unwrap();
    let written = writer.finish(crate::ObjectMeta::default(), crate::Condition::Always);
    written.await.unwrap();
    let held = model.take_token(&bucket, |_| Ok(())).await.unwrap();
    model.set_fences(&held, false).await.unwrap();
    model.head_object(&bucket, "key").await.unwrap();
    model.open_object(&bucket, "key").await.unwrap();
}

//! Reads of objects while their bucket is deleted.

use std::time::Duration;

use archipel_cluster::WriteOptions;
use archipel_storage::engine::Durability;

use super::model;
use crate::fence::FenceState;
use crate::{Bucket, Error, VersionId, Versioning, rowkeys};

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
    model.delete_bucket(&bucket).await.unwrap();

    let how = WriteOptions::durable(Durability::Fsync);
    model.cluster().write(&row, value, how).await.unwrap();
    let head = model.head_object(&bucket, "key").await;
    assert_eq!(head.err(), Some(Error::NoSuchBucket));
    let opened = model.open_object(&bucket, "key").await;
    assert_eq!(opened.err(), Some(Error::NoSuchBucket));
    // Also by its id, and by nodes that take the bucket for one with versions.
    for versioning in [Versioning::Never, Versioning::Enabled] {
        let known = Bucket {
            versioning,
            ..(*bucket).clone()
        };
        let head = model.head_version(&known, "key", VersionId::Null).await;
        assert_eq!(head.err(), Some(Error::NoSuchBucket), "{versioning:?}");
        let opened = model.open_version(&known, "key", VersionId::Null).await;
        assert_eq!(opened.err(), Some(Error::NoSuchBucket), "{versioning:?}");
    }
}

/// A deletion leaves its fences closed if its node dies, and loses its token.
#[tokio::test]
async fn a_read_opens_the_write_fences_that_a_dead_deletion_left_closed() {
    let model = model().await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let writer = model.begin_object(&bucket, "key").unwrap();
    let written = writer.finish(crate::ObjectMeta::default(), crate::Condition::Always);
    written.await.unwrap();
    let held = model.take_token(&bucket, |_| Ok(())).await.unwrap();
    model.set_fences(&held, FenceState::Closed).await.unwrap();
    model.release_token(&held).await.unwrap();
    model.head_object(&bucket, "key").await.unwrap();
    model.open_object(&bucket, "key").await.unwrap();
}

/// While a deletion is in progress, nobody knows what it does not see.
#[tokio::test(start_paused = true)]
async fn a_read_waits_for_a_deletion() {
    let model = model().await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let held = model.take_token(&bucket, |_| Ok(())).await.unwrap();
    model.set_fences(&held, FenceState::Closed).await.unwrap();
    let head = model.head_object(&bucket, "key").await;
    assert!(matches!(head, Err(Error::Unavailable(_))), "{head:?}");
    let reading = model.head_object(&bucket, "key");
    let deleting = async {
        tokio::time::sleep(Duration::from_millis(250)).await;
        model.set_fences(&held, FenceState::Open).await
    };
    let (head, opened) = tokio::join!(reading, deleting);
    opened.unwrap();
    assert_eq!(head.err(), Some(Error::NoSuchKey));
}

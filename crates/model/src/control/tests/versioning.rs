//! Changes of the settings that decide what a write stores.

use archipel_cluster::WriteOptions;
use archipel_storage::Value;
use archipel_storage::engine::Durability;

use super::*;
use crate::lock::{BucketLock, DefaultRetention, Retention, RetentionMode, RetentionPeriod};
use crate::version::Versioning;
use crate::{Condition, ObjectHead, ObjectLock, ObjectMeta};

const GOVERNED: BucketLock = BucketLock {
    default: Some(DefaultRetention {
        mode: RetentionMode::Governance,
        period: RetentionPeriod::Days(1),
    }),
};

/// Sets a default retention, whatever the versioning.
fn lock(row: &mut Bucket) -> Result<(), Error> {
    row.lock = Some(GOVERNED);
    Ok(())
}

async fn put(model: &Model, bucket: &Arc<Bucket>) -> Result<ObjectHead, Error> {
    let writer = model.begin_object(bucket, "key")?;
    writer
        .finish(ObjectMeta::default(), Condition::Always)
        .await
}

/// The other node's view is the one from before the change, as if no message had reached it.
#[tokio::test(start_paused = true)]
async fn a_stale_node_follows_new_settings_in_its_next_write() {
    let world = World::new(3, 3, Duration::from_millis(5), 1, crate::HOOKS).await;
    let world = world.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let other = Model::open(world.nodes[1].clone()).await.unwrap();
    let stale = model.create_bucket("bucket", None).await.unwrap();
    assert!(put(&other, &stale).await.unwrap().lock.is_empty());

    let changed = model.change_settings(&stale, lock).await.unwrap();
    assert_eq!((changed.generation, changed.lock), (1, Some(GOVERNED)));
    let row = rowkeys::object(other.cluster(), &stale.id, "key");
    let guarded = |bucket: &Bucket| WriteOptions {
        guards: vec![other.fence_of(bucket, &row)],
        ..WriteOptions::durable(Durability::Fsync)
    };
    let value = || Some(Value::default());
    let refused = other.cluster().write(&row, value(), guarded(&stale)).await;
    assert!(
        matches!(refused, Err(archipel_cluster::Error::Guarded)),
        "{refused:?}"
    );

    let written = put(&other, &stale).await.unwrap();
    let mode = written.lock.retention.map(|retention| retention.mode);
    assert_eq!(mode, Some(RetentionMode::Governance));
    let read = other.head_object(&stale, "key").await.unwrap();
    assert_eq!(read, written);
    // Writes that do not depend on the settings go through each open fence.
    let upload = other.create_upload(&stale, "key", None, Default::default());
    upload.await.unwrap();
}

/// A request whose client goes away is dropped. Its token would keep all writes out for half a
/// minute.
#[tokio::test(start_paused = true)]
async fn a_change_of_settings_goes_on_without_its_caller() {
    let world = World::new(3, 3, Duration::from_millis(5), 1, crate::HOOKS).await;
    let world = world.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let mut bucket = model.create_bucket("bucket", None).await.unwrap();
    for moment in 0..60 {
        let before = bucket.generation;
        let changing = model.change_settings(&bucket, lock);
        let _ = tokio::time::timeout(Duration::from_millis(moment), changing).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        bucket = Arc::new(model.refresh_bucket("bucket").await.unwrap().unwrap());
        assert_eq!(bucket.generation, before + 1, "after {moment} ms");
        assert_eq!(bucket.token.taken_ms, None, "after {moment} ms");
        put(&model, &bucket).await.unwrap();
    }
}

/// With one replica of each partition, some fences of the bucket cannot be reached.
#[tokio::test(start_paused = true)]
async fn a_change_of_settings_that_fails_leaves_no_token() {
    let latency = Duration::from_millis(5);
    let world = World::new(3, 1, latency, 1, crate::HOOKS).await.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    world.isolate(1);
    let changed = model.change_settings(&bucket, lock).await;
    assert!(changed.is_err(), "{changed:?}");
    world.network.end_all_cuts();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let bucket = model.refresh_bucket("bucket").await.unwrap().unwrap();
    assert_eq!((bucket.generation, bucket.token.taken_ms), (1, None));
    let bucket = Arc::new(bucket);
    for n in 0..20 {
        let writer = model.begin_object(&bucket, &format!("key-{n}")).unwrap();
        let meta = ObjectMeta::default();
        writer.finish(meta, Condition::Always).await.unwrap();
    }
}

#[tokio::test]
async fn a_lock_that_no_bucket_has_is_refused() {
    let model = model().await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let meta = ObjectMeta {
        lock: ObjectLock {
            retention: Some(Retention {
                mode: RetentionMode::Compliance,
                until_ms: u64::MAX,
            }),
            legal_hold: None,
        },
        ..ObjectMeta::default()
    };
    let writer = model.begin_object(&bucket, "key").unwrap();
    let written = writer.finish(meta, Condition::Always).await;
    assert_eq!(written, Err(Error::NoBucketLock));
    let head = model.head_object(&bucket, "key").await;
    assert_eq!(head, Err(Error::NoSuchKey));
}

#[tokio::test]
async fn a_lock_needs_versions_and_keeps_them() {
    let model = model().await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let lock = |lock| model.set_bucket_lock(&bucket, lock);
    let set = |versioning| model.set_versioning(&bucket, versioning);
    assert_eq!(lock(GOVERNED).await.err(), Some(Error::LockNeedsVersions));
    set(Versioning::Suspended).await.unwrap();
    assert_eq!(lock(GOVERNED).await.err(), Some(Error::LockNeedsVersions));
    set(Versioning::Enabled).await.unwrap();
    assert!(set(Versioning::Never).await.is_err());
    lock(GOVERNED).await.unwrap();
    let suspended = set(Versioning::Suspended).await;
    assert_eq!(suspended.err(), Some(Error::LockKeepsVersions));
    let changed = lock(BucketLock::default()).await.unwrap();
    assert_eq!(changed.lock, Some(BucketLock::default()));
}

/// The operation that changed the settings died before it moved all fences.
#[tokio::test(start_paused = true)]
async fn a_change_that_was_left_half_way_is_finished_by_the_next_write() {
    let model = model().await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let next = |row: &mut Bucket| {
        row.lock = Some(GOVERNED);
        row.generation += 1;
        Ok(())
    };
    let held = model.take_token(&bucket, next).await.unwrap();
    // It is no conflict of the write's own: clients must send it again.
    let busy = put(&model, &held).await;
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    let release = |row: &mut Bucket| {
        row.token.taken_ms = Some(0);
        Ok(())
    };
    model.change_row(&bucket, release).await.unwrap();
    let written = put(&model, &held).await.unwrap();
    assert!(written.lock.retention.is_some());
}

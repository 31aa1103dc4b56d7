//! GC of content in a bucket that keeps versions.

use super::*;
use crate::rowkeys;
use crate::version::Versioning;

/// Returns the stamp of the object's row.
async fn stamp(model: &Model, bucket: &Bucket) -> archipel_base::Stamp {
    let row = rowkeys::object(model.cluster(), &bucket.id, "key");
    model.cluster().head_stamped(&row).await.unwrap().stamp
}

async fn versioned() -> (Model, Arc<Bucket>) {
    let (model, bucket) = model().await;
    let enabled = model.set_versioning(&bucket, Versioning::Enabled);
    enabled.await.unwrap();
    let bucket = model.find_bucket("bucket").await.unwrap().unwrap();
    (model, bucket)
}

/// Replaces the current version of "key", whose content is in other rows, and runs GC.
async fn gc_of_replaced(model: &Model, bucket: &Arc<Bucket>, content: &Bytes) {
    let first = model.head_object(bucket, "key").await.unwrap().id;
    put(model, bucket, "key", noise(9, 10)).await;
    let written = stamp(model, bucket).await;
    assert!(model.gc_tasks().await.unwrap() > 0);
    assert_eq!(run_gc(model).await, 0);
    assert_eq!(model.gc_tasks().await, Ok(0));
    assert_eq!(stamp(model, bucket).await, written, "GC wrote the object");
    let reader = model.open_version(bucket, "key", first).await.unwrap();
    assert_eq!(
        collect(reader.stream(0..content.len() as u64))
            .await
            .as_ref(),
        Ok(content)
    );
    assert_consistent(model).await;
}

#[tokio::test]
async fn a_tail_of_a_kept_version_stays_without_a_write_of_the_object() {
    let (model, bucket) = versioned().await;
    let content = noise(1, EXTENT_BYTES as usize + (1 << 20));
    put(&model, &bucket, "key", content.clone()).await;
    gc_of_replaced(&model, &bucket, &content).await;
}

#[tokio::test]
async fn parts_of_a_kept_version_stay_without_a_write_of_the_object() {
    let (model, bucket) = versioned().await;
    let begun = model.create_upload(&bucket, "key", None, UploadMeta::default());
    let upload = begun.await.unwrap();
    let content = noise(1, 5 << 20);
    let parts = [part(&model, &bucket, &upload, 1, content.clone()).await];
    let completion =
        model.complete_upload(&bucket, &upload, &parts, meta("m-1"), Condition::Always);
    completion.await.unwrap();
    gc_of_replaced(&model, &bucket, &content).await;
}

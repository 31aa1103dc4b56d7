//! Upload ids are no secrets. These tests use the id of another client's upload with another bucket
//! or key.

use super::*;
use crate::owner::{PartsId, UploadName};
use crate::rowkeys;

async fn begun(model: &Model, bucket: &Bucket, key: &str) -> Upload {
    let begun = model.create_upload(bucket, key, None, UploadMeta::default());
    begun.await.unwrap()
}

/// Writes a part with the id of an upload, but another bucket or key, as a client can do.
async fn foreign_part(
    model: &Model,
    bucket: &Arc<Bucket>,
    key: &str,
    upload: &Upload,
) -> Result<Part, Error> {
    let known = model.upload_to_write(bucket, key, &upload.id).await?;
    let writer = model.begin_part(bucket, &known, 1)?;
    writer.finish(PartMeta::default()).await
}

/// Runs GC until it has dropped `expected` rows, and then once more. Returns the number of dropped
/// rows. The background queues tasks shortly after the answer.
async fn run_gc_until(model: &Model, expected: u64) -> u64 {
    let mut dropped = 0;
    for _ in 0..10_000 {
        dropped += model.run_all_gc_tasks().await.unwrap().dropped;
        if dropped >= expected {
            break;
        }
        tokio::task::yield_now().await;
    }
    dropped + model.run_all_gc_tasks().await.unwrap().dropped
}

async fn complete(
    model: &Model,
    bucket: &Bucket,
    upload: &Upload,
    parts: &[Part],
) -> Result<ObjectHead, Error> {
    let completion = model.complete_upload(bucket, upload, parts, meta("m-1"), Condition::Always);
    completion.await
}

#[tokio::test]
async fn a_part_for_another_bucket_or_key_is_refused() {
    let (model, bucket) = model().await;
    let own = model.create_bucket("own", None).await.unwrap();
    let upload = begun(&model, &bucket, "key").await;
    // The node remembers the upload and does not read its row.
    assert!(
        model
            .upload_to_write(&bucket, "key", &upload.id)
            .await
            .is_ok()
    );
    for (other, key) in [(&own, "key"), (&bucket, "other"), (&own, "other")] {
        let refused = foreign_part(&model, other, key, &upload).await;
        assert_eq!(refused, Err(Error::NoSuchUpload), "{} {key}", other.name);
    }
    let parts = model.list_parts(&bucket, &upload, 0, 10).await.unwrap();
    assert_eq!(parts, (Vec::new(), false));
    assert_eq!(model.run_all_gc_tasks().await.unwrap(), Default::default());
}

/// The upload exists in `bucket`, not in `own`. The part is begun in `own` anyway, as with an old
/// cache.
#[tokio::test]
async fn a_part_in_another_bucket_does_not_count_and_its_gc_leaves_good_parts_alone() {
    let (model, bucket) = model().await;
    let own = model.create_bucket("own", None).await.unwrap();
    let upload = begun(&model, &bucket, "key").await;
    let good = noise(1, 5 << 20);
    part(&model, &bucket, &upload, 1, good.clone()).await;

    let mut foreign = model.begin_part(&own, &upload, 1).unwrap();
    foreign.write(noise(2, 2 << 20)).await.unwrap();
    let refused = foreign.finish(PartMeta::default()).await;
    assert_eq!(refused, Err(Error::NoSuchUpload));

    let (parts, _) = model.list_parts(&bucket, &upload, 0, 10).await.unwrap();
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0].size, 5 << 20, "the part in the upload's bucket");
    // GC drops the part in the wrong bucket and nothing else.
    assert_eq!(run_gc_until(&model, 1).await, 1);
    complete(&model, &bucket, &upload, &parts).await.unwrap();
    assert_eq!(run_gc(&model).await, 0);
    assert_eq!(get(&model, &bucket, "key").await, Ok(good));
    assert_consistent(&model).await;
}

#[tokio::test]
async fn a_foreign_part_that_ends_after_the_completion_does_not_harm_the_object() {
    let (model, bucket) = model().await;
    let own = model.create_bucket("own", None).await.unwrap();
    let upload = begun(&model, &bucket, "key").await;
    // The part is longer than an extent, so that GC asks the owner of its tail, too.
    let good = noise(1, EXTENT_BYTES as usize + (3 << 20));
    let good_part = part(&model, &bucket, &upload, 1, good.clone()).await;
    let mut foreign = model.begin_part(&own, &upload, 1).unwrap();
    foreign
        .write(noise(2, EXTENT_BYTES as usize + 1))
        .await
        .unwrap();
    complete(&model, &bucket, &upload, &[good_part])
        .await
        .unwrap();
    let refused = foreign.finish(PartMeta::default()).await;
    assert_eq!(refused, Err(Error::NoSuchUpload));
    // GC drops the foreign part and the extent of its tail.
    assert_eq!(run_gc_until(&model, 2).await, 2);
    assert_eq!(get(&model, &bucket, "key").await, Ok(good));
    assert_eq!(
        model.find_orphans(std::time::Duration::ZERO, None).await,
        Ok(0)
    );
    assert_consistent(&model).await;
}

#[tokio::test]
async fn a_foreign_writer_does_not_defer_gc_of_an_upload() {
    let (model, bucket) = model().await;
    let own = model.create_bucket("own", None).await.unwrap();
    let upload = begun(&model, &bucket, "key").await;
    part(&model, &bucket, &upload, 1, noise(1, 10)).await;
    let foreign = model.begin_part(&own, &upload, 1).unwrap();
    let abort = model.abort_upload(&bucket, "key", &upload.id);
    abort.await.unwrap();
    assert_eq!(run_gc_until(&model, 1).await, 1);
    drop(foreign);
}

#[tokio::test]
async fn an_upload_id_with_another_bucket_or_key_neither_aborts_nor_completes_the_upload() {
    let (model, bucket) = model().await;
    let own = model.create_bucket("own", None).await.unwrap();
    let upload = begun(&model, &bucket, "key").await;
    let parts = [part(&model, &bucket, &upload, 1, noise(1, 10)).await];
    for (other, key) in [(&own, "key"), (&bucket, "other")] {
        let aborted = model.abort_upload(other, key, &upload.id).await;
        assert_eq!(aborted, Err(Error::NoSuchUpload));
        let sent = model.sent_parts(other, key, &upload.id, &|_| true).await;
        assert_eq!(sent, Ok(Vec::new()));
        let by = model
            .completed_by(other, key, &upload.id, &|_| Ok(()))
            .await;
        assert_eq!(by, Ok(None));
        assert_eq!(get(&model, other, key).await, Err(Error::NoSuchKey));
    }
    let completed = complete(&model, &own, &upload, &parts).await;
    assert_eq!(completed, Err(Error::NoSuchUpload));
    assert_eq!(run_gc(&model).await, 0);
    complete(&model, &bucket, &upload, &parts).await.unwrap();
    assert_eq!(get(&model, &bucket, "key").await, Ok(noise(1, 10)));
}

#[test]
fn parts_are_named_by_bucket_key_and_id_together() {
    let (one, two) = (archipel_base::Id([1; 16]), archipel_base::Id([2; 16]));
    let names = [
        UploadName::new(&one, "key", &one),
        UploadName::new(&two, "key", &one),
        UploadName::new(&one, "key", &two),
        UploadName::new(&one, "ke", &one),
        UploadName::new(&one, "", &one),
    ];
    let all: std::collections::BTreeSet<PartsId> = names.iter().map(UploadName::parts).collect();
    assert_eq!(all.len(), names.len());
    // The name is part of the stored format.
    let id = "42f0034834a9d2ce287009d314bc4081";
    assert_eq!(names[0].parts().0.to_string(), id);
}

/// The row's key decides which upload a part belongs to. The search skips a row whose metadata
/// disagrees.
#[tokio::test]
async fn the_search_for_orphans_skips_a_part_whose_metadata_names_another_upload() {
    let (model, bucket) = model().await;
    let own = model.create_bucket("own", None).await.unwrap();
    let upload = begun(&model, &bucket, "key").await;
    let stray = part(&model, &bucket, &upload, 1, noise(1, 10)).await;
    let cluster = model.cluster();
    let row = rowkeys::part(
        cluster,
        &upload.name_in(&bucket.id).parts(),
        1,
        &stray.attempt,
    );
    let mut value = cluster.read(&row).await.unwrap().unwrap();
    let of = UploadName::new(&own.id, "key", &upload.id);
    value.metadata = archipel_base::codec::encode(&Part { of, ..stray }).into();
    let how = archipel_cluster::WriteOptions::durable(archipel_storage::engine::Durability::Fsync);
    cluster.write(&row, Some(value), how).await.unwrap();
    assert_eq!(
        model.find_orphans(std::time::Duration::ZERO, None).await,
        Ok(0)
    );
}

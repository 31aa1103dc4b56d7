use std::sync::Arc;

use archipel_cluster::Cluster;
use bytes::Bytes;

use crate::{
    BLOCK_BYTES, Bucket, Condition, EXTENT_BLOCKS, EXTENT_BYTES, Error, Model, ModelOptions,
    ObjectHead, ObjectMeta, Part, PartMeta, Permissions, Upload, UploadMeta,
};

mod foreign_parts;
mod kept_content;
mod listings;
mod minority_parts;
mod overtaken;
mod shards;
mod tags;
pub(crate) mod timed;
mod uploads;

async fn model() -> (Model, Arc<Bucket>) {
    let model = Model::open(Cluster::in_memory(1, crate::HOOKS).await.unwrap())
        .await
        .unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    (model, bucket)
}

/// Asserts that derived data (references, counters, change log, windows) follows from the rows.
async fn assert_consistent(model: &Model) {
    let report = model.cluster().store().verify().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
}

fn meta(etag: &str) -> ObjectMeta {
    ObjectMeta {
        etag: etag.into(),
        ..ObjectMeta::default()
    }
}

/// Returns bytes that do not compress and differ from block to block.
fn noise(seed: u64, length: usize) -> Bytes {
    use archipel_base::random::{Random, SeededRandom};
    let mut bytes = vec![0; length];
    SeededRandom::new(seed).fill(&mut bytes);
    bytes.into()
}

async fn put(model: &Model, bucket: &Arc<Bucket>, key: &str, content: Bytes) -> ObjectHead {
    let mut writer = model.begin_object(bucket, key).unwrap();
    for piece in content.chunks(300_000) {
        writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    writer.finish(meta("e"), Condition::Always).await.unwrap()
}

async fn get(model: &Model, bucket: &Bucket, key: &str) -> Result<Bytes, Error> {
    let reader = model.open_object(bucket, key).await?;
    let size = reader.metadata().size;
    collect(reader.stream(0..size)).await
}

async fn collect(mut stream: crate::ObjectStream) -> Result<Bytes, Error> {
    let mut all = Vec::new();
    while let Some(piece) = stream.next().await {
        all.extend_from_slice(&piece?);
    }
    Ok(all.into())
}

#[tokio::test]
async fn content_of_every_form_is_read_back() {
    let (model, bucket) = model().await;
    for size in [0, 1, 3 * 1024, 3 * 1024 + 1, 1 << 20, (5 << 20) + 17] {
        let content = noise(size as u64, size);
        let metadata = put(&model, &bucket, "key", content.clone()).await;
        assert_eq!(metadata.size, size as u64);
        assert_eq!(get(&model, &bucket, "key").await, Ok(content));
    }
    let usage = model.bucket_usage(&bucket).await.unwrap();
    assert_eq!((usage.objects, usage.bytes), (1, (5 << 20) + 17));
}

/// A node reads extents of every length.
#[tokio::test]
async fn reads_of_ranges_across_blocks_and_extents_return_the_right_bytes() {
    for extent_blocks in [1, 3, EXTENT_BLOCKS] {
        let (reads, bucket) = model().await;
        let options = ModelOptions {
            extent_blocks,
            ..ModelOptions::default()
        };
        let writes = Model::open_with(reads.cluster().clone(), options).await;
        let extent = (extent_blocks * BLOCK_BYTES) as u64;
        let size = extent as usize * 2 + 12_345;
        let content = noise(7, size);
        put(&writes.unwrap(), &bucket, "large", content.clone()).await;
        let reader = reads.open_object(&bucket, "large").await.unwrap();
        assert!(reader.content.name().is_some(), "there is no tail");
        for range in [
            0..1,
            (1 << 20) - 1..(1 << 20) + 1,
            extent - 2..extent + 2,
            2 * extent - 1..2 * extent + 12_345,
            2 * extent + 12_344..u64::MAX,
            size as u64..size as u64 + 5,
        ] {
            let end = range.end.min(size as u64) as usize;
            let expected = content.slice(range.start as usize..end);
            assert_eq!(collect(reader.stream(range)).await, Ok(expected));
        }
    }
}

#[tokio::test]
async fn replaced_content_is_dropped_only_after_its_last_reader() {
    let (model, bucket) = model().await;
    let old = noise(1, EXTENT_BYTES as usize + (3 << 20));
    put(&model, &bucket, "key", old.clone()).await;
    let reader = model.open_object(&bucket, "key").await.unwrap();
    put(&model, &bucket, "key", noise(2, 10)).await;

    let report = model.run_all_gc_tasks().await.unwrap();
    assert!(report.in_use >= 1, "{report:?}");
    assert_eq!(collect(reader.stream(0..u64::MAX)).await, Ok(old));
    drop(reader);
    // The task that feeds the stream may keep the content a moment longer.
    let mut dropped = 0;
    for _ in 0..100 {
        tokio::task::yield_now().await;
        dropped += model.run_all_gc_tasks().await.unwrap().dropped;
    }
    assert_eq!(dropped, 1);
    assert_eq!(model.run_all_gc_tasks().await.unwrap(), Default::default());
}

/// The reader's mark is removed, as if GC could not ask the reader's node. Then the read must fail,
/// but not with an error about damage.
#[tokio::test]
async fn reading_content_that_gc_dropped_after_a_replacement_does_not_report_damage() {
    let (model, bucket) = model().await;
    let old = noise(1, EXTENT_BYTES as usize + (3 << 20));
    put(&model, &bucket, "key", old).await;
    let mut reader = model.open_object(&bucket, "key").await.unwrap();
    reader.keep = Arc::default();
    put(&model, &bucket, "key", noise(2, 10)).await;
    assert!(run_gc(&model).await > 0);
    let read = collect(reader.stream(0..u64::MAX)).await;
    assert!(matches!(read, Err(Error::Unavailable(_))), "{read:?}");
    assert_consistent(&model).await;
}

/// Runs GC until no content is in use any more. Returns the number of dropped rows.
async fn run_gc(model: &Model) -> u64 {
    let mut dropped = 0;
    loop {
        let report = model.run_all_gc_tasks().await.unwrap();
        dropped += report.dropped;
        if report.in_use == 0 {
            return dropped;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_dropped_writer_leaves_nothing_after_gc() {
    let (model, bucket) = model().await;
    let mut writer = model.begin_object(&bucket, "key").unwrap();
    let content = noise(3, EXTENT_BYTES as usize * 2 + 1);
    writer.write(content).await.unwrap();
    drop(writer);
    assert_eq!(get(&model, &bucket, "key").await, Err(Error::NoSuchKey));
    assert_eq!(run_gc(&model).await, 1);
    assert_consistent(&model).await;
}

async fn part(model: &Model, bucket: &Arc<Bucket>, upload: &Upload, n: u16, bytes: Bytes) -> Part {
    let mut writer = model.begin_part(bucket, upload, n).unwrap();
    writer.write(bytes).await.unwrap();
    let meta = PartMeta {
        etag: format!("part{n}"),
        checksum: None,
    };
    writer.finish(meta).await.unwrap()
}

#[tokio::test]
async fn a_multipart_upload_becomes_the_object_and_gc_drops_unlisted_parts() {
    let (model, bucket) = model().await;
    let upload = model
        .create_upload(&bucket, "key", None, UploadMeta::default())
        .await
        .unwrap();
    let (one, two) = (noise(1, 5 << 20), noise(2, 777));
    part(&model, &bucket, &upload, 2, two.clone()).await;
    part(&model, &bucket, &upload, 1, noise(9, 4 << 20)).await;
    part(&model, &bucket, &upload, 1, one.clone()).await;
    part(&model, &bucket, &upload, 3, noise(8, 10)).await;

    let (parts, truncated) = model.list_parts(&bucket, &upload, 0, 2).await.unwrap();
    assert!(truncated);
    assert_eq!(
        parts[0].size,
        5 << 20,
        "the newest attempt of a number counts"
    );
    let metadata = model
        .complete_upload(&bucket, &upload, &parts, meta("m-2"), Condition::Always)
        .await
        .unwrap();
    assert_eq!((metadata.size, metadata.parts), ((5 << 20) + 777, 2));

    // GC drops part 3 and the first attempt of part 1. The object lists the others.
    assert_eq!(run_gc(&model).await, 2);
    let expected = [one, two].concat();
    assert_eq!(get(&model, &bucket, "key").await, Ok(expected.into()));

    let again = model
        .complete_upload(&bucket, &upload, &parts, meta("m-2"), Condition::Always)
        .await;
    assert_eq!(again, Err(Error::NoSuchUpload));
    let by = model
        .completed_by(&bucket, "key", &upload.id, &|_| Ok(()))
        .await
        .unwrap();
    assert_eq!(by, Some(metadata));

    model
        .delete_object(&bucket, "key", Condition::Always)
        .await
        .unwrap();
    assert_eq!(run_gc(&model).await, 2);
    assert_consistent(&model).await;
}

#[tokio::test]
async fn an_aborted_upload_cannot_be_completed() {
    let (model, bucket) = model().await;
    let upload = model
        .create_upload(&bucket, "key", None, UploadMeta::default())
        .await
        .unwrap();
    let only = part(&model, &bucket, &upload, 1, noise(1, 10)).await;
    model
        .abort_upload(&bucket, "key", &upload.id)
        .await
        .unwrap();
    let completed = model
        .complete_upload(&bucket, &upload, &[only], meta("m-1"), Condition::Always)
        .await;
    assert_eq!(completed, Err(Error::NoSuchUpload));
    assert_eq!(get(&model, &bucket, "key").await, Err(Error::NoSuchKey));
    let writer = model.begin_part(&bucket, &upload, 2).unwrap();
    let late = writer.finish(PartMeta::default()).await;
    assert_eq!(late, Err(Error::NoSuchUpload));
    assert_eq!(run_gc(&model).await, 2);
}

fn absent() -> Condition {
    Condition::Check(Arc::new(|current| match current {
        None => Ok(()),
        Some(_) => Err(Error::PreconditionFailed),
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_many_conditional_creations_succeeds() {
    let (model, bucket) = model().await;
    for round in 0..20 {
        let key = format!("key{round}");
        let racers = (0..16).map(|_| {
            let writer = model.begin_object(&bucket, &key).unwrap();
            tokio::spawn(writer.finish(meta("e"), absent()))
        });
        let mut winners = 0;
        for racer in racers.collect::<Vec<_>>() {
            match racer.await.unwrap() {
                Ok(_) => winners += 1,
                Err(error) => assert_eq!(error, Error::PreconditionFailed),
            }
        }
        assert_eq!(winners, 1);
    }
}

#[tokio::test]
async fn only_an_empty_bucket_is_deleted_and_late_writes_fail() {
    let (model, bucket) = model().await;
    put(&model, &bucket, "key", noise(1, 1)).await;
    assert_eq!(
        model.delete_bucket(&bucket).await,
        Err(Error::BucketNotEmpty)
    );
    model
        .delete_object(&bucket, "key", Condition::Always)
        .await
        .unwrap();
    let writer = model.begin_object(&bucket, "late").unwrap();
    model.delete_bucket(&bucket).await.unwrap();
    assert!(model.bucket("bucket").unwrap().is_none());
    let late = writer.finish(meta("e"), Condition::Always).await;
    assert_eq!(late, Err(Error::NoSuchBucket));
    let again = model.create_bucket("bucket", None).await.unwrap();
    assert_ne!(again.id, bucket.id);
}

#[tokio::test]
async fn gc_drops_the_uploads_of_a_deleted_bucket() {
    let (model, bucket) = model().await;
    let upload = model
        .create_upload(&bucket, "key", None, UploadMeta::default())
        .await
        .unwrap();
    part(&model, &bucket, &upload, 1, noise(1, 2 << 20)).await;
    model.delete_bucket(&bucket).await.unwrap();
    let mut dropped = 0;
    for _ in 0..3 {
        dropped += model.run_all_gc_tasks().await.unwrap().dropped;
    }
    assert_eq!(dropped, 2, "the upload, then its part");
    assert_consistent(&model).await;
}

#[tokio::test]
async fn a_new_model_reads_buckets_keys_and_grants_from_the_rows() {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    let model = Model::open(cluster.clone()).await.unwrap();
    let key = model.create_owner_key("alice").await.unwrap();
    model.create_bucket("one", Some(&key.id)).await.unwrap();
    model.create_bucket("two", None).await.unwrap();
    let read = Permissions {
        read: true,
        ..Permissions::default()
    };
    model.set_grant("two", &key.id, read).await.unwrap();
    assert_eq!(
        model.create_bucket("one", None).await.err(),
        Some(Error::BucketExists)
    );

    let again = Model::open(cluster).await.unwrap();
    let one = again.bucket("one").unwrap().unwrap();
    assert_eq!(one.permissions(&key), Permissions::ALL);
    let two = again.bucket("two").unwrap().unwrap();
    assert_eq!(two.permissions(&key), read);
    let found = again.access_key(&key.id).unwrap().unwrap();
    assert_eq!(found.secret, key.secret);
}

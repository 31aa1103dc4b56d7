//! The exact number of round trips between nodes that an operation takes. On the simulated network,
//! only messages take time.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by panicking"
)]

mod gc;
mod uploads;
mod versioned;

use std::sync::Arc;
use std::time::Duration;

use archipel_cluster::World;
use archipel_model::{
    Bucket, Condition, Error, HOOKS, ListQuery, Model, ObjectHead, ObjectMeta, PartMeta,
    Permissions, UploadMeta,
};
use bytes::Bytes;
use tokio::time::Instant;

const LATENCY: Duration = Duration::from_millis(50);

/// Returns five nodes with three replicas of each partition. The first node holds only some
/// partitions.
async fn world() -> (World, Model, Arc<Bucket>) {
    let world = World::new(5, 3, LATENCY, 1, HOOKS).await.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    (world, model, bucket)
}

/// Returns the result of `run` and the number of round trips that it took.
async fn rounds<T>(run: impl Future<Output = T>) -> (T, f64) {
    let begun = Instant::now();
    let done = run.await;
    let rounds = begun.elapsed().as_secs_f64() / (2.0 * LATENCY.as_secs_f64());
    (done, (rounds * 1000.0).round() / 1000.0)
}

async fn put(model: &Model, bucket: &Arc<Bucket>, key: &str, size: usize) -> f64 {
    let mut writer = model.begin_object(bucket, key).unwrap();
    // The replicas get the content while the client sends it.
    writer.write(Bytes::from(vec![3; size])).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let finish = writer.finish(ObjectMeta::default(), Condition::Always);
    let (written, rounds) = rounds(finish).await;
    written.unwrap();
    rounds
}

/// Reads an object. Returns its length, and the round trips before its first byte. A node that is
/// no replica gets content in pieces.
async fn get(model: &Model, bucket: &Bucket, key: &str) -> (usize, f64) {
    let first = async {
        let reader = model.open_object(bucket, key).await.unwrap();
        let mut stream = reader.stream(0..u64::MAX);
        let first = stream.next().await;
        (stream, first)
    };
    let ((mut stream, first), rounds) = rounds(first).await;
    let mut length = first.map_or(0, |first| first.unwrap().len());
    while let Some(more) = stream.next().await {
        length += more.unwrap().len();
    }
    (length, rounds)
}

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[tokio::test(start_paused = true)]
async fn small_reads_writes_and_deletions_take_one_round_trip() {
    let (_world, model, bucket) = world().await;
    for key in KEYS {
        assert_eq!(put(&model, &bucket, key, 16).await, 1.0, "PUT {key}");
        let (metadata, n) = rounds(model.head_object(&bucket, key)).await;
        assert_eq!((metadata.unwrap().size, n), (16, 1.0), "HEAD {key}");
        assert_eq!(get(&model, &bucket, key).await, (16, 1.0), "GET {key}");
        let delete = model.delete_object(&bucket, key, Condition::Always);
        let (deleted, rounds) = rounds(delete).await;
        assert_eq!((deleted.is_ok(), rounds), (true, 1.0), "DELETE {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn content_in_blocks_takes_one_round_trip_after_the_last_byte_and_one_before_the_first() {
    let (_world, model, bucket) = world().await;
    for key in KEYS {
        for size in [100_000, 3 << 20] {
            assert_eq!(
                put(&model, &bucket, key, size).await,
                1.0,
                "PUT {key} of {size}"
            );
            assert_eq!(
                get(&model, &bucket, key).await,
                (size, 1.0),
                "GET {key} of {size}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn conditional_writes_take_two_round_trips() {
    let (_world, model, bucket) = world().await;
    let absent = Condition::Check(Arc::new(|metadata: Option<&ObjectHead>| match metadata {
        None => Ok(()),
        Some(_) => Err(Error::PreconditionFailed),
    }));
    for key in KEYS {
        let writer = model.begin_object(&bucket, key).unwrap();
        let finish = writer.finish(ObjectMeta::default(), absent.clone());
        let (written, n) = rounds(finish).await;
        written.unwrap();
        assert_eq!(n, 2.0, "PUT If-None-Match {key}");
        let writer = model.begin_object(&bucket, key).unwrap();
        let finish = writer.finish(ObjectMeta::default(), absent.clone());
        assert_eq!(
            rounds(finish).await,
            (Err(Error::PreconditionFailed), 1.0),
            "refused {key}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_takes_one_round_trip() {
    let (_world, model, bucket) = world().await;
    for n in 0..50 {
        put(&model, &bucket, &format!("key{n}"), 1).await;
    }
    let query = ListQuery {
        limit: 1000,
        ..ListQuery::default()
    };
    let (listing, n) = rounds(model.list_objects(&bucket, &query)).await;
    assert_eq!((listing.unwrap().entries.len(), n), (50, 1.0));
    let query = ListQuery {
        delimiter: Some("e".into()),
        ..query
    };
    let (listing, n) = rounds(model.list_objects(&bucket, &query)).await;
    assert_eq!((listing.unwrap().entries.len(), n), (1, 1.0));
}

#[tokio::test(start_paused = true)]
async fn multipart_uploads_take_one_round_trip_a_part_and_two_to_complete() {
    let (_world, model, bucket) = world().await;
    let create = model.create_upload(&bucket, "multi", None, UploadMeta::default());
    let (upload, n) = rounds(create).await;
    assert_eq!(n, 1.0, "CreateMultipartUpload");
    let upload = upload.unwrap();
    let mut writer = model.begin_part(&bucket, &upload, 1).unwrap();
    writer.write(Bytes::from(vec![1; 5 << 20])).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (part, n) = rounds(writer.finish(PartMeta::default())).await;
    assert_eq!(n, 1.0, "UploadPart");
    let mut writer = model.begin_part(&bucket, &upload, 2).unwrap();
    writer.write(Bytes::from_static(b"small")).await.unwrap();
    let (small, n) = rounds(writer.finish(PartMeta::default())).await;
    assert_eq!((small.is_ok(), n), (true, 1.0), "UploadPart, small");
    let parts = [part.unwrap()];
    let meta = ObjectMeta::default();
    let complete = model.complete_upload(&bucket, &upload, &parts, meta, Condition::Always);
    let (metadata, n) = rounds(complete).await;
    assert_eq!(
        (metadata.unwrap().size, n),
        (5 << 20, 2.0),
        "CompleteMultipartUpload"
    );
}

/// GC of a completed upload rewrites no row: it takes three round trips, which read the upload, its
/// parts and the object. After the object's deletion, the first replica in turn drops the parts.
#[tokio::test(start_paused = true)]
async fn gc_only_reads_while_content_is_needed_and_one_replica_drops_it() {
    let (world, model, bucket) = world().await;
    let mut models = vec![model.clone()];
    for node in &world.nodes[1..] {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    put_multipart(&model, &bucket, "multi").await;
    assert_eq!(run_gc(&models).await, (3, 0, 3.0));
    let delete = model.delete_object(&bucket, "multi", Condition::Always);
    delete.await.unwrap();
    let (completed, dropped, _) = run_gc(&models).await;
    assert_eq!((completed, dropped), (3, 1));
}

/// Content that a client reads through one node stays while other nodes delete the object.
#[tokio::test(start_paused = true)]
async fn gc_on_all_nodes_waits_for_a_reader_on_one_node() {
    let (world, model, bucket) = world().await;
    let mut models = vec![model.clone()];
    for node in &world.nodes[1..] {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    put_multipart(&model, &bucket, "multi").await;
    run_gc(&models).await;
    let (reader, n) = rounds(models[4].open_object(&bucket, "multi")).await;
    assert_eq!(n, 1.0, "opening");
    let delete = models[1].delete_object(&bucket, "multi", Condition::Always);
    delete.await.unwrap();
    assert_eq!(run_gc(&models).await.1, 0);
    let mut stream = reader.unwrap().stream(0..u64::MAX);
    let mut length = 0;
    while let Some(piece) = stream.next().await {
        length += piece.unwrap().len();
    }
    assert_eq!(length, 9);
    drop(stream);
    assert_eq!(run_gc(&models).await.1, 1);
}

async fn put_multipart(model: &Model, bucket: &Arc<Bucket>, key: &str) {
    let upload = model.create_upload(bucket, key, None, UploadMeta::default());
    let upload = upload.await.unwrap();
    let mut writer = model.begin_part(bucket, &upload, 1).unwrap();
    writer.write(Bytes::from(vec![1; 9])).await.unwrap();
    let parts = [writer.finish(PartMeta::default()).await.unwrap()];
    let meta = ObjectMeta::default();
    let complete = model.complete_upload(bucket, &upload, &parts, meta, Condition::Always);
    complete.await.unwrap();
}

/// Runs GC on all nodes until each has had its turn. Returns the completed tasks, the dropped rows,
/// and the round trips of the longest pass.
async fn run_gc(models: &[Model]) -> (u64, u64, f64) {
    let (mut completed, mut dropped, mut longest) = (0, 0, 0.0_f64);
    for _ in 0..6 {
        for model in models {
            let (report, n) = rounds(model.run_due_gc_tasks()).await;
            let report = report.unwrap();
            completed += report.completed;
            dropped += report.dropped;
            longest = longest.max(n);
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    (completed, dropped, longest)
}

#[tokio::test(start_paused = true)]
async fn cached_control_data_takes_no_round_trip() {
    let (_world, model, _) = world().await;
    let key = model.create_owner_key("key").await.unwrap();
    model
        .set_grant("bucket", &key.id, Permissions::ALL)
        .await
        .unwrap();
    let asked = async {
        let bucket = model.find_bucket("bucket").await.unwrap().unwrap();
        let found = model.find_access_key(&key.id).await.unwrap().unwrap();
        (model.buckets().unwrap().len(), bucket.permissions(&found))
    };
    assert_eq!(rounds(asked).await, ((1, Permissions::ALL), 0.0));
}

/// A silent replica costs nothing if the others suffice. If it was asked for the content, the
/// coordinator asks another one after a moment.
#[tokio::test(start_paused = true)]
async fn a_silent_replica_costs_writes_and_listings_nothing_and_reads_little() {
    let (world, model, bucket) = world().await;
    for key in KEYS {
        put(&model, &bucket, key, 16).await;
    }
    world.isolate(2);
    for key in KEYS {
        let n = put(&model, &bucket, key, 16).await;
        assert_eq!(n, 1.0, "PUT {key}");
        let (metadata, n) = rounds(model.head_object(&bucket, key)).await;
        assert!(metadata.is_ok() && n <= 2.5, "HEAD {key}: {n}");
        let (length, n) = get(&model, &bucket, key).await;
        assert!(length == 16 && n <= 2.5, "GET {key}: {n}");
        let query = ListQuery {
            limit: 10,
            ..ListQuery::default()
        };
        let listed = model.list_objects(&bucket, &query);
        let (listing, n) = rounds(listed).await;
        assert_eq!((listing.unwrap().entries.len(), n), (6, 1.0), "LIST {key}");
    }
    for size in [100_000, 3 << 20] {
        for key in KEYS {
            let n = put(&model, &bucket, key, size).await;
            assert_eq!(n, 1.0, "PUT {key} of {size}");
            let (length, n) = get(&model, &bucket, key).await;
            assert!(length == size && n <= 3.0, "GET {key}: {n}");
        }
    }
}

/// All partitions of the bucket are looked at together, before and behind the closed fences.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_bucket_takes_twelve_round_trips() {
    let (_world, model, bucket) = world().await;
    let (deleted, n) = rounds(model.delete_bucket(&bucket)).await;
    deleted.unwrap();
    assert_eq!(n, 12.0);
}

#[tokio::test(start_paused = true)]
async fn the_usage_of_a_bucket_takes_one_round_trip() {
    let (_world, model, bucket) = world().await;
    put(&model, &bucket, "key", 16).await;
    let (usage, n) = rounds(model.bucket_usage(&bucket)).await;
    assert_eq!((usage.unwrap().objects, n), (1, 1.0));
}

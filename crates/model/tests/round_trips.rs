//! How many round trips between nodes an operation takes, exactly: on the simulated network nothing
//! but the way takes time.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by panicking"
)]

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

/// Five nodes, three copies: the first node holds some partitions, and others not.
async fn world() -> (World, Model, Arc<Bucket>) {
    let world = World::new(5, 3, LATENCY, 1, HOOKS).await.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    (world, model, bucket)
}

/// Round trips of what `run` does.
async fn rounds<T>(run: impl Future<Output = T>) -> (T, f64) {
    let begun = Instant::now();
    let done = run.await;
    let rounds = begun.elapsed().as_secs_f64() / (2.0 * LATENCY.as_secs_f64());
    (done, (rounds * 1000.0).round() / 1000.0)
}

async fn put(model: &Model, bucket: &Arc<Bucket>, key: &str, size: usize) -> f64 {
    let mut writer = model.begin_object(bucket, key).unwrap();
    // The content is on its way while the client sends it.
    writer.write(Bytes::from(vec![3; size])).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let finish = writer.finish(ObjectMeta::default(), Condition::Always);
    let (written, rounds) = rounds(finish).await;
    written.unwrap();
    rounds
}

async fn get(model: &Model, bucket: &Bucket, key: &str) -> Bytes {
    let reader = model.open_object(bucket, key).await.unwrap();
    let mut stream = reader.stream(0..u64::MAX);
    stream.next().await.unwrap_or(Ok(Bytes::new())).unwrap()
}

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[tokio::test(start_paused = true)]
async fn reads_writes_and_deletions_take_one() {
    let (_world, model, bucket) = world().await;
    for key in KEYS {
        assert_eq!(put(&model, &bucket, key, 16).await, 1.0, "PUT {key}");
        let (head, n) = rounds(model.head_object(&bucket, key)).await;
        assert_eq!((head.unwrap().size, n), (16, 1.0), "HEAD {key}");
        let (content, n) = rounds(get(&model, &bucket, key)).await;
        assert_eq!((content.len(), n), (16, 1.0), "GET {key}");
        let delete = model.delete_object(&bucket, key, Condition::Always);
        assert_eq!(rounds(delete).await, (Ok(()), 1.0), "DELETE {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn content_in_blocks_takes_one_after_the_last_byte_and_one_to_the_first() {
    let (_world, model, bucket) = world().await;
    for key in KEYS {
        for size in [100_000, 3 << 20] {
            assert_eq!(
                put(&model, &bucket, key, size).await,
                1.0,
                "PUT {key} of {size}"
            );
            let (content, n) = rounds(get(&model, &bucket, key)).await;
            assert_eq!(
                (content.len(), n),
                (size.min(1 << 20), 1.0),
                "GET {key} of {size}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_take_two() {
    let (_world, model, bucket) = world().await;
    let absent = Condition::Check(Arc::new(|head: Option<&ObjectHead>| match head {
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
async fn a_listing_takes_one() {
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
async fn multipart_uploads() {
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
    let parts = [part.unwrap()];
    let meta = ObjectMeta::default();
    let complete = model.complete_upload(&bucket, &upload, &parts, meta, Condition::Always);
    let (head, n) = rounds(complete).await;
    assert_eq!(
        (head.unwrap().size, n),
        (5 << 20, 2.0),
        "CompleteMultipartUpload"
    );
}

/// Looking after a completed upload rewrites nothing that a client may be writing: three rounds ask for the upload, its
/// parts and the object. The parts of a deleted object are dropped once, by the replica whose turn it is.
#[tokio::test(start_paused = true)]
async fn the_sweep_only_reads_what_is_in_use() {
    let (world, model, bucket) = world().await;
    let mut models = vec![model.clone()];
    for node in &world.nodes[1..] {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    put_multipart(&model, &bucket, "multi").await;
    assert_eq!(sweep(&models).await, (3, 0, 3.0));
    let delete = model.delete_object(&bucket, "multi", Condition::Always);
    delete.await.unwrap();
    let (settled, dropped, _) = sweep(&models).await;
    assert_eq!((settled, dropped), (3, 1));
}

/// What somebody reads through one node stays, whatever becomes of the object through others.
#[tokio::test(start_paused = true)]
async fn a_reader_at_one_node_holds_the_others_sweeps_back() {
    let (world, model, bucket) = world().await;
    let mut models = vec![model.clone()];
    for node in &world.nodes[1..] {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    put_multipart(&model, &bucket, "multi").await;
    sweep(&models).await;
    let (reader, n) = rounds(models[4].open_object(&bucket, "multi")).await;
    assert_eq!(n, 1.0, "opening");
    let delete = models[1].delete_object(&bucket, "multi", Condition::Always);
    delete.await.unwrap();
    assert_eq!(sweep(&models).await.1, 0);
    let mut stream = reader.unwrap().stream(0..u64::MAX);
    let mut length = 0;
    while let Some(piece) = stream.next().await {
        length += piece.unwrap().len();
    }
    assert_eq!(length, 9);
    drop(stream);
    assert_eq!(sweep(&models).await.1, 1);
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

/// Sweeps everywhere, again and again, until each has had its turn; gives the questions answered, the rows dropped,
/// and the rounds of the longest pass.
async fn sweep(models: &[Model]) -> (u64, u64, f64) {
    let (mut settled, mut dropped, mut longest) = (0, 0, 0.0_f64);
    for _ in 0..6 {
        for model in models {
            let (report, n) = rounds(model.sweep_due()).await;
            let report = report.unwrap();
            settled += report.settled;
            dropped += report.dropped;
            longest = longest.max(n);
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    (settled, dropped, longest)
}

#[tokio::test(start_paused = true)]
async fn what_is_cached_takes_none() {
    let (_world, model, _) = world().await;
    let key = model.create_access_key("key", true).await.unwrap();
    model
        .set_grant("bucket", &key.id, Permissions::ALL)
        .await
        .unwrap();
    let asked = async {
        let bucket = model.find_bucket("bucket").await.unwrap().unwrap();
        let found = model.find_access_key(&key.id).await.unwrap().unwrap();
        (model.buckets().len(), bucket.permissions(&found.id))
    };
    assert_eq!(rounds(asked).await, ((1, Permissions::ALL), 0.0));
}

/// A replica that is silent costs nothing where the others are enough; where it was asked for the
/// content, another is asked after a moment.
#[tokio::test(start_paused = true)]
async fn a_silent_replica_costs_little() {
    let (world, model, bucket) = world().await;
    for key in KEYS {
        put(&model, &bucket, key, 16).await;
    }
    world.isolate(2);
    for key in KEYS {
        let n = put(&model, &bucket, key, 16).await;
        assert_eq!(n, 1.0, "PUT {key}");
        let (head, n) = rounds(model.head_object(&bucket, key)).await;
        assert!(head.is_ok() && n <= 2.5, "HEAD {key}: {n}");
        let (content, n) = rounds(get(&model, &bucket, key)).await;
        assert!(content.len() == 16 && n <= 2.5, "GET {key}: {n}");
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
            let (content, n) = rounds(get(&model, &bucket, key)).await;
            assert!(
                content.len() == size.min(1 << 20) && n <= 3.0,
                "GET {key}: {n}"
            );
        }
    }
}

//! Garbage collection of the content of versions.

use std::sync::Arc;
use std::time::Duration;

use archipel_cluster::World;
use archipel_model::{
    Bucket, Condition, Error, Governance, HOOKS, Model, ModelOptions, ObjectMeta, VersionId,
    Versioning,
};
use bytes::Bytes;

use crate::{LATENCY, rounds};

/// A little more than an extent, so that the content has a tail.
const SIZE: usize = (1 << 20) + 1;

/// Returns three nodes with short extents, and a bucket that keeps versions.
async fn versioned() -> (World, Vec<Model>, Arc<Bucket>) {
    let world = World::new(3, 3, LATENCY, 1, HOOKS).await.unwrap();
    let mut models = Vec::new();
    for node in &world.nodes {
        let options = ModelOptions {
            extent_blocks: 1,
            ..ModelOptions::default()
        };
        models.push(Model::open_with(node.clone(), options).await.unwrap());
    }
    let bucket = models[0].create_bucket("bucket", None).await.unwrap();
    let enabled = models[0].set_versioning(&bucket, Versioning::Enabled);
    let bucket = enabled.await.unwrap();
    (world, models, bucket)
}

async fn put(model: &Model, bucket: &Arc<Bucket>, size: usize) -> Result<VersionId, Error> {
    let mut writer = model.begin_object(bucket, "key")?;
    writer.write(Bytes::from(vec![3; size])).await?;
    let head = writer.finish(ObjectMeta::default(), Condition::Always);
    Ok(head.await?.id)
}

/// Returns the length of a version's content.
async fn length(model: &Model, bucket: &Bucket, id: VersionId) -> usize {
    let reader = model.open_version(bucket, "key", id).await.unwrap();
    let mut stream = reader.stream(0..u64::MAX);
    let mut length = 0;
    while let Some(piece) = stream.next().await {
        length += piece.unwrap().len();
    }
    length
}

/// Removes up to this many tasks from each node's queue.
async fn forget_tasks(models: &[Model], most: usize) {
    for model in models {
        let tasks = model.cluster().queue_read(0, most).await.unwrap();
        for (task, _) in tasks {
            model.cluster().queue_remove(task).await.unwrap();
        }
    }
}

/// Each task used to read all kept versions one after the other, whole, and twice if there was something to drop.
/// So did the tasks of the other replicas, for which nothing was left.
#[tokio::test(start_paused = true)]
async fn gc_of_a_deleted_version_reads_many_others_at_once() {
    const VERSIONS: usize = 160;
    let (_world, models, bucket) = versioned().await;
    let mut ids = Vec::new();
    for _ in 0..VERSIONS {
        ids.push(put(&models[0], &bucket, SIZE).await.unwrap());
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    // Those of the versions that were replaced.
    forget_tasks(&models, 10 * VERSIONS).await;
    let deleted = models[0].delete_version(
        &bucket,
        "key",
        ids[0],
        Governance::Respect,
        Condition::Always,
    );
    deleted.await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (mut dropped, mut all) = (0, 0.0);
    for model in &models {
        assert_eq!(model.gc_tasks().await, Ok(1));
        let (report, n) = rounds(model.run_all_gc_tasks()).await;
        let report = report.unwrap();
        assert_eq!(report.completed, 1);
        dropped += report.dropped;
        all += n;
    }
    assert_eq!(dropped, 1);
    assert!(all < VERSIONS as f64 / 2.0, "{all} round trips");
    for id in [ids[1], ids[VERSIONS / 2], ids[VERSIONS - 1]] {
        assert_eq!(length(&models[1], &bucket, id).await, SIZE);
    }
}

/// The deletion of the newest version makes the first one current, and that leaves its kept row. GC that looked at the
/// current version and then at the kept ones saw it in neither place, and dropped its tail.
#[tokio::test(start_paused = true)]
async fn content_of_a_version_stays_while_newer_versions_come_and_go() {
    let (_world, models, bucket) = versioned().await;
    let first = put(&models[0], &bucket, SIZE).await.unwrap();
    let (client, on) = (models[1].clone(), bucket.clone());
    let busy = tokio::spawn(async move {
        loop {
            // Others may be faster.
            let _ = put(&client, &on, 1).await;
            while let Ok(head) = client.head_object(&on, "key").await
                && head.id != first
            {
                let deleted = client.delete_version(
                    &on,
                    "key",
                    head.id,
                    Governance::Respect,
                    Condition::Always,
                );
                let _ = deleted.await;
            }
        }
    });
    let mut completed = 0;
    for _ in 0..300 {
        let report = models[0].run_all_gc_tasks().await.unwrap();
        assert_eq!(report.dropped, 0, "after {completed} tasks");
        completed += report.completed;
        // So that tasks begin at any moment of the others' operations.
        tokio::time::sleep(LATENCY / 3).await;
    }
    assert_ne!(completed, 0);
    busy.abort();
    tokio::time::sleep(Duration::from_secs(60)).await;
    for model in &models {
        model.run_all_gc_tasks().await.unwrap();
        assert_eq!(length(model, &bucket, first).await, SIZE);
    }
}

/// Each change of tags writes the current version under another stamp, as the tasks of other replicas do, too. GC took
/// that for another version, and began again and again.
#[tokio::test(start_paused = true)]
async fn gc_does_not_wait_while_tags_change() {
    let (_world, models, bucket) = versioned().await;
    let mut ids = Vec::new();
    // To look at them takes longer than a change of tags.
    for _ in 0..64 {
        ids.push(put(&models[0], &bucket, SIZE).await.unwrap());
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    forget_tasks(&models, 1000).await;
    let deleted = models[0].delete_version(
        &bucket,
        "key",
        ids[0],
        Governance::Respect,
        Condition::Always,
    );
    deleted.await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(models[0].gc_tasks().await, Ok(1));
    let (client, on) = (models[1].clone(), bucket.clone());
    let busy = tokio::spawn(async move {
        for n in 0.. {
            let tags = vec![("n".to_owned(), n.to_string())];
            let changed = client.set_object_tags(&on, "key", None, tags, &|_| Ok(()));
            // GC settles the row meanwhile.
            let _ = changed.await;
            tokio::time::sleep(LATENCY).await;
        }
    });
    let mut dropped = 0;
    for _ in 0..3 {
        dropped += models[0].run_all_gc_tasks().await.unwrap().dropped;
    }
    busy.abort();
    assert_eq!(dropped, 1);
    for id in [ids[1], ids[63]] {
        assert_eq!(length(&models[2], &bucket, id).await, SIZE);
    }
}

use std::time::Duration;

use archipel_cluster::{Cluster, World};
use futures_util::future::join_all;

use super::*;
use crate::{Condition, Governance, ObjectHead, ObjectMeta};

pub(super) fn of_objects(objects: u64) -> Quota {
    Quota {
        objects: Some(objects),
        bytes: None,
    }
}

pub(super) fn of_bytes(bytes: u64) -> Quota {
    Quota {
        objects: None,
        bytes: Some(bytes),
    }
}

pub(super) async fn put(
    model: &Model,
    bucket: &Arc<Bucket>,
    key: &str,
    bytes: usize,
) -> Result<ObjectHead, Error> {
    let mut writer = model.begin_object(bucket, key)?;
    writer.write(vec![7; bytes].into()).await?;
    writer
        .finish(ObjectMeta::default(), Condition::Always)
        .await
}

pub(super) async fn delete(model: &Model, bucket: &Bucket, key: &str) {
    let deleted = model.delete_object(bucket, key, Condition::Always);
    deleted.await.unwrap();
}

fn is_refused<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::QuotaExceeded(_)))
}

async fn alone() -> (Model, Arc<Bucket>) {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    (model, bucket)
}

#[tokio::test(start_paused = true)]
async fn objects_are_counted_exactly_and_deletions_give_room_back() {
    let (model, bucket) = alone().await;
    model.set_quota("bucket", of_objects(20)).await.unwrap();
    for n in 0..20 {
        put(&model, &bucket, &format!("key-{n}"), 10).await.unwrap();
    }
    assert!(is_refused(&put(&model, &bucket, "one-more", 0).await));
    assert_eq!(
        model.head_object(&bucket, "one-more").await,
        Err(Error::NoSuchKey)
    );
    // Operations that add no object go on.
    put(&model, &bucket, "key-3", 10_000).await.unwrap();
    delete(&model, &bucket, "key-4").await;
    put(&model, &bucket, "one-more", 0).await.unwrap();
    assert!(is_refused(&put(&model, &bucket, "another", 0).await));
    let lifted = model.set_quota("bucket", Quota::default()).await.unwrap();
    assert_eq!(lifted.quota, None);
    put(&model, &bucket, "another", 0).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bytes_are_counted_and_one_object_may_fill_the_quota() {
    let (model, bucket) = alone().await;
    model
        .set_quota("bucket", of_bytes(1_000_000))
        .await
        .unwrap();
    assert!(is_refused(&put(&model, &bucket, "large", 1_000_001).await));
    put(&model, &bucket, "large", 1_000_000).await.unwrap();
    assert!(is_refused(&put(&model, &bucket, "small", 1).await));
    put(&model, &bucket, "empty", 0).await.unwrap();
    // An overwrite needs room only for what it adds.
    assert!(is_refused(&put(&model, &bucket, "large", 1_000_001).await));
    put(&model, &bucket, "large", 999_000).await.unwrap();
    put(&model, &bucket, "large", 999_500).await.unwrap();
    put(&model, &bucket, "small", 500).await.unwrap();
    assert!(is_refused(&put(&model, &bucket, "small", 501).await));
}

#[tokio::test(start_paused = true)]
async fn versions_count_and_markers_do_not() {
    let (model, bucket) = alone().await;
    let versions = Versioning::Enabled;
    model.set_versioning(&bucket, versions).await.unwrap();
    let bucket = model.set_quota("bucket", of_objects(3)).await.unwrap();
    let first = put(&model, &bucket, "key", 10).await.unwrap();
    put(&model, &bucket, "key", 10).await.unwrap();
    put(&model, &bucket, "key", 10).await.unwrap();
    assert!(is_refused(&put(&model, &bucket, "key", 10).await));
    // A deletion without a version keeps all of them. It is allowed, and gives nothing back.
    delete(&model, &bucket, "key").await;
    assert!(is_refused(&put(&model, &bucket, "key", 10).await));
    let deleted = model.delete_version(
        &bucket,
        "key",
        first.id,
        Governance::Respect,
        Condition::Always,
    );
    deleted.await.unwrap();
    put(&model, &bucket, "key", 10).await.unwrap();
}

/// A version with a name is current, and the write replaces the null version behind it. The bytes
/// that it adds fit the quota, but not the share of its partition.
#[tokio::test(start_paused = true)]
async fn an_overwrite_of_a_null_version_that_is_not_current_needs_room_only_for_what_it_adds() {
    let (model, bucket) = alone().await;
    let set = |versioning| model.set_versioning(&bucket, versioning);
    let suspended = set(Versioning::Suspended).await.unwrap();
    put(&model, &suspended, "key", 900_000).await.unwrap();
    let enabled = set(Versioning::Enabled).await.unwrap();
    put(&model, &enabled, "key", 10).await.unwrap();
    set(Versioning::Suspended).await.unwrap();
    let limit = Quota {
        objects: Some(2),
        ..of_bytes(1_100_010)
    };
    let bucket = model.set_quota("bucket", limit).await.unwrap();
    assert!(is_refused(&put(&model, &bucket, "key", 1_100_001).await));
    let null = put(&model, &bucket, "key", 1_000_000).await.unwrap();
    assert_eq!((null.id, null.size), (VersionId::Null, 1_000_000));
    // The null version is current from now on.
    put(&model, &bucket, "key", 1_100_000).await.unwrap();
    assert!(is_refused(&put(&model, &bucket, "key", 1_100_001).await));
    assert!(is_refused(&put(&model, &bucket, "other", 0).await));
}

#[tokio::test(start_paused = true)]
async fn a_bucket_above_a_new_quota_only_shrinks() {
    let (model, bucket) = alone().await;
    for n in 0..10 {
        put(&model, &bucket, &format!("key-{n}"), 100)
            .await
            .unwrap();
    }
    model.set_quota("bucket", of_objects(5)).await.unwrap();
    for n in 0..5 {
        delete(&model, &bucket, &format!("key-{n}")).await;
        let refused = put(&model, &bucket, &format!("key-{n}"), 100).await;
        assert!(is_refused(&refused), "{n}");
    }
    delete(&model, &bucket, "key-5").await;
    put(&model, &bucket, "key-0", 100).await.unwrap();
}

/// The other node's view is the one from before the quota, as if no message had reached it.
#[tokio::test(start_paused = true)]
async fn a_quota_counts_on_a_node_that_has_not_heard_of_it() {
    let world = World::new(3, 3, Duration::from_millis(5), 1, crate::HOOKS).await;
    let world = world.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let other = Model::open(world.nodes[1].clone()).await.unwrap();
    let stale = model.create_bucket("bucket", None).await.unwrap();
    model.set_quota("bucket", of_objects(1)).await.unwrap();
    put(&other, &stale, "key", 1).await.unwrap();
    assert!(is_refused(&put(&other, &stale, "other", 1).await));
}

/// Opens the models of all nodes.
pub(super) async fn models(world: &World) -> Vec<Model> {
    let mut models = Vec::new();
    for node in &world.nodes {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    models
}

/// Writes to the buckets through all nodes at once, and returns how many writes were acknowledged.
pub(super) async fn write_through(
    models: &[Model],
    buckets: &[Arc<Bucket>],
    writers: usize,
    each: usize,
) -> u64 {
    let write = |writer: usize| {
        let (model, bucket) = (
            &models[writer % models.len()],
            &buckets[writer % buckets.len()],
        );
        async move {
            let mut done = 0;
            for n in 0..each {
                match put(model, bucket, &format!("{writer}/{n}"), 1).await {
                    Ok(_) => done += 1,
                    Err(
                        Error::QuotaExceeded(_)
                        | Error::Unavailable(_)
                        | Error::Busy(_)
                        | Error::Conflict,
                    ) => {}
                    // Nothing else reads the control data again here.
                    Err(Error::Unconfirmed(_)) => drop(model.refresh_all().await),
                    Err(error) => panic!("{error}"),
                }
            }
            done
        }
    };
    join_all((0..writers).map(write)).await.iter().sum()
}

/// Returns the number of objects in a bucket.
pub(super) async fn objects_in(model: &Model, bucket: &Bucket) -> u64 {
    let query = crate::ListQuery {
        limit: 10_000,
        ..crate::ListQuery::default()
    };
    let listed = model.list_objects(bucket, &query).await.unwrap();
    listed.entries.len() as u64
}

/// Fills a bucket through all nodes at once, and returns how many writes were acknowledged, and
/// what the bucket holds in the end.
async fn fill(world: &World, limit: u64, writers: usize, each: usize) -> (u64, u64) {
    let models = models(world).await;
    let bucket = models[0].create_bucket("bucket", None).await.unwrap();
    let limited = models[0].set_quota("bucket", of_objects(limit));
    limited.await.unwrap();
    let buckets = [bucket];
    let done = write_through(&models, &buckets, writers, each).await;
    world.network.end_all_cuts();
    (done, objects_in(&models[0], &buckets[0]).await)
}

#[tokio::test(start_paused = true)]
async fn writers_on_all_nodes_fill_a_bucket_up_to_its_quota() {
    for seed in 0..3 {
        let latency = Duration::from_millis(20);
        let world = World::new(3, 3, latency, seed, crate::HOOKS).await.unwrap();
        let (done, held) = fill(&world, 60, 12, 10).await;
        assert!((60..=90).contains(&held), "seed {seed}: {held} of 60");
        assert!(
            done >= 55,
            "seed {seed}: only {done} of 60 were acknowledged"
        );
    }
}

/// For a replica that lacks the object, its new tags are an object more than its share.
#[tokio::test(start_paused = true)]
async fn a_change_that_adds_nothing_passes_a_replica_that_lacks_the_object() {
    let latency = Duration::from_millis(5);
    let world = World::new(3, 3, latency, 1, crate::HOOKS).await.unwrap();
    let model = Model::open(world.nodes[1].clone()).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    world.isolate(2);
    put(&model, &bucket, "key", 1).await.unwrap();
    let bucket = model.set_quota("bucket", of_objects(1)).await.unwrap();
    world.network.end_all_cuts();
    world.isolate(0);
    let tags = vec![("name".to_owned(), "value".to_owned())];
    let tagged = model.set_object_tags(&bucket, "key", None, tags.clone(), &|_| Ok(()));
    let tagged = tokio::time::timeout(Duration::from_secs(20), tagged).await;
    tagged.expect("it goes on for ever").unwrap();
    let read = model.head_object(&bucket, "key").await.unwrap();
    assert_eq!(read.tags, tags);
}

/// An operation that sets fences has died. Writes are no conflicts, and go on later.
#[tokio::test(start_paused = true)]
async fn writes_are_put_off_while_another_node_sets_the_fences() {
    let (model, bucket) = alone().await;
    put(&model, &bucket, "key", 1).await.unwrap();
    let bucket = model.set_quota("bucket", of_objects(1)).await.unwrap();
    let held = model.take_token(&bucket, |row| {
        row.generation += 1;
        Ok(())
    });
    let held = held.await.unwrap();
    model
        .set_each_fence(&held, FenceState::Open, |_| Some(Share::NONE))
        .await
        .unwrap();
    let refused = put(&model, &held, "other", 1).await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    // It takes nothing from the bucket, so no share concerns it.
    delete(&model, &held, "key").await;
}

/// A node is cut off again and again, so that replicas differ all the time: each misses other rows.
/// The bound is that of `docs/quotas.md` for three replicas.
#[tokio::test(start_paused = true)]
async fn replicas_that_differ_exceed_a_quota_by_the_stated_bound_at_most() {
    for seed in 0..3 {
        let latency = Duration::from_millis(20);
        let world = World::new(3, 3, latency, seed, crate::HOOKS).await.unwrap();
        let unrest = async {
            for turn in 0.. {
                world.isolate(1 + turn % 2);
                tokio::time::sleep(Duration::from_millis(700)).await;
                world.network.end_all_cuts();
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        };
        let filled = tokio::select! {
            filled = fill(&world, 60, 12, 10) => Some(filled),
            () = unrest => None,
        };
        let (done, held) = filled.unwrap();
        assert!(
            done <= held,
            "seed {seed}: {done} acknowledged, {held} held"
        );
        assert!(held <= 120, "seed {seed}: {held} of 60");
    }
}

/// With one replica of each partition, and one partition for each bucket, a node that is away takes
/// some buckets with it.
#[tokio::test(start_paused = true)]
async fn a_bucket_that_cannot_be_counted_hides_no_other_one() {
    let latency = Duration::from_millis(5);
    let world = World::new(3, 1, latency, 1, crate::HOOKS).await.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    for n in 0..12 {
        let name = format!("bucket-{n}");
        let bucket = model.create_bucket(&name, None).await.unwrap();
        let id = rowkeys::bucket_id(model.random_id(), 1);
        let change = model.change_row(&bucket, move |row| {
            row.id = id;
            row.quota = Some(of_objects(1));
            Ok(())
        });
        assert_eq!(change.await.map(drop), Err(Error::NoSuchBucket));
    }
    let names = |filled: Filled| filled.buckets.len();
    assert_eq!(names(model.count_quotas().await.unwrap()), 12);
    world.isolate(1);
    let counted = names(model.count_quotas().await.unwrap());
    assert!((1..12).contains(&counted), "{counted}");
}

//! Control data under races, before it is read, and while it cannot be confirmed.

use std::time::Duration;

use archipel_base::clock::ManualClock;
use archipel_cluster::{Cluster, World};

use super::*;
use crate::ModelOptions;

mod aliases;
mod conditions;
mod deletion;
mod keys;
mod many;
mod order;
mod tokens;
mod unread;
mod versioning;

/// Returns three nodes, a few milliseconds apart, that all hold the control data.
pub async fn world() -> World {
    let latency = Duration::from_millis(5);
    World::new(3, 3, latency, 1, crate::HOOKS).await.unwrap()
}

async fn model() -> Model {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    Model::open(cluster).await.unwrap()
}

fn is_unconfirmed<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Unconfirmed(_)))
}

/// Another request has written the row, but has not updated the cache yet.
#[tokio::test]
async fn a_client_that_hears_that_a_bucket_exists_can_use_it() {
    let model = model().await;
    let bucket = model.create_bucket("other", None).await.unwrap();
    let raced = Bucket {
        name: "raced".into(),
        id: rowkeys::bucket_id(model.random_id(), 3),
        ..(*bucket).clone()
    };
    let put = model.put_if_absent(
        rowkeys::bucket("raced"),
        row(codec::encode(&raced)),
        Error::BucketExists,
    );
    put.await.unwrap();
    let cached = model.bucket("raced").unwrap();
    assert!(cached.is_none(), "not in the cache");
    let second = model.create_bucket("raced", None).await;
    assert_eq!(second.err(), Some(Error::BucketExists));
    let found = model.bucket("raced").unwrap().unwrap();
    assert_eq!(found.id, raced.id);
    // Its write fences are missing. A commit opens them.
    let writer = model.begin_object(&found, "key").unwrap();
    let written = writer.finish(crate::ObjectMeta::default(), crate::Condition::Always);
    written.await.unwrap();
}

/// One node creates a bucket again and again while another deletes it. A node that is told that the
/// bucket exists has it, so that the owner is never told that it is someone else's.
///
/// On a busy machine, either may give up: its pauses pass in no time, and the commits that it waits
/// for do not.
#[tokio::test(start_paused = true)]
async fn a_creation_never_meets_a_bucket_that_is_gone() {
    let world = world().await;
    let maker = Model::open(world.nodes[0].clone()).await.unwrap();
    let deleter = Model::open(world.nodes[1].clone()).await.unwrap();
    let deleting = async {
        for pause in 0..200 {
            let deleted = match deleter.find_bucket("bucket").await.unwrap() {
                Some(bucket) => deleter.delete_bucket(&bucket).await,
                None => Err(Error::NoSuchBucket),
            };
            match deleted {
                Ok(()) | Err(Error::NoSuchBucket | Error::Conflict | Error::Unavailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(pause % 7)).await;
        }
    };
    let creating = async {
        let mut met = 0;
        for _ in 0..400 {
            match maker.create_bucket("bucket", None).await {
                Ok(_) | Err(Error::Conflict | Error::Unavailable(_)) => {}
                Err(Error::BucketExists) => {
                    met += 1;
                    let found = maker.bucket("bucket").unwrap();
                    assert!(found.is_some(), "met {met} times, and is gone now");
                }
                Err(error) => panic!("{error}"),
            }
        }
        met
    };
    let (met, ()) = tokio::join!(creating, deleting);
    assert!(met > 0, "the two never met");
}

#[tokio::test(start_paused = true)]
async fn no_request_is_answered_from_a_cache_that_was_never_filled() {
    let world = world().await;
    let maker = Model::open(world.nodes[1].clone()).await.unwrap();
    let key = maker.create_owner_key("key").await.unwrap();
    maker.create_bucket("bucket", Some(&key.id)).await.unwrap();
    world.isolate(0);
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    assert!(is_unconfirmed(&model.buckets()));
    assert!(is_unconfirmed(&model.access_keys()));
    assert!(is_unconfirmed(&model.bucket("bucket")));
    assert!(is_unconfirmed(&model.access_key(&key.id)));
    assert!(is_unconfirmed(&model.find_bucket("none").await));
    assert!(is_unconfirmed(&model.find_access_key("none").await));
    let why = model.check_control().unwrap_err().to_string();
    assert!(
        why.contains("have not been read since this node started"),
        "{why}"
    );

    world.network.end_all_cuts();
    // A read of a single row does not fill the cache.
    model.refresh_bucket("bucket").await.unwrap().unwrap();
    assert!(is_unconfirmed(&model.buckets()));
    model.refresh_all().await.unwrap();
    assert_eq!(model.buckets().unwrap().len(), 1);
    assert_eq!(model.access_keys().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_node_in_no_layout_fail_with_that_reason() {
    let latency = Duration::from_millis(5);
    let world = World::unfounded(1, latency, 1, crate::HOOKS).await.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let Err(Error::Unavailable(why)) = model.buckets() else {
        panic!("not refused");
    };
    assert!(why.contains("in no layout yet"), "{why}");
}

/// Keeps the control data fresh, as the daemon does.
fn refresh(model: &Model) -> tokio::task::JoinHandle<()> {
    let model = model.clone();
    tokio::spawn(async move { model.refresh_forever().await })
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_cut_off_answers_until_the_lease_ends() {
    let world = world().await;
    let lease = Duration::from_secs(30);
    let clock = Arc::new(ManualClock::default());
    let options = ModelOptions {
        control_lease: lease,
        suspension_clock: clock.clone(),
        ..ModelOptions::default()
    };
    let model = Model::open_with(world.nodes[0].clone(), options)
        .await
        .unwrap();
    let key = model.create_owner_key("key").await.unwrap();
    model.create_bucket("bucket", Some(&key.id)).await.unwrap();
    let refreshing = refresh(&model);
    tokio::time::sleep(Duration::from_secs(600)).await;
    world.isolate(0);
    // The last confirmation is at most a third of the lease old, so the cache still counts for
    // two thirds.
    tokio::time::sleep(Duration::from_secs(19)).await;
    assert!(model.find_bucket("bucket").await.unwrap().is_some());
    assert!(model.find_access_key(&key.id).await.unwrap().is_some());
    // The node tries to read the row of a name that the cache lacks, and fails.
    let miss = model.find_bucket("none").await;
    assert!(matches!(miss, Err(Error::Unavailable(_))), "{miss:?}");

    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(is_unconfirmed(&model.buckets()));
    assert!(is_unconfirmed(&model.find_bucket("bucket").await));
    assert!(is_unconfirmed(&model.find_access_key(&key.id).await));
    let why = model.check_control().unwrap_err().to_string();
    assert!(why.contains("count for 30 s"), "{why}");
    world.network.end_all_cuts();
    while model.check_control().is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(model.find_bucket("bucket").await.unwrap().is_some());
    refreshing.abort();

    // Timers stood still while the machine was suspended, and the other nodes went on.
    clock.suspend(31_000);
    assert!(is_unconfirmed(&model.find_bucket("bucket").await));
}

/// Another node deletes a key and recreates a bucket. A node that is cut off uses the old data
/// until its lease ends.
#[tokio::test(start_paused = true)]
async fn keys_and_buckets_deleted_elsewhere_do_not_outlive_the_lease() {
    let world = world().await;
    let here = Model::open(world.nodes[0].clone()).await.unwrap();
    let key = here.create_owner_key("key").await.unwrap();
    let bucket = here.create_bucket("bucket", Some(&key.id)).await.unwrap();
    let there = Model::open(world.nodes[1].clone()).await.unwrap();
    let refreshing = [refresh(&here), refresh(&there)];
    world.isolate(0);
    there.delete_access_key(&key.id).await.unwrap();
    there.delete_bucket(&bucket).await.unwrap();
    let again = there.create_bucket("bucket", None).await.unwrap();
    assert_ne!(again.id, bucket.id);
    tokio::time::sleep(crate::CONTROL_LEASE).await;
    assert!(is_unconfirmed(&here.access_key(&key.id)));
    assert!(is_unconfirmed(&here.bucket("bucket")));
    world.network.end_all_cuts();
    while here.check_control().is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(here.access_key(&key.id).unwrap().is_none());
    assert_eq!(here.bucket("bucket").unwrap().unwrap().id, again.id);
    refreshing.iter().for_each(|task| task.abort());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_alone_needs_no_confirmation() {
    let model = model().await;
    model.create_bucket("bucket", None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    assert_eq!(model.buckets().unwrap().len(), 1);
}

/// The cache still has a permission that another node has revoked. A change of another permission
/// must not restore it.
#[tokio::test]
async fn a_change_of_a_grant_keeps_the_permissions_that_it_does_not_name() {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    let here = Model::open(cluster.clone()).await.unwrap();
    let key = here.create_access_key("key").await.unwrap();
    here.create_bucket("bucket", Some(&key.id)).await.unwrap();
    let there = Model::open(cluster).await.unwrap();
    let deny = GrantChange {
        write: Some(false),
        ..GrantChange::default()
    };
    there.change_grant("bucket", &key.id, deny).await.unwrap();
    let cached = here.bucket("bucket").unwrap().unwrap();
    assert!(cached.permissions(&key).write, "the cache is not old");
    let deny = GrantChange {
        owner: Some(false),
        ..GrantChange::default()
    };
    let (bucket, permissions) = here.change_grant("bucket", &key.id, deny).await.unwrap();
    let only_read = Permissions {
        read: true,
        ..Permissions::default()
    };
    assert_eq!(permissions, only_read);
    assert_eq!(bucket.permissions(&key), only_read);
}

/// Three nodes change one grant concurrently, each another permission.
#[tokio::test(start_paused = true)]
async fn concurrent_changes_of_one_grant_all_take_effect() {
    let world = world().await;
    let mut models = Vec::new();
    for node in &world.nodes {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    let key = models[0].create_access_key("key").await.unwrap();
    models[0]
        .create_bucket("bucket", Some(&key.id))
        .await
        .unwrap();
    let none = GrantChange::default();
    let changes = [
        GrantChange {
            read: Some(false),
            ..none
        },
        GrantChange {
            write: Some(false),
            ..none
        },
        GrantChange {
            owner: Some(false),
            ..none
        },
    ];
    let racers = models
        .iter()
        .zip(changes)
        .map(|(model, change)| model.change_grant("bucket", &key.id, change));
    for changed in futures_util::future::join_all(racers).await {
        changed.unwrap();
    }
    let bucket = models[0].refresh_bucket("bucket").await.unwrap().unwrap();
    assert_eq!(bucket.permissions(&key), Permissions::default());
}

/// The names are part of the stored format: a release that reads other names loses the token.
#[tokio::test]
async fn the_row_of_a_bucket_keeps_its_stored_field_names() {
    let model = model().await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let token = model.take_token(&bucket, |_| Ok(())).await.unwrap();
    let row = model.cluster().metadata(&rowkeys::bucket("bucket")).await;
    let row = row.unwrap().unwrap();
    for name in [&b"grants"[..], b"cors", b"buffered", b"turn"] {
        assert!(row.windows(name.len()).any(|bytes| bytes == name));
    }
    let read: Bucket = codec::decode(&row).unwrap();
    assert_eq!((read.token.number, token.token.number), (1, 1));
    assert!(read.token.taken_ms.is_some());
}

/// Many clients create buckets at once through one node of a healthy cluster.
#[tokio::test(start_paused = true)]
async fn a_busy_healthy_node_stays_confirmed() {
    let latency = Duration::from_millis(50);
    let world = World::new(3, 3, latency, 1, crate::HOOKS).await.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let refreshing = refresh(&model);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..100 {
        let model = model.clone();
        tasks.spawn(async move {
            model
                .create_bucket(&format!("bucket-{n}"), None)
                .await
                .is_ok()
        });
    }
    let began = tokio::time::Instant::now();
    let mut refused = 0;
    while !tasks.is_empty() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        while tasks.try_join_next().is_some() {}
        refused += usize::from(model.check_control().is_err());
    }
    refreshing.abort();
    assert_eq!(refused, 0, "seconds of 503 in {:?}", began.elapsed());
}

/// Requests with access keys that nobody has, which need no valid signature.
#[tokio::test(start_paused = true)]
async fn unknown_access_keys_do_not_end_the_lease() {
    let latency = Duration::from_millis(150);
    let world = World::new(3, 3, latency, 1, crate::HOOKS).await.unwrap();
    // Shorter than 64 reads, one after another.
    let lease = Duration::from_secs(15);
    let options = ModelOptions {
        control_lease: lease,
        ..ModelOptions::default()
    };
    let model = Model::open_with(world.nodes[0].clone(), options)
        .await
        .unwrap();
    let refreshing = refresh(&model);
    tokio::time::sleep(Duration::from_secs(1)).await;
    for client in 0..64 {
        let model = model.clone();
        tokio::spawn(async move {
            for n in 0.. {
                let _ = model.find_access_key(&format!("AK{client}N{n}")).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
    let (mut refused, mut oldest) = (0, 0);
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        refused += usize::from(model.check_control().is_err());
        oldest = oldest.max(model.control().age());
    }
    refreshing.abort();
    assert_eq!(refused, 0, "oldest {oldest} s");
}

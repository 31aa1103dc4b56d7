//! Changes by a node that cannot read the row again. The change was made, and is told so: a client
//! that hears of a failure would make it again and not find what it changes, or never learn a secret.

use std::future::poll_fn;
use std::pin::pin;

use super::*;
use crate::identity::{Group, NewKey};
use crate::{NewToken, TokenScope};

const NAME: &str = "www.example.org";

/// Returns three nodes and models of two of them, with a bucket and maybe its further name.
async fn two(has_name: bool) -> (World, Model, Model) {
    let world = world().await;
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let other = Model::open(world.nodes[1].clone()).await.unwrap();
    model.create_bucket("bucket", None).await.unwrap();
    if has_name {
        model.add_alias("bucket", NAME).await.unwrap();
    }
    (world, model, other)
}

/// Runs a change. Cuts the first node off as soon as its model has begun so many reads of rows.
async fn cut_off_in<T>(
    world: &World,
    model: &Model,
    reads: usize,
    change: impl Future<Output = T>,
) -> T {
    cut_off(world, model, reads, change, || ()).await
}

/// Does the same, and calls `end` once the last of these reads has ended.
async fn cut_off<T>(
    world: &World,
    model: &Model,
    reads: usize,
    change: impl Future<Output = T>,
    end: impl Fn(),
) -> T {
    let mut change = pin!(change);
    let (mut begun, mut was_reading) = (0, false);
    let done = poll_fn(|context| {
        let polled = change.as_mut().poll(context);
        let is_reading = model.control().reads() > 0;
        if is_reading && !was_reading {
            begun += 1;
            if begun == reads {
                world.isolate(0);
            }
        }
        if was_reading && !is_reading && begun == reads {
            end();
        }
        was_reading = is_reading;
        polled
    })
    .await;
    assert!(begun >= reads, "it began {begun} reads");
    done
}

#[tokio::test(start_paused = true)]
async fn name_is_told_as_added() {
    let (world, model, other) = two(false).await;
    // The first read is that of the bucket.
    let added = model.add_alias("bucket", NAME);
    cut_off_in(&world, &model, 2, added).await.unwrap();
    other.refresh_all().await.unwrap();
    assert_eq!(other.bucket(NAME).unwrap().unwrap().name, "bucket");
}

#[tokio::test(start_paused = true)]
async fn name_is_told_as_removed() {
    let (world, model, other) = two(true).await;
    let removed = model.remove_alias("bucket", NAME);
    cut_off_in(&world, &model, 1, removed).await.unwrap();
    other.refresh_all().await.unwrap();
    assert!(other.bucket(NAME).unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn key_and_token_are_told_with_their_secrets() {
    let (world, model, other) = two(false).await;
    // The first read looks for a user of that name.
    let created = model.create_key(NewKey::default());
    let key = cut_off_in(&world, &model, 2, created).await.unwrap();
    other.refresh_all().await.unwrap();
    assert!(other.access_key(&key.id).unwrap().is_some());

    let (world, model, other) = two(false).await;
    let scope = TokenScope {
        resource: "buckets".into(),
        write: false,
        bucket: None,
    };
    let created = model.create_admin_token(NewToken {
        name: "token".into(),
        scopes: vec![scope],
        expires_ms: None,
    });
    let (token, secret) = cut_off_in(&world, &model, 1, created).await.unwrap();
    other.refresh_all().await.unwrap();
    let admitted = other.admit_admin_token(secret.expose()).await.unwrap();
    assert_eq!(admitted, Some(token));
}

#[tokio::test(start_paused = true)]
async fn group_is_told_as_created() {
    let (world, model, other) = two(false).await;
    let created = model.create_group("writers", "/");
    cut_off_in(&world, &model, 1, created).await.unwrap();
    other.refresh_all().await.unwrap();
    assert!(other.entity::<Group>("writers").unwrap().is_some());
}

/// The fences are set after the read, so the cut ends with it.
#[tokio::test(start_paused = true)]
async fn bucket_is_told_as_created() {
    let (world, model, other) = two(false).await;
    let created = model.create_bucket("new", None);
    let created = cut_off(&world, &model, 1, created, || world.network.end_all_cuts());
    let bucket = created.await.unwrap();
    other.refresh_all().await.unwrap();
    let found = other.bucket("new").unwrap().unwrap();
    assert_eq!(found.id, bucket.id);
}

#[tokio::test(start_paused = true)]
async fn bucket_is_told_as_deleted_and_is_gone_here() {
    let (world, model, other) = two(false).await;
    let bucket = model.bucket("bucket").unwrap().unwrap();
    // The first read is that of the token.
    let deleted = model.delete_to_the_end(&bucket);
    cut_off_in(&world, &model, 2, deleted).await.unwrap();
    assert!(model.bucket("bucket").unwrap().is_none());
    other.refresh_all().await.unwrap();
    assert!(other.bucket("bucket").unwrap().is_none());
}

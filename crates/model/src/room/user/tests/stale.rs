//! Nodes that know too little, and writes that a quota refuses.

use futures_util::future::join_all;

use super::interrupted::nodes;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_node_that_has_not_heard_of_a_user_frees_no_bucket() {
    let (world, models, _) = nodes().await;
    let model = &models[0];
    world.isolate(1);
    let key = user(model, "bob").await;
    model.set_user_quota("bob", of_bytes(1000)).await.unwrap();
    let bucket = create(model, "bucket", &key).await;
    world.network.end_all_cuts();
    let known = models[1].entities::<User>().unwrap();
    assert!(known.iter().all(|user| user.name != "bob"));
    let refused = put(&models[1], &bucket, "key", 1001).await;
    assert!(is_refused(&refused), "{refused:?}");
}

/// A division counts all buckets of a user, so writes that are refused at once share its result.
#[tokio::test(start_paused = true)]
async fn writes_that_are_refused_at_once_cost_few_divisions() {
    let (world, models, key) = nodes().await;
    let model = &models[1];
    let mut buckets = Vec::new();
    for n in 0..20 {
        buckets.push(create(model, &format!("bucket-{n}"), &key).await);
    }
    model.set_user_quota("ann", of_objects(1)).await.unwrap();
    put(model, &buckets[0], "key", 1).await.unwrap();
    let refused = |n: usize| {
        let bucket = &buckets[n % buckets.len()];
        async move {
            let refused = put(model, bucket, &format!("other-{n}"), 1).await;
            assert!(is_refused(&refused), "{refused:?}");
        }
    };
    let frames = || world.network.frames().values().sum::<u64>();
    let begun = frames();
    refused(0).await;
    let one = frames() - begun;
    let begun = frames();
    join_all((0..40).map(refused)).await;
    let all = frames() - begun;
    assert!(all < 10 * one, "{all} frames, and {one} for one of 40");
}

/// It may get them in a moment, but a write does not wait for ever.
#[tokio::test(start_paused = true)]
async fn a_replica_that_lacks_deletions_ends_as_the_quota() {
    let (world, models, key) = nodes().await;
    let model = &models[0];
    model.set_user_quota("ann", of_objects(1)).await.unwrap();
    let bucket = create(model, "bucket", &key).await;
    put(model, &bucket, "key", 1).await.unwrap();
    world.isolate(2);
    delete(model, &bucket, "key").await;
    world.network.end_all_cuts();
    let refused = put(model, &bucket, "other", 1).await;
    assert!(is_refused(&refused), "{refused:?}");
}

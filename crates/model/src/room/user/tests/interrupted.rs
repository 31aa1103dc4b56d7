//! Operations that end in between, because a client or a node goes away.

use super::*;
use crate::fence::TOKEN_MS;

/// Opens three nodes with the user `ann`, and returns a key of it.
pub(super) async fn nodes() -> (World, Vec<Model>, Arc<AccessKey>) {
    let latency = Duration::from_millis(5);
    let world = World::new(3, 3, latency, 1, crate::HOOKS).await.unwrap();
    let models = models(&world).await;
    let key = user(&models[0], "ann").await;
    (world, models, key)
}

/// Runs an operation until its node knows of something, and leaves it then.
async fn drop_when<T>(operation: impl Future<Output = T>, is_known: impl Fn() -> bool) {
    let known = async {
        while !is_known() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        biased;
        () = known => {}
        _ = operation => panic!("the operation ended first"),
    }
}

fn known(model: &Model, bucket: &str) -> Option<Arc<Bucket>> {
    model.bucket(bucket).unwrap()
}

/// Checks that a bucket has no room for so many bytes.
async fn has_no_room(model: &Model, bucket: &Arc<Bucket>, bytes: usize) {
    let refused = put(model, bucket, "key", bytes).await;
    assert!(is_refused(&refused), "{refused:?}");
}

/// Lets the tokens of operations that were dropped time out, for this time in the test.
fn time_out(world: &World, times: u32) {
    for node in 0..world.nodes.len() {
        world.set_clock_ahead(node, Duration::from_millis(TOKEN_MS + 1) * times);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_cannot_be_lowered_leaves_no_other_one_half_done() {
    let (_world, models, key) = nodes().await;
    let model = &models[0];
    let mut buckets = Vec::new();
    for n in 0..6 {
        let bucket = create(model, &format!("bucket-{n}"), &key).await;
        put(model, &bucket, "key", 1).await.unwrap();
        buckets.push(bucket);
    }
    // Another operation sets its fences.
    let busy = buckets.pop().unwrap();
    model.take_token(&busy, |_| Ok(())).await.unwrap();
    let set = model.set_user_quota("ann", of_objects(3)).await;
    assert_eq!(set.map(drop), Err(Error::Conflict));
    for bucket in &buckets {
        let now = model.refresh_bucket(&bucket.name).await.unwrap().unwrap();
        assert_eq!(now.token.taken_ms, None, "{}", bucket.name);
        delete(model, bucket, "key").await;
    }
}

/// The node that lowers a bucket dies before the fences hold the lower shares. A write that began
/// before that goes through them.
#[tokio::test(start_paused = true)]
async fn what_the_fences_of_a_bucket_still_allow_is_not_lent() {
    let (world, models, key) = nodes().await;
    let model = &models[0];
    let quota = of_bytes(100_000);
    model.set_user_quota("ann", quota).await.unwrap();
    let first = create(model, "first", &key).await;
    let second = create(model, "second", &key).await;
    put(model, &first, "key", 1).await.unwrap();
    let first = known(model, "first").unwrap();
    let low = Some(of_bytes(1));
    let lowered = model.set_portion(&first, low);
    drop_when(lowered, || known(model, "first").unwrap().portion == low).await;
    time_out(&world, 1);
    put(&models[1], &second, "key", 99_999).await.unwrap();
    let late = put(&models[2], &first, "key", 1000).await;
    assert!(is_refused(&late), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_is_interrupted_leaves_a_bucket_with_a_limit() {
    let (_world, models, key) = nodes().await;
    let model = &models[0];
    model.set_user_quota("ann", of_bytes(1000)).await.unwrap();
    let created = create(model, "bucket", &key);
    drop_when(created, || known(model, "bucket").is_some()).await;
    let bucket = known(model, "bucket").unwrap();
    has_no_room(&models[1], &bucket, 1001).await;
    put(&models[1], &bucket, "key", 1000).await.unwrap();
}

/// The creation does not see the quota, and its setting does not see the bucket.
#[tokio::test(start_paused = true)]
async fn the_first_write_finds_a_quota_that_an_interrupted_creation_missed() {
    let (_world, models, key) = nodes().await;
    let model = &models[0];
    let created = create(model, "bucket", &key);
    drop_when(created, || known(model, "bucket").is_some()).await;
    let set = model.change_entity::<User>("ann", |user| {
        user.quota = Some(of_bytes(1000));
        Ok(())
    });
    set.await.unwrap();
    let bucket = known(model, "bucket").unwrap();
    has_no_room(&models[1], &bucket, 1001).await;
    put(&models[1], &bucket, "key", 1000).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_quota_counts_if_the_client_that_sets_it_goes_away() {
    let (_world, models, key) = nodes().await;
    let model = &models[0];
    let bucket = create(model, "bucket", &key).await;
    let quota = of_bytes(1000);
    let is_set = || {
        let users = model.entities::<User>().unwrap();
        users.iter().any(|user| user.quota == Some(quota))
    };
    drop_when(model.set_user_quota("ann", quota), is_set).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    has_no_room(&models[1], &bucket, 1001).await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_counts_soon_if_the_node_dies_that_sets_it() {
    let (world, models, key) = nodes().await;
    let bucket = create(&models[0], "bucket", &key).await;
    let quota = of_bytes(1000);
    models[0].write_user_quota("ann", quota).await.unwrap();
    time_out(&world, 1);
    let counting = models[1].count_quotas_forever();
    let counted = tokio::time::timeout(Duration::from_secs(5), counting).await;
    assert!(counted.is_err());
    has_no_room(&models[2], &bucket, 1001).await;
    let ann = models[2].find_entity::<User>("ann").await.unwrap();
    assert!(!ann.is_undivided && ann.quota == Some(quota));
}

/// A node sees that the user has no quota, and stalls. Meanwhile the quota is set again, and the
/// bucket's portion fits it.
#[tokio::test(start_paused = true)]
async fn a_node_that_stalls_lifts_no_quota_that_was_set_since() {
    let (world, models, key) = nodes().await;
    let quota = of_bytes(1000);
    models[0].set_user_quota("ann", quota).await.unwrap();
    let bucket = create(&models[0], "bucket", &key).await;
    put(&models[0], &bucket, "key", 10).await.unwrap();
    models[1].refresh_all().await.unwrap();
    // The node that lifts it dies before the buckets have no portions any more.
    world.isolate(1);
    let lifted = models[0].write_user_quota("ann", Quota::default()).await;
    assert!(lifted.is_ok());
    world.network.end_all_cuts();
    time_out(&world, 1);

    let stale = models[1].refresh_bucket("bucket").await.unwrap().unwrap();
    let wanted = Usage {
        objects: 1,
        bytes: 2000,
    };
    let mut lifting = Box::pin(models[1].make_user_room_now(&stale, wanted, false));
    let has_quota = || {
        let users = models[1].entities::<User>().unwrap();
        users.iter().any(|user| user.quota.is_some())
    };
    assert!(has_quota());
    drop_when(&mut lifting, || !has_quota()).await;
    time_out(&world, 2);
    models[2].set_user_quota("ann", quota).await.unwrap();
    let _ = lifting.await;
    has_no_room(&models[2], &bucket, 1001).await;
}

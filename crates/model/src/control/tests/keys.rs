//! Deletion, repeated import and change of access keys.

use std::time::Duration;

use archipel_base::codec;
use archipel_cluster::Cluster;

use super::super::row;
use super::{model, world};
use crate::bucket::{Bucket, Secret};
use crate::identity::{NewKey, NewUser};
use crate::{Error, Model, Permissions, rowkeys};

const ID: &str = "AKIMPORTED";

fn secret(text: &str) -> Secret {
    Secret::new(text.into())
}

async fn import(model: &Model, text: &str) -> Result<(), Error> {
    let imported = NewKey {
        name: "name".to_owned(),
        imported: Some((ID.to_owned(), secret(text))),
        ..NewKey::default()
    };
    model.create_key(imported).await.map(|_| ())
}

/// The grants are still there, as if the node had crashed right after it deleted the key's row.
#[tokio::test]
async fn grants_do_not_come_back_with_a_key_that_is_imported_again() {
    let model = model().await;
    import(&model, "secret-one").await.unwrap();
    let bucket = model.create_bucket("bucket", Some(ID)).await.unwrap();
    let key = model.access_key(ID).unwrap().unwrap();
    assert_eq!(bucket.permissions(&key), Permissions::ALL);
    model.delete_access_key(ID).await.unwrap();
    import(&model, "secret-two").await.unwrap();
    let key = model.access_key(ID).unwrap().unwrap();
    let bucket = model.bucket("bucket").unwrap().unwrap();
    assert_eq!(bucket.grants.len(), 1, "the grants were dropped already");
    assert_eq!(bucket.permissions(&key), Permissions::default());
    assert!(model.grants_of(&bucket).unwrap().is_empty());

    // Dropping the old grants takes nothing from the new key.
    model.create_bucket("other", Some(ID)).await.unwrap();
    assert_eq!(model.drop_dead_grants().await, Ok(1));
    let bucket = model.bucket("bucket").unwrap().unwrap();
    assert!(bucket.grants.is_empty());
    let other = model.bucket("other").unwrap().unwrap();
    assert_eq!(other.permissions(&key), Permissions::ALL);
    assert_eq!(model.drop_dead_grants().await, Ok(0));
}

/// Another node granted something to a new key that this node does not know yet.
#[tokio::test]
async fn grants_of_a_key_that_is_not_cached_are_kept() {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    let here = Model::open(cluster.clone()).await.unwrap();
    let there = Model::open(cluster).await.unwrap();
    import(&there, "secret-one").await.unwrap();
    there.create_bucket("bucket", Some(ID)).await.unwrap();
    here.refresh_bucket("bucket").await.unwrap().unwrap();
    assert!(here.access_key(ID).unwrap().is_none(), "the key is cached");
    assert_eq!(here.drop_dead_grants().await, Ok(0));
    here.refresh_all().await.unwrap();
    let key = here.access_key(ID).unwrap().unwrap();
    let bucket = here.bucket("bucket").unwrap().unwrap();
    assert_eq!(bucket.permissions(&key), Permissions::ALL);
}

/// The time of a deletion does not depend on the number of grants.
#[tokio::test(start_paused = true)]
async fn a_deleted_key_with_many_grants_is_unknown_on_all_nodes_at_once() {
    let world = world().await;
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let other = Model::open(world.nodes[1].clone()).await.unwrap();
    import(&model, "secret-one").await.unwrap();
    let first = model.create_bucket("bucket", Some(ID)).await.unwrap();
    // These buckets have no write fences, because fences would take most of the test's time.
    for n in 1..120 {
        let bucket = Bucket {
            id: rowkeys::bucket_id(model.random_id(), 1),
            name: format!("bucket-{n}"),
            ..(*first).clone()
        };
        let key = rowkeys::bucket(&bucket.name);
        let value = row(codec::encode(&bucket));
        let put = model.put_if_absent(key, value, Error::BucketExists);
        put.await.unwrap();
    }
    model.refresh_all().await.unwrap();
    assert!(other.access_key(ID).unwrap().is_some());
    let begun = tokio::time::Instant::now();
    model.delete_access_key(ID).await.unwrap();
    // Only the network takes time, 10 ms a round trip: two for the row, one for the notification,
    // one for the other node's read.
    assert!(
        begun.elapsed() <= Duration::from_millis(60),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(model.access_key(ID).unwrap(), None);
    assert_eq!(other.access_key(ID).unwrap(), None);

    assert_eq!(model.buckets().unwrap().len(), 120);
    let refreshing = model.clone();
    let refreshing = tokio::spawn(async move { refreshing.refresh_forever().await });
    let granted = |model: &Model| {
        let buckets = model.buckets().unwrap();
        buckets.iter().filter(|b| !b.grants.is_empty()).count()
    };
    while model.is_dropping_dead_grants() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(granted(&model), 0);
    refreshing.abort();
}

#[tokio::test(start_paused = true)]
async fn a_deletion_goes_on_when_its_caller_goes_away() {
    let world = world().await;
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    import(&model, "secret-one").await.unwrap();
    let mut deletion = Box::pin(model.delete_access_key(ID));
    assert!(futures_util::poll!(&mut deletion).is_pending());
    drop(deletion);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(model.access_key(ID).unwrap(), None);
    model.refresh_all().await.unwrap();
    assert_eq!(model.access_key(ID).unwrap(), None);
    assert_eq!(
        model.delete_access_key(ID).await,
        Err(Error::NoSuchAccessKey)
    );
}

/// `here` is far from the others, so that the key changes between its read and its write.
#[tokio::test(start_paused = true)]
async fn a_change_of_a_key_never_restores_an_old_secret() {
    let world = world().await;
    let here = Model::open(world.nodes[0].clone()).await.unwrap();
    let there = Model::open(world.nodes[1].clone()).await.unwrap();
    world.move_away(0, Duration::from_millis(100));
    let mut changed = 0;
    for delay_ms in (0..600).step_by(20) {
        import(&there, "secret-one").await.unwrap();
        let again = async {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            there.delete_access_key(ID).await?;
            import(&there, "secret-two").await
        };
        let (again, change) = tokio::join!(again, here.disable_key(ID));
        again.unwrap();
        changed += u32::from(change.is_ok());
        there.refresh_all().await.unwrap();
        let key = there.access_key(ID).unwrap().unwrap();
        assert_eq!(key.secret, secret("secret-two"), "after {delay_ms} ms");
        there.delete_access_key(ID).await.unwrap();
    }
    assert!(changed > 0, "no change succeeded");
}

/// In policies a key that is its own user is named as users are. The cache here lacks the user.
#[tokio::test(start_paused = true)]
async fn a_key_does_not_take_the_name_of_a_user_that_another_node_has_made() {
    let world = world().await;
    let here = Model::open(world.nodes[0].clone()).await.unwrap();
    let there = Model::open(world.nodes[1].clone()).await.unwrap();
    let user = NewUser {
        name: ID.into(),
        path: "/".into(),
        ..NewUser::default()
    };
    world.isolate(0);
    there.create_user(user).await.unwrap();
    world.network.end_all_cuts();
    let taken = import(&here, "secret-one").await;
    assert!(matches!(taken, Err(Error::InvalidName(_))), "{taken:?}");
}

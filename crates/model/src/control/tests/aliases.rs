//! Names of buckets: races, crashes, deleted buckets, names of keys.

use std::time::Duration;

use super::*;
use crate::bucket::{Alias, check_alias};

/// Two nodes of three, each with a model, and two buckets.
async fn two() -> (World, Model, Model) {
    let world = world().await;
    let first = Model::open(world.nodes[0].clone()).await.unwrap();
    let second = Model::open(world.nodes[1].clone()).await.unwrap();
    first.create_bucket("one", None).await.unwrap();
    second.create_bucket("two", None).await.unwrap();
    (world, first, second)
}

async fn meaning(model: &Model, name: &str) -> Option<String> {
    let bucket = model.find_bucket(name).await.unwrap();
    bucket.map(|bucket| bucket.name.clone())
}

#[tokio::test(start_paused = true)]
async fn alias_counts_on_all_nodes_until_it_is_removed() {
    let (_world, first, second) = two().await;
    first.add_alias("one", "www.example.org").await.unwrap();
    first.add_alias("www.example.org", "uno").await.unwrap();
    // Again, and the bucket's own name: no error.
    first.add_alias("one", "uno").await.unwrap();
    first.add_alias("one", "one").await.unwrap();
    for model in [&first, &second] {
        assert_eq!(meaning(model, "www.example.org").await.unwrap(), "one");
        let bucket = model.bucket("uno").unwrap().unwrap();
        let aliases = model.aliases_of(&bucket).unwrap();
        assert_eq!(aliases, ["uno", "www.example.org"]);
        assert_eq!(model.buckets().unwrap().len(), 2);
    }
    // A change by the alias changes the bucket.
    second.set_buffered("uno", Some(true)).await.unwrap();
    assert_eq!(first.bucket("one").unwrap().unwrap().buffered, Some(true));

    let other = second.remove_alias("two", "uno").await;
    assert_eq!(other.err(), Some(Error::NoSuchAlias));
    second.remove_alias("one", "uno").await.unwrap();
    for model in [&first, &second] {
        assert_eq!(meaning(model, "uno").await, None);
    }
    let own = second.remove_alias("www.example.org", "one").await;
    assert_eq!(own.err(), Some(Error::OwnName));
}

#[tokio::test(start_paused = true)]
async fn racers_for_a_name_have_one_winner() {
    let (_world, first, second) = two().await;
    for round in 0..20 {
        let name = format!("name{round}");
        let (one, two, created) = tokio::join!(
            first.add_alias("one", &name),
            second.add_alias("two", &name),
            second.create_bucket(&name, None),
        );
        let outcomes = [
            one.map(|_| "one".to_owned()),
            two.map(|_| "two".to_owned()),
            created.map(|_| name.clone()),
        ];
        let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "{won:?}");
        let exists = |lost: &Result<String, Error>| *lost == Err(Error::BucketExists);
        assert!(lost.iter().all(exists), "{lost:?}");
        for model in [&first, &second] {
            assert_eq!(
                meaning(model, &name).await.ok_or(()),
                won[0].clone().map_err(drop)
            );
        }
    }
}

/// The caller goes away in the middle of adding or removing an alias. The name means the same on
/// all nodes afterwards, and the next one can use it.
#[tokio::test(start_paused = true)]
async fn crash_in_the_middle_leaves_one_meaning() {
    let (_world, first, second) = two().await;
    for millis in 0..40 {
        let name = format!("name{millis}");
        let cut = Duration::from_millis(millis);
        let _ = tokio::time::timeout(cut, first.add_alias("one", &name)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        for model in [&first, &second] {
            model.refresh_all().await.unwrap();
        }
        let meant = meaning(&first, &name).await;
        assert_eq!(meant, meaning(&second, &name).await, "{millis}");
        let next = second.add_alias("two", &name).await;
        match meant.as_deref() {
            Some("one") => {
                assert_eq!(next.err(), Some(Error::BucketExists));
                let _ = tokio::time::timeout(cut, first.remove_alias("one", &name)).await;
                tokio::time::sleep(Duration::from_secs(60)).await;
                second.refresh_all().await.unwrap();
                if meaning(&second, &name).await.is_some() {
                    second.remove_alias("one", &name).await.unwrap();
                }
                second.create_bucket(&name, None).await.unwrap();
            }
            Some(other) => panic!("{name} means {other}"),
            None => assert!(next.is_ok(), "{millis}: {next:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn alias_of_a_deleted_bucket_does_not_count_and_its_name_is_free() {
    let (_world, first, second) = two().await;
    first.add_alias("one", "uno").await.unwrap();
    let old = first.bucket("one").unwrap().unwrap();
    first.delete_bucket(&old).await.unwrap();
    assert_eq!(meaning(&second, "one").await, None);
    assert_eq!(meaning(&second, "uno").await, None);
    // The deletion ended before it dropped the aliases.
    for (place, name) in ["uno", "eins"].into_iter().enumerate() {
        first.claim(name, &Alias::of(&old)).await.unwrap();
        first.refresh_all().await.unwrap();
        // A later bucket of that name does not get the alias.
        if place == 0 {
            first.create_bucket("one", None).await.unwrap();
        }
        assert_eq!(meaning(&first, name).await, None);
    }
    second.create_bucket("uno", None).await.unwrap();
    second.add_alias("two", "eins").await.unwrap();
    assert_eq!(meaning(&first, "uno").await.unwrap(), "uno");
    assert_eq!(meaning(&first, "eins").await.unwrap(), "two");
}

#[tokio::test(start_paused = true)]
async fn names_of_a_key_are_its_own() {
    let (_world, first, second) = two().await;
    let key = first.create_access_key("key").await.unwrap();
    let other = first.create_access_key("other").await.unwrap();
    first.add_name_of_key("one", &key.id, "mine").await.unwrap();
    // It comes before a bucket of that name.
    first.add_name_of_key("one", &key.id, "two").await.unwrap();
    let of = async |model: &Model, id: &str, name: &str| {
        let key = model.find_access_key(id).await.unwrap().unwrap();
        let found = model.find_bucket_of_key(&key, name).await.unwrap();
        found.map(|bucket| bucket.name.clone())
    };
    for model in [&first, &second] {
        assert_eq!(of(model, &key.id, "mine").await.unwrap(), "one");
        assert_eq!(of(model, &key.id, "two").await.unwrap(), "one");
        assert_eq!(of(model, &other.id, "two").await.unwrap(), "two");
        assert_eq!(of(model, &other.id, "mine").await, None);
        assert_eq!(meaning(model, "mine").await, None);
    }
    let taken = second.add_name_of_key("two", &key.id, "mine").await;
    assert_eq!(taken.err(), Some(Error::BucketExists));
    let wrong = second.remove_name_of_key("two", &key.id, "mine").await;
    assert_eq!(wrong.err(), Some(Error::NoSuchAlias));
    second
        .remove_name_of_key("one", &key.id, "two")
        .await
        .unwrap();
    assert_eq!(of(&first, &key.id, "two").await.unwrap(), "two");

    let one = first.bucket("one").unwrap().unwrap();
    first.delete_bucket(&one).await.unwrap();
    assert_eq!(of(&first, &key.id, "mine").await, None);
    second
        .add_name_of_key("two", &key.id, "mine")
        .await
        .unwrap();
    assert_eq!(of(&first, &key.id, "mine").await.unwrap(), "two");
}

#[test]
fn aliases_are_bucket_names_or_domains() {
    let long = format!("{}.example.org", "a".repeat(63));
    for name in [
        "abc",
        "www.example.org",
        "xn--bcher-kva.example",
        "a.io",
        &long,
    ] {
        assert!(check_alias(name).is_ok(), "{name}");
    }
    let too_long = format!("{}.org", ["a"; 120].join("."));
    for name in [
        "ab",
        "Www.example.org",
        "-a.example",
        "a..b",
        "a.",
        "127.0.0.1",
        "a/b.c",
        &too_long,
    ] {
        assert!(check_alias(name).is_err(), "{name}");
    }
}

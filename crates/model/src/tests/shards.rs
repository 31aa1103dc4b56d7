//! Buckets with other numbers of shards than new ones get.

use std::collections::BTreeSet;

use archipel_base::random::SeededRandom;
use archipel_base::{Id, codec};
use archipel_cluster::WriteOptions;
use archipel_storage::Value;
use archipel_storage::engine::Durability;
use proptest::prelude::*;

use super::*;
use crate::{ListQuery, rowkeys};

/// Creates a bucket with this many shards.
async fn with_shards(model: &Model, shards: u16) -> Arc<Bucket> {
    let (name, first) = (
        format!("shards-{shards}"),
        model.find_bucket("bucket").await.unwrap().unwrap(),
    );
    let bucket = Bucket {
        id: rowkeys::bucket_id(model.random_id(), shards),
        name: name.clone(),
        ..(*first).clone()
    };
    let value = Value {
        metadata: codec::encode(&bucket).into(),
        ..Value::default()
    };
    let how = WriteOptions::durable(Durability::Fsync);
    let row = rowkeys::bucket(&name);
    model.cluster().write(&row, Some(value), how).await.unwrap();
    model.refresh_all().await.unwrap();
    model.bucket(&name).unwrap().unwrap()
}

#[tokio::test]
async fn objects_of_a_bucket_with_any_number_of_shards_are_found_listed_and_deleted() {
    let (model, _) = model().await;
    for shards in [1, 3, 200] {
        let bucket = with_shards(&model, shards).await;
        let keys: Vec<String> = (0..40).map(|n| format!("key {n:02}")).collect();
        for key in &keys {
            put(&model, &bucket, key, Bytes::from(key.clone())).await;
        }
        let partitions = rowkeys::bucket_partitions(model.cluster(), &bucket.id);
        assert!(partitions.len() <= usize::from(shards));
        let rows = keys
            .iter()
            .map(|key| rowkeys::object(model.cluster(), &bucket.id, key));
        let used: BTreeSet<_> = rows.map(|row| row.partition).collect();
        assert!(used.iter().all(|used| partitions.contains(used)));
        assert!(used.len() > usize::from(shards.min(20)) / 2, "{used:?}");
        let query = ListQuery {
            prefix: String::new(),
            delimiter: None,
            after: None,
            limit: 1000,
        };
        let page = model.list_objects(&bucket, &query).await.unwrap();
        let names: Vec<&str> = page.entries.iter().map(|entry| entry.name()).collect();
        assert_eq!(names, keys);
        assert_eq!(model.bucket_usage(&bucket).await.unwrap().objects, 40);
        let refused = model.delete_bucket(&bucket).await;
        assert_eq!(refused, Err(Error::BucketNotEmpty));
        for key in &keys {
            assert_eq!(get(&model, &bucket, key).await.unwrap(), key.as_bytes());
            let deleted = model.delete_object(&bucket, key, Condition::Always);
            deleted.await.unwrap();
        }
        model.delete_bucket(&bucket).await.unwrap();
    }
    assert_consistent(&model).await;
}

#[tokio::test]
async fn new_buckets_have_sixteen_shards() {
    let (model, bucket) = model().await;
    assert_eq!(rowkeys::shards_of(&bucket.id), 16);
    assert!(rowkeys::bucket_partitions(model.cluster(), &bucket.id).len() > 10);
}

proptest! {
    #[test]
    fn bucket_ids_hold_their_number_of_shards(seed: u64, shards in 1u16..=1024, any: [u8; 16]) {
        let random = Id::random(&SeededRandom::new(seed));
        let id = rowkeys::bucket_id(random, shards);
        prop_assert_eq!(rowkeys::shards_of(&id), shards);
        prop_assert_eq!(&id.0[..14], &random.0[..14]);
        // Ids come from disks and from other nodes, too.
        prop_assert!((1..=1024).contains(&rowkeys::shards_of(&Id(any))));
    }
}

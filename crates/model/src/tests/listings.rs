//! Compares listings with a naive computation.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{ListEntry, ListQuery};

/// Returns the expected names of a listing, computed from all keys.
fn naive(keys: &BTreeSet<String>, query: &ListQuery) -> Vec<String> {
    let mut names = BTreeSet::new();
    for key in keys.iter().filter(|key| key.starts_with(&query.prefix)) {
        let rest = &key[query.prefix.len()..];
        let rolled = query.delimiter.as_ref().and_then(|d| {
            let at = rest.find(d.as_str())?;
            Some(key[..query.prefix.len() + at + d.len()].to_owned())
        });
        names.insert(rolled.unwrap_or_else(|| key.clone()));
    }
    let after = query.after.clone().unwrap_or_default();
    names.into_iter().filter(|name| *name > after).collect()
}

async fn pages(model: &Model, bucket: &Bucket, mut query: ListQuery) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let page = model.list_objects(bucket, &query).await.unwrap();
        assert!(page.entries.len() <= query.limit);
        names.extend(page.entries.iter().map(|e: &ListEntry| e.name().to_owned()));
        if !page.truncated {
            return names;
        }
        query.after = names.last().cloned();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn listings_equal_the_naive_computation(
        keys in prop::collection::btree_set("[a-c/é]{1,6}", 0..40),
        gone in prop::collection::vec("[a-c/é]{1,6}", 0..10),
        prefix in "[a-c/]{0,2}",
        delimiter in prop::option::of("[/b]{1,2}"),
        after in prop::option::of("[a-c/]{0,4}"),
        limit in 1usize..12,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (model, bucket) = model().await;
            for key in &keys {
                put(&model, &bucket, key, Bytes::new()).await;
            }
            for key in &gone {
                model.delete_object(&bucket, key, Condition::Always).await.unwrap();
            }
            let keys = keys.iter().filter(|k| !gone.contains(k)).cloned().collect();
            let query = ListQuery { prefix, delimiter, after, limit };
            assert_eq!(pages(&model, &bucket, query.clone()).await, naive(&keys, &query));
        });
    }
}

/// A page has more common prefixes than a partition returns at once. Each prefix is listed once,
/// even while the node fetches more of one partition and other partitions still show the last
/// prefix.
#[tokio::test]
async fn a_common_prefix_of_all_partitions_is_listed_once() {
    let (model, bucket) = model().await;
    let groups: Vec<String> = (0..24).map(|group| format!("{group:02}/")).collect();
    for group in &groups {
        for n in 0..40 {
            put(&model, &bucket, &format!("{group}{n}"), Bytes::new()).await;
        }
    }
    for limit in [1, 7, 12, 30] {
        let query = ListQuery {
            delimiter: Some("/".into()),
            limit,
            ..ListQuery::default()
        };
        assert_eq!(
            pages(&model, &bucket, query).await,
            groups,
            "{limit} at once"
        );
    }
}

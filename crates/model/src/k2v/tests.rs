use std::sync::Arc;
use std::time::Duration;

use archipel_base::{Stamp, Writer};
use archipel_cluster::{Cluster, World};
use bytes::Bytes;

use super::token::Token;
use super::*;
use crate::{Bucket, Condition, ListQuery, Model, ObjectMeta};

/// One way between two nodes.
const LATENCY: Duration = Duration::from_millis(50);
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// The simulated time that may pass beside that of the network.
const A_LITTLE: Duration = Duration::from_millis(20);

mod polls;
mod ranges;

struct Nodes {
    world: World,
    models: Vec<Model>,
    bucket: Arc<Bucket>,
}

impl Nodes {
    async fn new(seed: u64) -> Nodes {
        let world = World::new(3, 3, LATENCY, seed, crate::HOOKS).await.unwrap();
        let mut models = Vec::new();
        for node in &world.nodes {
            models.push(Model::open(node.clone()).await.unwrap());
        }
        let bucket = models[0].create_bucket("bucket", None).await.unwrap();
        Nodes {
            world,
            models,
            bucket,
        }
    }
}

async fn alone() -> (Model, Arc<Bucket>) {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    (model, bucket)
}

fn name(pk: &str, sk: &str) -> ItemName {
    ItemName::new(pk, sk).unwrap()
}

fn insert(pk: &str, sk: &str, token: Option<&Bytes>, value: &str) -> Insert {
    Insert {
        name: name(pk, sk),
        token: token.cloned(),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
    }
}

fn delete(pk: &str, sk: &str, token: &Bytes) -> Insert {
    Insert {
        value: None,
        ..insert(pk, sk, Some(token), "")
    }
}

fn texts(item: &Item) -> Vec<String> {
    let text = |value: &Option<Bytes>| match value {
        Some(value) => String::from_utf8(value.to_vec()).unwrap(),
        None => "-".to_owned(),
    };
    let mut texts: Vec<_> = item.values.iter().map(text).collect();
    texts.sort();
    texts
}

async fn read(model: &Model, bucket: &Bucket, pk: &str, sk: &str) -> Option<Item> {
    model.read_item(bucket, &name(pk, sk)).await.unwrap()
}

#[tokio::test]
async fn tokens_decide_what_is_replaced() {
    let (model, bucket) = alone().await;
    assert_eq!(read(&model, &bucket, "p", "s").await, None);
    let put = |token: Option<Bytes>, value: &'static str| {
        let (model, bucket) = (model.clone(), bucket.clone());
        async move {
            let insert = insert("p", "s", token.as_ref(), value);
            model.insert_item(&bucket, &insert).await
        }
    };
    put(None, "a").await.unwrap();
    let first = read(&model, &bucket, "p", "s").await.unwrap();
    put(None, "b").await.unwrap();
    put(None, "b").await.unwrap();
    let both = read(&model, &bucket, "p", "s").await.unwrap();
    assert_eq!(texts(&both), ["a", "b"], "equal values count once");
    put(Some(first.token.clone()), "c").await.unwrap();
    let now = read(&model, &bucket, "p", "s").await.unwrap();
    assert_eq!(texts(&now), ["b", "c"]);
    let deletion = delete("p", "s", &both.token);
    model.insert_item(&bucket, &deletion).await.unwrap();
    let now = read(&model, &bucket, "p", "s").await.unwrap();
    assert_eq!(texts(&now), ["-", "c"], "the deletion had not seen c");
    let deletion = delete("p", "s", &now.token);
    model.insert_item(&bucket, &deletion).await.unwrap();
    let gone = read(&model, &bucket, "p", "s").await.unwrap();
    assert_eq!(texts(&gone), ["-"]);
    assert!(gone.is_tombstone());
    // An insert that has not seen the deletion is concurrent with it.
    put(Some(now.token), "d").await.unwrap();
    let now = read(&model, &bucket, "p", "s").await.unwrap();
    assert_eq!(texts(&now), ["-", "d"]);
    put(Some(now.token), "e").await.unwrap();
    let now = read(&model, &bucket, "p", "s").await.unwrap();
    assert_eq!(texts(&now), ["e"]);
    let foreign = insert("p", "t", Some(&now.token), "f");
    let refused = model.insert_item(&bucket, &foreign).await;
    assert_eq!(refused, Err(Error::InvalidCausalityToken));
    let report = model.cluster().store().verify().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// Inserts of a batch into one item are one write, with the result of one after the other.
#[tokio::test]
async fn inserts_of_a_batch_into_one_item_are_one_write() {
    let (model, bucket) = alone().await;
    let mut tokens = Vec::new();
    for text in ["a", "b", "c"] {
        let insert = insert("p", "s", None, text);
        model.insert_item(&bucket, &insert).await.unwrap();
        tokens.push(read(&model, &bucket, "p", "s").await.unwrap().token);
    }
    let batch = vec![
        insert("p", "s", Some(&tokens[0]), "d"),
        insert("p", "s", Some(&tokens[1]), "e"),
        insert("p", "s", None, "d"),
        insert("p", "s", None, "c"),
        delete("p", "s", &tokens[0]),
    ];
    model.insert_items(&bucket, batch).await.unwrap();
    let now = read(&model, &bucket, "p", "s").await.unwrap();
    let values = now.values.iter().map(|value| value.as_deref());
    let values: Vec<_> = values.collect();
    let texts_of = ["e", "d", "c"].map(|text| Some(text.as_bytes()));
    assert_eq!(values, [&texts_of[..], &[None]].concat());
    // The token covers all of them, and no older one covers any.
    let seen = insert("p", "s", Some(&tokens[2]), "f");
    model.insert_item(&bucket, &seen).await.unwrap();
    let beside = read(&model, &bucket, "p", "s").await.unwrap();
    assert_eq!(texts(&beside), ["-", "c", "d", "e", "f"]);
    let seen = insert("p", "s", Some(&now.token), "g");
    model.insert_item(&bucket, &seen).await.unwrap();
    let left = read(&model, &bucket, "p", "s").await.unwrap();
    assert_eq!(texts(&left), ["f", "g"]);
    // Only deletions are a tombstone.
    let batch = vec![delete("p", "s", &left.token); 2];
    model.insert_items(&bucket, batch).await.unwrap();
    let gone = read(&model, &bucket, "p", "s").await.unwrap();
    assert!(gone.is_tombstone());
    let report = model.cluster().store().verify().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// All inserts into an item are refused together, and the error says which item it is.
#[tokio::test]
async fn the_error_of_a_batch_says_which_insert_it_is_about() {
    let (model, bucket) = alone().await;
    let large = |n: u8| Insert {
        value: Some(vec![n; MAX_VALUE_BYTES].into()),
        ..insert("p", "full", None, "")
    };
    let full = model.insert_items(&bucket, vec![large(1), large(2)]);
    full.await.unwrap();
    let good = || insert("p", "good", None, "v");
    let foreign = insert("p", "foreign", Some(&Bytes::from_static(b"x")), "v");
    let beyond = Insert {
        value: Some(vec![0; MAX_VALUE_BYTES + 1].into()),
        ..good()
    };
    let more = |text| insert("p", "full", None, text);
    for (batch, place, error) in [
        (vec![good(), foreign], 1, Error::InvalidCausalityToken),
        (vec![good(), good(), beyond], 2, Error::TooLarge),
        (vec![good(), more("x"), more("y")], 1, Error::TooManyValues),
        (
            vec![large(3), good(), large(4), large(5)],
            0,
            Error::TooManyValues,
        ),
    ] {
        let refused = model.insert_items(&bucket, batch).await;
        assert_eq!(refused, Err(BatchError { place, error }));
    }
    let kept = read(&model, &bucket, "p", "full").await.unwrap();
    assert_eq!(kept.values.len(), 2);
}

/// After a refusal, a client takes all other items for written.
#[tokio::test]
async fn a_batch_tells_what_is_not_refused_before_what_is() {
    let (model, bucket) = alone().await;
    let large = |sk: &str, n: u8| Insert {
        value: Some(vec![n; MAX_VALUE_BYTES].into()),
        ..insert("p", sk, None, "")
    };
    let full = ["a", "b"].map(|sk| [large(sk, 1), large(sk, 2)]).concat();
    model.insert_items(&bucket, full).await.unwrap();
    let more = |sk: &str| insert("p", sk, None, "v");
    let refused = model.insert_items(&bucket, vec![more("b"), more("a")]);
    let error = Error::TooManyValues;
    assert_eq!(refused.await, Err(BatchError { place: 0, error }));
    let ahead = Token {
        stamp: Stamp::new(model.now_ms() + 30_000, 0, Writer(1)),
        tombstone: None,
    };
    let ahead = ahead.encode(&bucket.id, &name("p", "c"));
    let batch = vec![more("a"), insert("p", "c", Some(&ahead), "v"), more("d")];
    let failed = model.insert_items(&bucket, batch).await.unwrap_err();
    assert_eq!(failed.place, 1);
    assert!(matches!(failed.error, Error::Unavailable(_)));
    let other = read(&model, &bucket, "p", "d").await.unwrap();
    assert_eq!(texts(&other), ["v"]);
}

#[tokio::test]
async fn items_and_objects_do_not_meet() {
    let (model, bucket) = alone().await;
    let first = insert("k", "", None, "item");
    model.insert_item(&bucket, &first).await.unwrap();
    assert!(model.head_object(&bucket, "k").await.is_err());
    let query = ListQuery {
        limit: 10,
        ..ListQuery::default()
    };
    let listed = model.list_objects(&bucket, &query).await.unwrap();
    assert!(listed.entries.is_empty());
    assert_eq!(model.bucket_usage(&bucket).await.unwrap().objects, 0);
    let refused = model.delete_bucket(&bucket).await;
    assert_eq!(refused, Err(Error::BucketNotEmpty));
    let writer = model.begin_object(&bucket, "k").unwrap();
    let meta = ObjectMeta::default();
    writer.finish(meta, Condition::Always).await.unwrap();
    let index = model
        .read_index(&bucket, &IndexQuery::default())
        .await
        .unwrap();
    assert_eq!(index.partition_keys.len(), 1);
    model
        .delete_object(&bucket, "k", Condition::Always)
        .await
        .unwrap();
    let seen = read(&model, &bucket, "k", "").await.unwrap();
    model
        .insert_item(&bucket, &delete("k", "", &seen.token))
        .await
        .unwrap();
    model.delete_bucket(&bucket).await.unwrap();
    let late = model.insert_item(&bucket, &first).await;
    assert_eq!(late, Err(Error::NoSuchBucket));
}

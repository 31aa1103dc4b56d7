//! Versions on clusters in memory, compared with a small model of what S3 promises.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod held;
mod lagging;
mod markers;
mod reference;
mod retained;
mod stale;

use std::sync::Arc;
use std::time::Duration;

use archipel_cluster::{Cluster, World};
use archipel_model::{
    Bucket, Condition, Error, Governance, HOOKS, ListQuery, Model, ModelOptions, ObjectHead,
    ObjectMeta, VersionEntry, VersionId, VersionQuery, Versioning,
};
use proptest::prelude::*;
use reference::{Key, Reference, Seen};

const KEYS: [&str; 3] = ["a", "a/b", "b"];

/// An operation of a client. Indices choose among what is there.
#[derive(Clone, Copy, Debug)]
enum Op {
    Put(usize),
    PutIfAbsent(usize),
    /// With the entity tag of the current version, or another one.
    PutIfMatch(usize, bool),
    Delete(usize),
    DeleteIfMatch(usize, bool),
    DeleteVersion(usize, usize),
    /// Of the current version, or of a version.
    Tag(usize, Option<usize>),
    Mode(Versioning),
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..KEYS.len();
    prop_oneof![
        4 => key.clone().prop_map(Op::Put),
        1 => key.clone().prop_map(Op::PutIfAbsent),
        1 => (key.clone(), any::<bool>()).prop_map(|(key, good)| Op::PutIfMatch(key, good)),
        2 => key.clone().prop_map(Op::Delete),
        1 => (key.clone(), any::<bool>()).prop_map(|(key, good)| Op::DeleteIfMatch(key, good)),
        4 => (key.clone(), 0..6usize).prop_map(|(key, version)| Op::DeleteVersion(key, version)),
        1 => (key, prop::option::of(0..6usize)).prop_map(|(key, version)| Op::Tag(key, version)),
        1 => Just(Op::Mode(Versioning::Enabled)),
        1 => Just(Op::Mode(Versioning::Suspended)),
    ]
}

/// The nodes, of which each operation takes one.
struct System {
    models: Vec<Model>,
    /// The bucket as it was created: a node with that view learns of changes from the fences.
    bucket: Arc<Bucket>,
    turn: usize,
    world: Option<World>,
    /// A node that the others do not reach.
    cut: Option<usize>,
}

impl System {
    async fn new(nodes: u8) -> System {
        System::with(nodes, |_| ModelOptions::default()).await
    }

    /// Returns a system whose nodes have these options.
    async fn with(nodes: u8, options: impl Fn(usize) -> ModelOptions) -> System {
        let (mut models, mut world) = (Vec::new(), None);
        if nodes == 1 {
            let cluster = Cluster::in_memory(1, HOOKS).await.unwrap();
            models.push(Model::open_with(cluster, options(0)).await.unwrap());
        } else {
            let several = World::new(nodes, 3, Duration::from_millis(2), 1, HOOKS).await;
            let several = several.unwrap();
            for (index, node) in several.nodes.iter().enumerate() {
                let model = Model::open_with(node.clone(), options(index)).await;
                models.push(model.unwrap());
            }
            world = Some(several);
        }
        let bucket = models[0].create_bucket("bucket", None).await.unwrap();
        System {
            models,
            bucket,
            turn: 0,
            world,
            cut: None,
        }
    }

    fn model(&mut self) -> Model {
        self.turn += 1;
        let at = self.turn % self.models.len();
        if self.cut == Some(at) {
            return self.model();
        }
        self.models[at].clone()
    }

    /// Cuts this node off, and no other.
    fn cut(&mut self, node: Option<usize>) {
        let world = self.world.as_ref().unwrap();
        world.network.end_all_cuts();
        self.cut = node;
        if let Some(node) = node {
            world.isolate(node);
        }
    }

    async fn bucket_of(&self, model: &Model) -> Arc<Bucket> {
        // A node that was cut off may not know whether its view is still right.
        let found = model.find_bucket("bucket").await.unwrap_or_default();
        found.unwrap_or_else(|| self.bucket.clone())
    }

    async fn put(
        &mut self,
        key: &str,
        tag: &str,
        condition: Condition,
    ) -> Result<ObjectHead, Error> {
        let model = self.model();
        let bucket = self.bucket_of(&model).await;
        let mut writer = model.begin_object(&bucket, key)?;
        writer.write(tag.to_owned().into()).await?;
        let meta = ObjectMeta {
            etag: tag.to_owned(),
            ..ObjectMeta::default()
        };
        writer.finish(meta, condition).await
    }
}

fn if_match(tag: String) -> Condition {
    Condition::Check(Arc::new(move |current| match current {
        Some(head) if head.etag == tag => Ok(()),
        Some(_) => Err(Error::PreconditionFailed),
        None => Err(Error::NoSuchKey),
    }))
}

fn if_absent() -> Condition {
    Condition::Check(Arc::new(|current| match current {
        None => Ok(()),
        Some(_) => Err(Error::PreconditionFailed),
    }))
}

async fn apply(system: &mut System, reference: &mut Reference, op: Op, number: usize) {
    let tag = format!("tag {number}");
    match op {
        Op::Put(key) => {
            let head = system.put(KEYS[key], &tag, Condition::Always).await;
            reference.put(KEYS[key], head.unwrap().id, &tag);
        }
        Op::PutIfAbsent(key) => {
            let written = system.put(KEYS[key], &tag, if_absent()).await;
            match reference.current(KEYS[key]) {
                None => reference.put(KEYS[key], written.unwrap().id, &tag),
                Some(_) => assert_eq!(written, Err(Error::PreconditionFailed)),
            }
        }
        Op::PutIfMatch(key, good) => {
            let current = reference.current(KEYS[key]).map(|seen| seen.tag.clone());
            let expected = current.clone().filter(|_| good).unwrap_or("other".into());
            let written = system.put(KEYS[key], &tag, if_match(expected)).await;
            match (current, good) {
                (Some(_), true) => reference.put(KEYS[key], written.unwrap().id, &tag),
                (Some(_), false) => assert_eq!(written, Err(Error::PreconditionFailed)),
                (None, _) => assert_eq!(written, Err(Error::NoSuchKey)),
            }
        }
        Op::Delete(key) => {
            let model = system.model();
            let bucket = system.bucket_of(&model).await;
            let deleted = model.delete_object(&bucket, KEYS[key], Condition::Always);
            let deleted = deleted.await.unwrap();
            assert_eq!(deleted.is_marker, reference.mode.has_versions());
            reference.delete(KEYS[key], deleted.id);
        }
        Op::DeleteIfMatch(key, good) => {
            let current = reference.current(KEYS[key]).map(|seen| seen.tag.clone());
            let expected = current.clone().filter(|_| good).unwrap_or("other".into());
            let model = system.model();
            let bucket = system.bucket_of(&model).await;
            let deleted = model.delete_object(&bucket, KEYS[key], if_match(expected));
            let deleted = deleted.await;
            match (current, good) {
                (Some(_), true) => reference.delete(KEYS[key], deleted.unwrap().id),
                (Some(_), false) => assert_eq!(deleted, Err(Error::PreconditionFailed)),
                (None, _) => assert_eq!(deleted, Err(Error::NoSuchKey)),
            }
        }
        Op::DeleteVersion(key, version) => {
            let found = reference.versions(KEYS[key]).get(version).cloned();
            let id = found.as_ref().map_or(VersionId::Null, |seen| seen.id);
            let was_marker = reference
                .find(KEYS[key], id)
                .is_some_and(|seen| seen.is_marker);
            let model = system.model();
            let bucket = system.bucket_of(&model).await;
            let (name, always) = (KEYS[key], Condition::Always);
            let deleted = model.delete_version(&bucket, name, id, Governance::Respect, always);
            let deleted = deleted.await.unwrap();
            assert_eq!((deleted.id, deleted.is_marker), (Some(id), was_marker));
            reference.delete_version(KEYS[key], id);
        }
        Op::Tag(key, version) => {
            let id = version.and_then(|version| reference.versions(KEYS[key]).get(version));
            let id = id.map(|seen| seen.id);
            let tags = vec![("n".to_owned(), number.to_string())];
            let model = system.model();
            let bucket = system.bucket_of(&model).await;
            let set = model
                .set_object_tags(&bucket, KEYS[key], id, tags, &|_| Ok(()))
                .await;
            let named = match id {
                Some(id) => reference.find_mut(KEYS[key], id),
                None => reference.latest_mut(KEYS[key]),
            };
            match named {
                Some(seen) if seen.is_marker => assert!(matches!(set, Err(Error::IsMarker(_)))),
                Some(seen) => {
                    assert_eq!(set, Ok(seen.id));
                    seen.tags = number.to_string();
                }
                None => assert!(matches!(set, Err(Error::NoSuchKey | Error::NoSuchVersion))),
            }
        }
        Op::Mode(mode) => {
            // A node that was cut off must hear of the bucket again first.
            let mut model = system.model();
            let bucket = loop {
                match model.find_bucket("bucket").await {
                    Ok(found) => break found.unwrap(),
                    Err(error) => assert!(matches!(error, Error::Unconfirmed(_)), "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                model = system.model();
            };
            model.set_versioning(&bucket, mode).await.unwrap();
            reference.mode = mode;
        }
    }
}

/// Returns what a node shows of a version.
fn shown(head: &ObjectHead) -> Seen {
    Seen {
        id: head.id,
        is_marker: head.is_marker,
        tag: head.etag.clone(),
        tags: head
            .tags
            .first()
            .map_or(String::new(), |(_, value)| value.clone()),
    }
}

async fn all_versions(model: &Model, bucket: &Bucket, limit: usize) -> Vec<(Key, Seen, bool)> {
    let mut query = VersionQuery {
        limit,
        ..VersionQuery::default()
    };
    let mut all = Vec::new();
    loop {
        let page = model.list_versions(bucket, &query).await.unwrap();
        assert!(page.entries.len() <= limit);
        for entry in page.entries {
            let VersionEntry::Version {
                key,
                head,
                is_latest,
            } = entry
            else {
                panic!("a common prefix without a delimiter");
            };
            query.after_key = Some(key.clone());
            query.after_version = Some(head.id);
            all.push((key, shown(&head), is_latest));
        }
        if !page.truncated {
            return all;
        }
    }
}

async fn compare(system: &mut System, reference: &Reference) {
    let model = system.model();
    let bucket = system.bucket_of(&model).await;
    for key in KEYS {
        let head = model.head_object(&bucket, key).await;
        match reference.versions(key).first() {
            None => assert_eq!(head, Err(Error::NoSuchKey)),
            Some(seen) if seen.is_marker => match head {
                Err(Error::Deleted(marker)) => assert_eq!(marker.id, seen.id),
                other => panic!("{other:?}"),
            },
            Some(seen) => assert_eq!(shown(&head.unwrap()), *seen),
        }
        for seen in reference.versions(key) {
            let head = model.head_version(&bucket, key, seen.id).await;
            match head {
                Err(Error::IsMarker(marker)) => {
                    assert_eq!((marker.id, seen.is_marker), (seen.id, true));
                }
                head => assert_eq!(shown(&head.unwrap()), *seen),
            }
            if !seen.is_marker {
                let reader = model.open_version(&bucket, key, seen.id).await.unwrap();
                let mut content = reader.stream(0..u64::MAX);
                let bytes = content.next().await.unwrap().unwrap();
                assert_eq!(bytes, seen.tag.as_bytes());
            }
        }
        for gone in reference.gone(key) {
            let head = model.head_version(&bucket, key, gone).await;
            assert_eq!(head, Err(Error::NoSuchVersion), "{key} {gone}");
        }
    }
    for limit in [1, 2, 1000] {
        assert_eq!(
            all_versions(&model, &bucket, limit).await,
            reference.listing(&KEYS)
        );
    }
    let query = ListQuery {
        limit: 1000,
        ..ListQuery::default()
    };
    let listed = model.list_objects(&bucket, &query).await.unwrap();
    let names: Vec<_> = listed.entries.iter().map(|entry| entry.name()).collect();
    let current = KEYS.iter().filter(|key| reference.current(key).is_some());
    assert_eq!(names, current.copied().collect::<Vec<_>>());
    let deleted = model.delete_bucket(&bucket).await;
    let is_empty = KEYS.iter().all(|key| reference.versions(key).is_empty());
    match is_empty {
        false => assert_eq!(deleted, Err(Error::BucketNotEmpty)),
        true => {
            deleted.unwrap();
            let bucket = model.create_bucket("bucket", None).await.unwrap();
            if reference.mode.has_versions() {
                model.set_versioning(&bucket, reference.mode).await.unwrap();
            }
            system.bucket = bucket;
        }
    }
}

/// Runs a test in a runtime of one thread. Paused time passes only while all wait.
fn block_on(is_paused: bool, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(is_paused)
        .build()
        .unwrap();
    runtime.block_on(test);
}

fn run(nodes: u8, ops: Vec<Op>) {
    block_on(nodes > 1, async {
        let mut system = System::new(nodes).await;
        let mut reference = Reference::default();
        for (number, op) in ops.into_iter().enumerate() {
            apply(&mut system, &mut reference, op, number).await;
            compare(&mut system, &reference).await;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn one_node_agrees_with_the_reference(ops in prop::collection::vec(op(), 1..24)) {
        run(1, ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn three_nodes_agree_with_the_reference(ops in prop::collection::vec(op(), 1..16)) {
        run(3, ops);
    }
}

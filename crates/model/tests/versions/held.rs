//! Object lock: no operations that are permitted remove a protected version before its time,
//! although the clock of one node is wrong.

use std::collections::BTreeMap;

use archipel_model::{BucketLock, LockChange, ObjectLock, ObjectMeta, Retention, RetentionMode};

use super::*;

/// The clock of the last node is ahead by so much. Stamps tolerate it.
const AHEAD: Duration = Duration::from_secs(50);
/// Retentions are that long: longer than a test takes, and over by the clock that is ahead.
const RETAINED_MS: u64 = 40_000;

#[derive(Clone, Copy, Debug)]
enum Op {
    Put(Option<RetentionMode>),
    Delete,
    /// By its place.
    DeleteVersion(usize, Governance),
    LegalHold(usize, bool),
    /// Shortens, removes or converts the retention.
    Retain(usize, Option<RetentionMode>, Governance),
    Tag(usize),
    Suspend,
    DeleteBucket,
}

fn op() -> impl Strategy<Value = (usize, Op)> {
    let mode = prop::option::of(prop_oneof![
        Just(RetentionMode::Governance),
        Just(RetentionMode::Compliance)
    ]);
    let op = prop_oneof![
        4 => mode.clone().prop_map(Op::Put),
        1 => Just(Op::Delete),
        6 => (0..6usize, any::<bool>()).prop_map(|(at, bypass)| Op::DeleteVersion(at, bypass.into())),
        2 => (0..6usize, any::<bool>()).prop_map(|(at, on)| Op::LegalHold(at, on)),
        3 => (0..6usize, mode, any::<bool>())
            .prop_map(|(at, mode, bypass)| Op::Retain(at, mode, bypass.into())),
        1 => (0..6usize).prop_map(Op::Tag),
        1 => Just(Op::Suspend),
        1 => Just(Op::DeleteBucket),
    ];
    (0..3usize, op)
}

struct Locked {
    models: Vec<Model>,
    now_ms: u64,
    /// The protection of each version that lives.
    locks: BTreeMap<VersionId, ObjectLock>,
}

impl Locked {
    async fn new() -> Locked {
        let world = World::new(3, 3, Duration::from_millis(2), 1, HOOKS).await;
        let world = world.unwrap();
        let now_ms = world.nodes[0].now_ms();
        world.set_clock_ahead(2, AHEAD);
        let mut models = Vec::new();
        for node in &world.nodes {
            models.push(Model::open(node.clone()).await.unwrap());
        }
        let bucket = models[0].create_bucket("bucket", None).await.unwrap();
        let enabled = models[0].set_versioning(&bucket, Versioning::Enabled);
        enabled.await.unwrap();
        let lock = models[0].set_bucket_lock(&bucket, BucketLock::default());
        lock.await.unwrap();
        Locked {
            models,
            now_ms,
            locks: BTreeMap::new(),
        }
    }

    fn retention(&self, mode: RetentionMode, ms: u64) -> Retention {
        Retention {
            mode,
            until_ms: self.now_ms + ms,
        }
    }

    fn id(&self, at: usize) -> Option<VersionId> {
        self.locks.keys().rev().nth(at).copied()
    }

    async fn apply(&mut self, node: usize, op: Op) {
        let model = self.models[node].clone();
        let bucket = model.find_bucket("bucket").await.unwrap().unwrap();
        match op {
            Op::Put(mode) => {
                let lock = ObjectLock {
                    retention: mode.map(|mode| self.retention(mode, RETAINED_MS)),
                    legal_hold: None,
                };
                let meta = ObjectMeta {
                    lock,
                    ..ObjectMeta::default()
                };
                let writer = model.begin_object(&bucket, "key").unwrap();
                let head = writer.finish(meta, Condition::Always).await.unwrap();
                self.locks.insert(head.id, lock);
            }
            Op::Delete => {
                let deleted = model.delete_object(&bucket, "key", Condition::Always);
                assert!(deleted.await.unwrap().is_marker);
            }
            Op::DeleteVersion(at, governance) => {
                let Some(id) = self.id(at) else { return };
                let deleted =
                    model.delete_version(&bucket, "key", id, governance, Condition::Always);
                match (
                    self.locks[&id].protects(self.now_ms, governance),
                    deleted.await,
                ) {
                    (true, deleted) => assert_eq!(deleted, Err(Error::ProtectedByLock)),
                    (false, deleted) => {
                        deleted.unwrap();
                        self.locks.remove(&id);
                    }
                }
            }
            Op::LegalHold(at, on) => {
                let Some(id) = self.id(at) else { return };
                let change = LockChange::LegalHold(on);
                let changed = model.change_lock(&bucket, "key", Some(id), change).await;
                changed.unwrap();
                self.locks.entry(id).or_default().legal_hold = Some(on);
            }
            Op::Retain(at, mode, governance) => {
                let Some(id) = self.id(at) else { return };
                let retention = mode.map(|mode| self.retention(mode, RETAINED_MS / 2));
                let change = LockChange::Retention(retention, governance);
                let changed = model.change_lock(&bucket, "key", Some(id), change).await;
                let lock = self.locks.entry(id).or_default();
                match lock.may_become(retention, self.now_ms, governance) {
                    false => assert_eq!(changed, Err(Error::ProtectedByLock)),
                    true => {
                        changed.unwrap();
                        lock.retention = retention;
                    }
                }
            }
            Op::Tag(at) => {
                let Some(id) = self.id(at) else { return };
                let tags = vec![("a".into(), "b".into())];
                let set = model.set_object_tags(&bucket, "key", Some(id), tags, &|_| Ok(()));
                set.await.unwrap();
            }
            Op::Suspend => {
                let suspended = model.set_versioning(&bucket, Versioning::Suspended);
                assert_eq!(suspended.await.err(), Some(Error::LockKeepsVersions));
            }
            Op::DeleteBucket => {
                if !self.locks.is_empty() {
                    let deleted = model.delete_bucket(&bucket).await;
                    assert_eq!(deleted, Err(Error::BucketNotEmpty));
                }
            }
        }
    }

    async fn check(&self) {
        for (number, model) in self.models.iter().enumerate() {
            let bucket = model.find_bucket("bucket").await.unwrap().unwrap();
            for (id, lock) in &self.locks {
                let head = model.head_version(&bucket, "key", *id).await;
                assert_eq!(head.unwrap().lock, *lock, "{id} at node {number}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_permitted_operations_remove_a_protected_version(
        ops in prop::collection::vec(op(), 1..20)
    ) {
        block_on(true, async {
            let mut locked = Locked::new().await;
            for (node, op) in ops {
                locked.apply(node, op).await;
                locked.check().await;
            }
        });
    }
}

/// The node of the wrong clock used to delete versions that others still protected.
#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_is_ahead_frees_no_version() {
    for mode in [RetentionMode::Governance, RetentionMode::Compliance] {
        let mut locked = Locked::new().await;
        locked.apply(0, Op::Put(Some(mode))).await;
        locked
            .apply(2, Op::DeleteVersion(0, Governance::Respect))
            .await;
        locked
            .apply(2, Op::Retain(0, None, Governance::Respect))
            .await;
        locked
            .apply(1, Op::DeleteVersion(0, Governance::Respect))
            .await;
        locked.check().await;
        locked
            .apply(0, Op::DeleteVersion(0, Governance::Bypass))
            .await;
        assert_eq!(locked.locks.is_empty(), mode == RetentionMode::Governance);
    }
}

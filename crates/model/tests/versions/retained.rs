//! Object lock while clocks jump, time passes, nodes are cut off and lifecycle rules run: no
//! operations remove a protected version before its time.
//!
//! One clock is wrong at a time. The test knows the right time, and what it was told of each version.

use std::collections::BTreeMap;

use archipel_model::{
    BucketLock, DefaultRetention, Lifecycle, LifecycleFilter, LifecycleRule, LockChange,
    ModelOptions, NoncurrentExpiration, ObjectLock, ObjectMeta, PartMeta, Retention, RetentionMode,
    RetentionPeriod, UploadMeta,
};

mod ops;

use ops::{Op, op};

use super::*;

const DAY_MS: u64 = 24 * 3600 * 1000;
/// The most that a clock is wrong, in either direction. Stamps tolerate twice as much, and no more than
/// 60 s: a node whose clock goes back by more cannot write for a while what it wrote before.
const WRONG_MS: u64 = 29_000;

struct Retained {
    world: World,
    models: Vec<Model>,
    begun_ms: u64,
    /// The right time, less the machine's.
    passed_ms: u64,
    /// The clock that is wrong, and how far it is ahead, with [`WRONG_MS`] for right.
    wrong: (usize, u64),
    cut: Option<usize>,
    default: Option<RetentionMode>,
    /// The locks that each version that was not deleted may have: several if an answer was lost.
    locks: BTreeMap<(usize, VersionId), Vec<ObjectLock>>,
}

impl Retained {
    async fn new() -> Retained {
        let world = World::new(3, 3, Duration::from_millis(2), 1, HOOKS).await;
        let world = world.unwrap();
        let mut models = Vec::new();
        for node in &world.nodes {
            let options = ModelOptions {
                control_lease: Duration::from_secs(1_000_000),
                // Rules count in seconds.
                day: Duration::from_secs(1),
                ..ModelOptions::default()
            };
            models.push(Model::open_with(node.clone(), options).await.unwrap());
        }
        let mut retained = Retained {
            begun_ms: world.nodes[0].now_ms(),
            world,
            models,
            passed_ms: 0,
            wrong: (0, WRONG_MS),
            cut: None,
            default: None,
            locks: BTreeMap::new(),
        };
        retained.set_clocks();
        let model = retained.models[0].clone();
        let bucket = model.create_bucket("bucket", None).await.unwrap();
        for key in 0..KEYS.len() {
            // From before there were versions.
            let lock = ObjectLock::default();
            retained.put(0, key, lock).await;
        }
        let enabled = model.set_versioning(&bucket, Versioning::Enabled);
        enabled.await.unwrap();
        let lock = model.set_bucket_lock(&bucket, BucketLock::default());
        lock.await.unwrap();
        let rule = LifecycleRule {
            id: "rule".into(),
            enabled: true,
            filter: LifecycleFilter::default(),
            expiration: None,
            noncurrent: Some(NoncurrentExpiration {
                days: 1,
                keep: None,
            }),
            abort_days: None,
        };
        let lifecycle = Lifecycle {
            rules: vec![rule],
            minimum_size_varies: false,
        };
        let set = model.set_lifecycle(&bucket, Some(lifecycle));
        set.await.unwrap();
        retained
    }

    fn set_clocks(&self) {
        let right = self.passed_ms + WRONG_MS;
        for node in 0..self.models.len() {
            let ahead = match self.wrong {
                (wrong, by) if wrong == node => self.passed_ms + by,
                _ => right,
            };
            self.world
                .set_clock_ahead(node, Duration::from_millis(ahead));
        }
        self.world.set_common_ahead(Duration::from_millis(right));
    }

    /// The right time; at most some seconds late.
    fn now_ms(&self) -> u64 {
        self.begun_ms + self.passed_ms + WRONG_MS
    }

    fn retention(&self, until: Option<(RetentionMode, u64)>) -> Option<Retention> {
        let until = until.map(|(mode, seconds)| Retention {
            mode,
            until_ms: self.now_ms() + 1000 * seconds,
        });
        until.filter(|until| until.until_ms > self.now_ms())
    }

    async fn bucket(&self, model: &Model) -> Arc<Bucket> {
        model.find_bucket("bucket").await.unwrap().unwrap()
    }

    fn note(&mut self, key: usize, written: Result<ObjectHead, Error>, asked: ObjectLock) {
        let Ok(head) = written else { return };
        // The default retention counts from the clock of the node that wrote.
        if asked.retention.is_none() {
            let days = self.default.map(|mode| (mode, DAY_MS));
            let told = head.lock.retention;
            assert_eq!(told.map(|told| told.mode), days.map(|(mode, _)| mode));
            let least = self.now_ms() + DAY_MS - WRONG_MS - 1000;
            assert!(told.is_none_or(|told| told.until_ms >= least), "{told:?}");
        } else {
            assert_eq!(head.lock, asked);
        }
        self.locks.insert((key, head.id), vec![head.lock]);
    }

    async fn put(&mut self, node: usize, key: usize, lock: ObjectLock) {
        let model = self.models[node].clone();
        let bucket = self.bucket(&model).await;
        let meta = ObjectMeta {
            lock,
            ..ObjectMeta::default()
        };
        let writer = model.begin_object(&bucket, KEYS[key]).unwrap();
        let written = writer.finish(meta, Condition::Always).await;
        self.note(key, written, lock);
    }

    async fn upload(
        &mut self,
        node: usize,
        key: usize,
        lock: ObjectLock,
    ) -> Result<ObjectHead, Error> {
        let model = self.models[node].clone();
        let bucket = self.bucket(&model).await;
        let meta = UploadMeta::default();
        let upload = model.create_upload(&bucket, KEYS[key], None, meta).await?;
        let mut writer = model.begin_part(&bucket, &upload, 1)?;
        writer.write("part".into()).await?;
        let part = writer.finish(PartMeta::default()).await?;
        let meta = ObjectMeta {
            lock,
            ..ObjectMeta::default()
        };
        let parts = [part];
        let completed = model.complete_upload(&bucket, &upload, &parts, meta, Condition::Always);
        completed.await
    }

    fn version(&self, key: usize, at: usize) -> Option<VersionId> {
        let of = self.locks.keys().filter(|(of, _)| *of == key);
        of.map(|(_, id)| *id).nth(at)
    }

    async fn delete_version(
        &mut self,
        node: usize,
        key: usize,
        id: VersionId,
        governance: Governance,
    ) {
        let model = self.models[node].clone();
        let bucket = self.bucket(&model).await;
        let deleted = model.delete_version(&bucket, KEYS[key], id, governance, Condition::Always);
        let deleted = deleted.await;
        let now_ms = self.now_ms();
        let locks = &self.locks[&(key, id)];
        if all_protect(locks, now_ms, governance) {
            assert!(
                matches!(deleted, Err(Error::ProtectedByLock | Error::Unavailable(_))),
                "{deleted:?}"
            );
            return;
        }
        // A clock that is behind holds a version for longer.
        let is_free = locks
            .iter()
            .all(|lock| !lock.protects(now_ms - WRONG_MS - 1000, governance));
        if is_free && self.cut.is_none() {
            deleted.unwrap();
        }
        self.locks.remove(&(key, id));
    }

    async fn change_lock(&mut self, node: usize, key: usize, id: VersionId, change: LockChange) {
        let model = self.models[node].clone();
        let bucket = self.bucket(&model).await;
        let changed = model
            .change_lock(&bucket, KEYS[key], Some(id), change)
            .await;
        let now_ms = self.now_ms();
        let locks = self.locks.entry((key, id)).or_default();
        if let LockChange::Retention(retention, governance) = change
            && locks
                .iter()
                .all(|lock| !lock.may_become(retention, now_ms, governance))
        {
            assert!(
                matches!(changed, Err(Error::ProtectedByLock | Error::Unavailable(_))),
                "{changed:?}"
            );
            return;
        }
        let after = locks.iter().map(|lock| match change {
            LockChange::LegalHold(on) => ObjectLock {
                legal_hold: Some(on),
                ..*lock
            },
            LockChange::Retention(retention, _) => ObjectLock { retention, ..*lock },
        });
        let after: Vec<ObjectLock> = after.collect();
        match changed {
            Ok(_) => *locks = after,
            Err(Error::ProtectedByLock | Error::NoSuchVersion) => {}
            // Nobody knows.
            Err(_) => locks.extend(after),
        }
    }

    async fn apply(&mut self, node: usize, op: Op) {
        // The client of a node that is cut off asks another.
        let node = match self.cut {
            Some(cut) if cut == node => (node + 1) % self.models.len(),
            _ => node,
        };
        match op {
            Op::Put(key, until) => {
                let lock = ObjectLock {
                    retention: self.retention(until),
                    legal_hold: None,
                };
                self.put(node, key, lock).await;
            }
            Op::Upload(key, until) => {
                let lock = ObjectLock {
                    retention: self.retention(until),
                    legal_hold: None,
                };
                let written = self.upload(node, key, lock).await;
                self.note(key, written, lock);
            }
            Op::Copy(key, hold) => {
                let model = self.models[node].clone();
                let bucket = self.bucket(&model).await;
                if let Ok(head) = model.head_object(&bucket, KEYS[key]).await {
                    let lock = ObjectLock {
                        retention: head.lock.retention,
                        legal_hold: Some(hold),
                    };
                    self.put(node, (key + 1) % KEYS.len(), lock).await;
                }
            }
            Op::Delete(key) => {
                let model = self.models[node].clone();
                let bucket = self.bucket(&model).await;
                let deleted = model.delete_object(&bucket, KEYS[key], Condition::Always);
                let _ = deleted.await;
            }
            Op::DeleteVersion(key, at, governance) => {
                if let Some(id) = self.version(key, at) {
                    self.delete_version(node, key, id, governance).await;
                }
            }
            Op::LegalHold(key, at, on) => {
                if let Some(id) = self.version(key, at) {
                    let change = LockChange::LegalHold(on);
                    self.change_lock(node, key, id, change).await;
                }
            }
            Op::Retain(key, at, until, governance) => {
                if let Some(id) = self.version(key, at) {
                    let retention = self.retention(until);
                    let change = LockChange::Retention(retention, governance);
                    self.change_lock(node, key, id, change).await;
                }
            }
            // A node that is cut off delays the answer until its lease is over.
            Op::Default(_) if self.cut.is_some() => {}
            Op::Default(mode) => {
                let default = mode.map(|mode| DefaultRetention {
                    mode,
                    period: RetentionPeriod::Days(1),
                });
                let model = &self.models[node];
                let bucket = self.bucket(model).await;
                let set = model.set_bucket_lock(&bucket, BucketLock { default });
                if set.await.is_ok() {
                    self.default = mode;
                }
            }
            Op::Pass(seconds) => {
                self.passed_ms += 1000 * seconds;
                self.set_clocks();
            }
            Op::Jump(node, by) => {
                self.wrong = (node, by);
                self.set_clocks();
            }
            Op::Cut(node) => {
                self.world.network.end_all_cuts();
                self.world.isolate(node);
                self.cut = Some(node);
            }
            Op::EndCuts => {
                self.world.network.end_all_cuts();
                self.cut = None;
            }
            Op::Expire => self.expire().await,
        }
    }

    /// Lets the rules walk once. Versions that are noncurrent and free may go.
    async fn expire(&mut self) {
        for (node, model) in self.models.clone().into_iter().enumerate() {
            if self.cut != Some(node) {
                let walk = model.run_expiry();
                let _ = tokio::time::timeout(Duration::from_secs(2), walk).await;
            }
        }
        let now_ms = self.now_ms();
        self.locks
            .retain(|_, locks| all_protect(locks, now_ms, Governance::Respect));
    }

    /// Compares what one node shows with what was told.
    async fn check(&mut self, node: usize) {
        let node = match self.cut {
            Some(cut) if cut == node => (node + 1) % self.models.len(),
            _ => node,
        };
        let (model, now_ms) = (self.models[node].clone(), self.now_ms());
        let bucket = self.bucket(&model).await;
        for ((key, id), locks) in &mut self.locks {
            match model.head_version(&bucket, KEYS[*key], *id).await {
                Ok(head) => {
                    assert!(locks.contains(&head.lock), "{key} {id}: {head:?}");
                    *locks = vec![head.lock];
                }
                // A replica whose clock was far ahead may keep a write that the others refuse. If another
                // is cut off, no two agree.
                Err(Error::Unavailable(_)) if self.cut.is_some() => {}
                // A deletion whose answer was lost.
                Err(error) => {
                    let may_be_gone = !all_protect(locks, now_ms, Governance::Respect);
                    assert!(may_be_gone, "{key} {id}: {error}");
                }
            }
        }
    }
}

/// Returns true if each of the locks that a version may have protects it.
fn all_protect(locks: &[ObjectLock], now_ms: u64, governance: Governance) -> bool {
    locks.iter().all(|lock| lock.protects(now_ms, governance))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_clock_and_no_rule_removes_a_protected_version(
        ops in prop::collection::vec(op(), 1..30)
    ) {
        block_on(true, async {
            let mut retained = Retained::new().await;
            for (node, op) in ops {
                retained.apply(node, op).await;
                retained.check(node).await;
            }
            retained.apply(0, Op::EndCuts).await;
            for node in 0..retained.models.len() {
                retained.check(node).await;
            }
        });
    }
}

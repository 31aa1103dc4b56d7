//! Events of acknowledged writes: delivered at least once and in order, wherever nodes crash.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use archipel_base::random::{Random, SeededRandom};
use archipel_cluster::World;
use archipel_model::{
    Bucket, Cause, Condition, DeliverEvent, Error, Event, EventTarget, HOOKS, Model, Notification,
    NotificationKind, NotificationRule, ObjectHead, ObjectMeta, Predicate, Versioning,
};
use async_trait::async_trait;
use parking_lot::Mutex;

const LATENCY: Duration = Duration::from_millis(50);

/// A target that takes everything, unless it is down.
#[derive(Default)]
struct Receiver {
    got: Mutex<Vec<Event>>,
    is_down: Mutex<bool>,
}

#[async_trait]
impl DeliverEvent for Receiver {
    async fn deliver(&self, event: &Event) -> Result<(), String> {
        if *self.is_down.lock() {
            return Err("it is down".into());
        }
        self.got.lock().push(event.clone());
        Ok(())
    }

    async fn test(&self, _: &str, _: &str, _: u64) -> Result<(), String> {
        match *self.is_down.lock() {
            true => Err("it is down".into()),
            false => Ok(()),
        }
    }
}

struct Nodes {
    world: World,
    models: Vec<Model>,
    bucket: Arc<Bucket>,
    receiver: Arc<Receiver>,
    workers: Vec<tokio::task::JoinHandle<()>>,
}

fn target(backlog: u64, refuses: bool) -> EventTarget {
    EventTarget {
        name: "hook".into(),
        kind: "webhook".into(),
        backlog,
        refuses,
    }
}

async fn nodes(versioning: Versioning, limits: EventTarget) -> Nodes {
    let world = World::new(3, 3, LATENCY, 1, HOOKS).await.unwrap();
    let receiver = Arc::new(Receiver::default());
    let mut models = Vec::new();
    for node in &world.nodes {
        let model = Model::open(node.clone()).await.unwrap();
        model.set_event_targets(vec![(limits.clone(), receiver.clone())]);
        models.push(model);
    }
    models[0].create_bucket("bucket", None).await.unwrap();
    if versioning != Versioning::Never {
        models[0]
            .set_versioning("bucket", versioning)
            .await
            .unwrap();
    }
    let all = [
        "s3:ObjectCreated:*",
        "s3:ObjectRemoved:*",
        "s3:ObjectTagging:*",
    ];
    let rule = NotificationRule {
        id: "all".into(),
        kind: NotificationKind::Queue,
        arn: "arn:archipel:events::hook:webhook".into(),
        target: "hook".into(),
        events: all.map(str::to_owned).to_vec(),
        prefix: None,
        suffix: None,
    };
    let rules = vec![rule];
    let set = models[0].set_notification("bucket", Some(Notification { rules }));
    let bucket = set.await.unwrap();
    let workers = models.iter().map(|model| {
        let model = model.clone();
        tokio::spawn(async move { model.deliver_events().await })
    });
    Nodes {
        workers: workers.collect(),
        world,
        models,
        bucket,
        receiver,
    }
}

fn meta(etag: &str) -> ObjectMeta {
    ObjectMeta {
        etag: etag.into(),
        ..ObjectMeta::default()
    }
}

/// If-None-Match: *.
fn if_none() -> Condition {
    let test: Predicate = Arc::new(|current: Option<&ObjectHead>| match current {
        None => Ok(()),
        Some(_) => Err(Error::PreconditionFailed),
    });
    Condition::Check(test)
}

impl Nodes {
    async fn put(&self, node: usize, key: &str, etag: &str) -> Result<ObjectHead, Error> {
        put(&self.models[node], &self.bucket, key, etag).await
    }

    /// Names and tags of what the receiver got, with repetitions left out.
    fn got(&self) -> Vec<(String, String)> {
        let mut told: Vec<(String, String)> = Vec::new();
        for event in &*self.receiver.got.lock() {
            let one = (event.name.clone(), event.etag.clone().unwrap_or_default());
            if !told.contains(&one) {
                told.push(one);
            }
        }
        told
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(25)).await;
    }
}

async fn put(
    model: &Model,
    bucket: &Arc<Bucket>,
    key: &str,
    etag: &str,
) -> Result<ObjectHead, Error> {
    let writer = model.begin_object(bucket, key)?;
    writer.finish(meta(etag), Condition::Always).await
}

fn pair(name: &str, etag: &str) -> (String, String) {
    (name.into(), etag.into())
}

#[tokio::test(start_paused = true)]
async fn each_change_is_told_once_and_in_order() {
    for versioning in [Versioning::Never, Versioning::Enabled] {
        let nodes = nodes(versioning, target(1000, false)).await;
        let first = nodes.put(0, "key", "1").await.unwrap();
        nodes.put(1, "key", "2").await.unwrap();
        let cause = Cause {
            principal: OnceLock::from("ann".to_owned()),
            ..Cause::default()
        };
        let ann = nodes.models[2].because(cause);
        let deleted = ann.delete_object(&nodes.bucket, "key", Condition::Always);
        deleted.await.unwrap();
        nodes.settle().await;
        let removed = match versioning {
            Versioning::Never => "s3:ObjectRemoved:Delete",
            _ => "s3:ObjectRemoved:DeleteMarkerCreated",
        };
        let created = "s3:ObjectCreated:Put";
        let told = [pair(created, "1"), pair(created, "2"), pair(removed, "")];
        assert_eq!(nodes.got(), told);
        let got = nodes.receiver.got.lock().clone();
        assert_eq!(got.len(), 3, "nothing was told twice");
        assert!(got.is_sorted_by(|a, b| a.sequencer < b.sequencer));
        assert_eq!(got[2].principal.as_deref(), Some("ann"));
        let id = first.id.at().map(|_| first.id.to_string());
        assert_eq!(got[0].version, id);
        // Nothing waits any more, on any node.
        for model in &nodes.models {
            assert_eq!(model.event_status()[0].backlog, 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_condition_tells_nothing() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    nodes.put(0, "key", "1").await.unwrap();
    let writer = nodes.models[1].begin_object(&nodes.bucket, "key").unwrap();
    let refused = writer.finish(meta("2"), if_none()).await;
    assert_eq!(refused, Err(Error::PreconditionFailed));
    nodes.settle().await;
    assert_eq!(nodes.got(), [pair("s3:ObjectCreated:Put", "1")]);
}

#[tokio::test(start_paused = true)]
async fn bucket_without_notifications_has_no_events() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    let silent = nodes.models[0].create_bucket("silent", None).await.unwrap();
    put(&nodes.models[0], &silent, "key", "1").await.unwrap();
    let removed = nodes.models[1].set_notification("bucket", None);
    removed.await.unwrap();
    // This node knows the old rules still; the write fence does not.
    nodes.put(2, "key", "1").await.unwrap();
    nodes.settle().await;
    assert_eq!(nodes.got(), []);
}

/// A coordinator or a replica crashes at every moment of two writes and of their delivery.
#[tokio::test(start_paused = true)]
async fn acknowledged_writes_are_told_in_order_wherever_a_node_crashes() {
    for versioning in [Versioning::Never, Versioning::Enabled] {
        for victim in 0..3 {
            for moment in [0, 1, 3, 5, 8] {
                let nodes = nodes(versioning, target(1000, false)).await;
                let (model, bucket) = (nodes.models[0].clone(), nodes.bucket.clone());
                let acknowledged: Arc<Mutex<Vec<String>>> = Arc::default();
                let acked = acknowledged.clone();
                let writes = tokio::spawn(async move {
                    for n in 1..=4 {
                        if put(&model, &bucket, "key", &n.to_string()).await.is_ok() {
                            acked.lock().push(n.to_string());
                        }
                    }
                });
                tokio::time::sleep(LATENCY / 2 * moment).await;
                nodes.world.kill(victim);
                nodes.workers[victim].abort();
                if victim == 0 {
                    writes.abort();
                } else {
                    writes.await.unwrap();
                }
                // A node that is left writes on.
                let other = (victim + 1) % 3;
                nodes.put(other, "key", "last").await.unwrap();
                nodes.settle().await;
                let told: Vec<String> = nodes.got().into_iter().map(|(_, etag)| etag).collect();
                let mut wanted = acknowledged.lock().clone();
                wanted.push("last".into());
                let in_order: Vec<_> = told.iter().filter(|one| wanted.contains(one)).collect();
                assert_eq!(
                    in_order,
                    wanted.iter().collect::<Vec<_>>(),
                    "{versioning:?}, node {victim} at {moment}: {told:?}"
                );
            }
        }
    }
}

/// Writers of one key contend, so that attempts are refused and sent again.
#[tokio::test(start_paused = true)]
async fn contending_writes_are_all_told_in_the_order_of_their_stamps() {
    for seed in 0..6 {
        let random = SeededRandom::new(seed);
        let nodes = nodes(Versioning::Never, target(1000, false)).await;
        let mut tasks = Vec::new();
        for n in 0..12usize {
            let (model, bucket) = (nodes.models[n % 3].clone(), nodes.bucket.clone());
            let delay = Duration::from_millis(random.next_u64() % 200);
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                let put = put(&model, &bucket, "key", &n.to_string()).await;
                put.is_ok().then_some(n.to_string())
            }));
        }
        let mut acknowledged = Vec::new();
        for task in tasks {
            acknowledged.extend(task.await.unwrap());
        }
        nodes.settle().await;
        let told: Vec<String> = nodes.got().into_iter().map(|(_, etag)| etag).collect();
        for one in &acknowledged {
            assert!(
                told.contains(one),
                "seed {seed}: {one} of {acknowledged:?}, {told:?}"
            );
        }
        let current = nodes.models[0].head_object(&nodes.bucket, "key").await;
        // An attempt that was refused and sent again may be told twice, the second time in its place.
        let got = nodes.receiver.got.lock().clone();
        assert!(
            got.is_sorted_by(|a, b| a.sequencer < b.sequencer),
            "seed {seed}"
        );
        let last = got.last().and_then(|event| event.etag.clone());
        assert_eq!(last, Some(current.unwrap().etag), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_wait_for_a_target_that_is_down() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    *nodes.receiver.is_down.lock() = true;
    for n in 0..20 {
        nodes.put(n % 3, &format!("key-{n}"), "1").await.unwrap();
    }
    nodes.settle().await;
    assert_eq!(nodes.receiver.got.lock().len(), 0);
    let waiting: u64 = nodes
        .models
        .iter()
        .map(|m| m.event_status()[0].backlog)
        .sum();
    assert_eq!(waiting, 20);
    let failing = nodes
        .models
        .iter()
        .any(|m| m.event_status()[0].error.is_some());
    assert!(failing);
    *nodes.receiver.is_down.lock() = false;
    // The target is left alone for up to a minute.
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(nodes.receiver.got.lock().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn full_backlog_drops_events_or_refuses_writes() {
    for refuses in [false, true] {
        // One event for each partition.
        let nodes = nodes(Versioning::Never, target(16, refuses)).await;
        *nodes.receiver.is_down.lock() = true;
        nodes.put(0, "key", "1").await.unwrap();
        let second = nodes.put(0, "key", "2").await;
        match refuses {
            true => assert!(matches!(second, Err(Error::Busy(_))), "{second:?}"),
            false => assert!(second.is_ok()),
        }
        *nodes.receiver.is_down.lock() = false;
        nodes.settle().await;
        assert_eq!(nodes.got(), [pair("s3:ObjectCreated:Put", "1")]);
        let dropped: u64 = nodes
            .models
            .iter()
            .map(|m| m.event_status()[0].dropped)
            .sum();
        assert_eq!(dropped, if refuses { 0 } else { 3 }, "each replica counts");
        nodes.put(0, "key", "3").await.unwrap();
        nodes.settle().await;
        assert_eq!(nodes.got().last(), Some(&pair("s3:ObjectCreated:Put", "3")));
    }
}

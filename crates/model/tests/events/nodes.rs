//! Nodes whose bucket tells one target of everything, or some of the targets of a part of the keys each.

use std::sync::Arc;
use std::time::Duration;

use archipel_cluster::World;
use archipel_model::{
    Bucket, Condition, DeliverEvent, Error, Event, EventTarget, HOOKS, Model, Notification,
    NotificationKind, NotificationRule, ObjectHead, ObjectMeta, Predicate, Versioning,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;

pub const LATENCY: Duration = Duration::from_millis(50);

/// A target that takes everything, unless it is down.
#[derive(Default)]
pub struct Receiver {
    pub got: Mutex<Vec<Event>>,
    /// When each of them came.
    pub times: Mutex<Vec<Instant>>,
    pub is_down: Mutex<bool>,
    /// The time that it needs for an event.
    pub delay: Mutex<Duration>,
    /// The beginning of the keys whose events it refuses.
    pub refused: Mutex<Option<&'static str>>,
}

impl Receiver {
    /// Returns the tags of the events of a key, in the order in which they came.
    pub fn tags_of(&self, key: &str) -> Vec<String> {
        let got = self.got.lock();
        let of_key = got.iter().filter(|event| event.key == key);
        of_key.filter_map(|event| event.etag.clone()).collect()
    }
}

#[async_trait]
impl DeliverEvent for Receiver {
    async fn deliver(&self, event: &Event) -> Result<(), String> {
        if *self.is_down.lock() {
            return Err("it is down".into());
        }
        let delay = *self.delay.lock();
        tokio::time::sleep(delay).await;
        let refused = *self.refused.lock();
        if refused.is_some_and(|begin| event.key.starts_with(begin)) {
            return Err("it refuses this key".into());
        }
        self.got.lock().push(event.clone());
        self.times.lock().push(Instant::now());
        Ok(())
    }

    async fn test(&self, _: &str, _: &str, _: u64) -> Result<(), String> {
        match *self.is_down.lock() {
            true => Err("it is down".into()),
            false => Ok(()),
        }
    }
}

pub struct Nodes {
    pub world: World,
    pub models: Vec<Model>,
    pub bucket: Arc<Bucket>,
    /// The first target.
    pub receiver: Arc<Receiver>,
    pub receivers: Vec<Arc<Receiver>>,
    pub ahead: Mutex<Duration>,
    pub workers: Vec<tokio::task::JoinHandle<()>>,
}

pub fn target(backlog: u64, refuses: bool) -> EventTarget {
    EventTarget {
        name: "hook".into(),
        kind: "webhook".into(),
        backlog,
        refuses,
    }
}

/// Returns a rule that names a target for the keys with a prefix.
pub fn rule(target: &str, prefix: Option<String>) -> NotificationRule {
    let all = [
        "s3:ObjectCreated:*",
        "s3:ObjectRemoved:*",
        "s3:ObjectTagging:*",
    ];
    NotificationRule {
        id: target.into(),
        kind: NotificationKind::Queue,
        arn: format!("arn:archipel:events::{target}:webhook"),
        target: target.into(),
        events: all.map(str::to_owned).to_vec(),
        prefix,
        suffix: None,
    }
}

pub async fn nodes(versioning: Versioning, limits: EventTarget) -> Nodes {
    let rules = vec![rule("hook", None)];
    nodes_with(versioning, vec![limits], rules).await
}

/// Returns nodes with several targets, each of which is told of the keys that begin with its name.
pub async fn nodes_of(names: &[&str]) -> Nodes {
    some_nodes_of(3, names).await
}

/// Returns so many nodes of that kind, each with a replica of everything.
pub async fn some_nodes_of(count: u8, names: &[&str]) -> Nodes {
    let limits = names.iter().map(|name| EventTarget {
        name: (*name).into(),
        ..target(100_000, false)
    });
    let rules = names.iter().map(|name| rule(name, Some((*name).into())));
    let (limits, rules) = (limits.collect(), rules.collect());
    some_nodes_with(count, Versioning::Never, limits, rules).await
}

pub async fn nodes_with(
    versioning: Versioning,
    limits: Vec<EventTarget>,
    rules: Vec<NotificationRule>,
) -> Nodes {
    some_nodes_with(3, versioning, limits, rules).await
}

async fn some_nodes_with(
    count: u8,
    versioning: Versioning,
    limits: Vec<EventTarget>,
    rules: Vec<NotificationRule>,
) -> Nodes {
    let world = World::new(count, count, LATENCY, 1, HOOKS).await.unwrap();
    let receivers: Vec<Arc<Receiver>> = limits.iter().map(|_| Arc::default()).collect();
    let mut models = Vec::new();
    for node in &world.nodes {
        let model = Model::open(node.clone()).await.unwrap();
        let targets = limits.iter().cloned().zip(&receivers);
        let targets = targets.map(|(limits, receiver)| {
            let deliver: Arc<dyn DeliverEvent> = receiver.clone();
            (limits, deliver)
        });
        model.set_event_targets(targets.collect());
        models.push(model);
    }
    let bucket = models[0].create_bucket("bucket", None).await.unwrap();
    if versioning != Versioning::Never {
        models[0].set_versioning(&bucket, versioning).await.unwrap();
    }
    let set = models[0].set_notification(&bucket, Some(Notification { rules }));
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
        receiver: receivers[0].clone(),
        receivers,
        ahead: Mutex::default(),
    }
}

pub fn meta(etag: &str) -> ObjectMeta {
    ObjectMeta {
        etag: etag.into(),
        ..ObjectMeta::default()
    }
}

/// If-None-Match: *.
pub fn if_none() -> Condition {
    let test: Predicate = Arc::new(|current: Option<&ObjectHead>| match current {
        None => Ok(()),
        Some(_) => Err(Error::PreconditionFailed),
    });
    Condition::Check(test)
}

impl Nodes {
    pub async fn put(&self, node: usize, key: &str, etag: &str) -> Result<ObjectHead, Error> {
        put(&self.models[node], &self.bucket, key, etag).await
    }

    /// Names and tags of what the receiver got, with repetitions left out.
    pub fn got(&self) -> Vec<(String, String)> {
        let mut told: Vec<(String, String)> = Vec::new();
        for event in &*self.receiver.got.lock() {
            let one = (event.name.clone(), event.etag.clone().unwrap_or_default());
            if !told.contains(&one) {
                told.push(one);
            }
        }
        told
    }

    /// Lets time pass by the clocks of all nodes. Virtual time leaves them alone.
    pub fn pass(&self, time: Duration) {
        let mut ahead = self.ahead.lock();
        *ahead += time;
        for node in 0..self.world.nodes.len() {
            self.world.set_clock_ahead(node, *ahead);
        }
    }

    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(5)).await;
        // Events that could not be decided are decided now.
        self.pass(Duration::from_secs(31));
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
}

pub async fn put(
    model: &Model,
    bucket: &Arc<Bucket>,
    key: &str,
    etag: &str,
) -> Result<ObjectHead, Error> {
    let writer = model.begin_object(bucket, key)?;
    writer.finish(meta(etag), Condition::Always).await
}

pub fn pair(name: &str, etag: &str) -> (String, String) {
    (name.into(), etag.into())
}

//! Event notifications: a bucket's rules say which changes of its objects are told to which target.
//!
//! An event is a row that the write of the object's row brings with it: a
//! [companion](archipel_cluster::Companion). So an acknowledged write has its event at a quorum,
//! and that takes no further round. The first live replica of a partition delivers the events of
//! its rows and deletes them. The others do so with old ones.
//!
//! # Invariants
//! - A bucket without notifications has no events, and its writes are as if there were none at all.
//! - An event is deleted only after its target has confirmed it, or once its write can never take
//!   effect.
//! - An event is delivered only after a quorum holds its write or a newer one. Of the events of one
//!   key for one target, those of earlier writes come first.
//!
//! | module | what it holds |
//! |---|---|
//! | `event` | events, and the rows that hold them |
//! | `targets` | targets: limits, state, the trait that brings events to them |
//! | `deliver` | finds events that wait, and delivers them in order |
//! | `listeners` | clients that listen: events as they happen, without a guarantee |

mod deliver;
mod event;
mod listeners;
mod targets;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use archipel_base::{Stamp, boxed, codec};
use archipel_cluster::Companion;
use archipel_storage::RowKey;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::notification::Notification;
use crate::owner::Owner;
use crate::rowkeys;
use crate::version::VersionId;
pub use event::{Cause, Creation, Event};
pub(crate) use event::{Happening, Trigger};
use listeners::Listeners;
pub use listeners::{EventListener, Interest};
use targets::Progress;
pub use targets::{DeliverEvent, EventTarget, TargetStatus};

/// The targets of this node, and how far their events have come.
#[derive(Default)]
pub(crate) struct Events {
    targets: OnceLock<BTreeMap<String, Target>>,
    progress: Mutex<BTreeMap<String, Progress>>,
    listeners: Arc<Listeners>,
}

struct Target {
    limits: EventTarget,
    deliver: Arc<dyn DeliverEvent>,
}

impl Model {
    /// Sets the targets of events that this node knows. Only the first call has an effect. It must
    /// come before [`Model::deliver_events`].
    pub fn set_event_targets(&self, targets: Vec<(EventTarget, Arc<dyn DeliverEvent>)>) {
        let named = targets.into_iter().map(|(limits, deliver)| {
            let name = limits.name.clone();
            (name, Target { limits, deliver })
        });
        // A second call would be a defect of the caller, and changes nothing.
        let _ = self.inner.events.targets.set(named.collect());
    }

    /// Returns the target of this name, if the node knows it.
    pub fn event_target(&self, name: &str) -> Option<EventTarget> {
        let targets = self.inner.events.targets.get()?;
        targets.get(name).map(|target| target.limits.clone())
    }

    /// Tells the targets of a bucket's rules that the rules name them.
    ///
    /// # Errors
    /// The first target that does not take the message, by its address, and why.
    #[boxed]
    pub async fn test_event_targets(
        &self,
        bucket: &str,
        notification: &Notification,
    ) -> Result<(), (String, String)> {
        let cause = self.cause.as_deref();
        let request_id = cause.map_or("", |cause| cause.request_id.as_str());
        let rules = notification.rules.iter();
        let addresses: BTreeMap<&str, &str> = rules
            .map(|rule| (rule.target.as_str(), rule.arn.as_str()))
            .collect();
        for (name, arn) in addresses {
            let targets = self.inner.events.targets.get();
            let told = match targets.and_then(|targets| targets.get(name)) {
                Some(target) => {
                    let now_ms = self.now_ms();
                    target.deliver.test(bucket, request_id, now_ms).await
                }
                None => Err("no target of this name is declared on this node".into()),
            };
            told.map_err(|why| (arn.to_owned(), targets::shortened(why)))?;
        }
        Ok(())
    }

    /// Sets a bucket's event notifications; `None` removes them. They count for every write that
    /// begins after this returns, on all nodes.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::Conflict`] if another such change takes too long.
    #[boxed]
    pub async fn set_notification(
        &self,
        bucket: &Bucket,
        notification: Option<Notification>,
    ) -> Result<Arc<Bucket>, Error> {
        self.set_notification_if(bucket, notification, |_| true)
            .await
    }

    /// Sets a bucket's event notifications as [`set_notification`](Model::set_notification) does,
    /// if those so far pass the test.
    ///
    /// # Errors
    /// Those of [`set_notification`](Model::set_notification); [`Error::PreconditionFailed`] if
    /// they do not pass.
    pub async fn set_notification_if(
        &self,
        bucket: &Bucket,
        notification: Option<Notification>,
        test: impl Fn(Option<&Notification>) -> bool + Send + Sync + 'static,
    ) -> Result<Arc<Bucket>, Error> {
        self.change_settings(bucket, move |bucket| {
            if !test(bucket.notification.as_ref()) {
                return Err(Error::PreconditionFailed);
            }
            bucket.notification.clone_from(&notification);
            Ok(())
        })
        .await
    }

    /// Returns the events that a write of an object's row brings.
    pub(crate) fn events_of(
        &self,
        bucket: &Bucket,
        row: &RowKey,
        happening: Happening<'_>,
        trigger: Trigger,
    ) -> Vec<Companion> {
        if bucket.notification.is_none() {
            return Vec::new();
        }
        let by = (self.cause.as_deref(), trigger);
        let limits = |name: &str| {
            let known = self.event_target(name);
            known.unwrap_or_else(|| EventTarget::unknown(name))
        };
        let companion = event::companion(bucket, row, happening, by, self.now_ms(), limits);
        companion.into_iter().collect()
    }

    /// Tells listeners of a change of an object's row that took effect under this stamp. `made` is
    /// the version that the write made.
    pub(crate) fn tell_listeners(
        &self,
        bucket: &Bucket,
        row: &RowKey,
        happening: Happening<'_>,
        trigger: Trigger,
        (at, made): (Stamp, VersionId),
    ) {
        self.cluster().relay().tell(|| {
            let Some(Owner::Object { key, .. }) = rowkeys::owner_of(&row.key) else {
                return None;
            };
            let by = (self.cause.as_deref(), trigger);
            let event = Event::of_change(bucket, key, happening, by, self.now_ms());
            // A reader of the bucket learns nothing of the addresses of other clients.
            let event = Event {
                address: None,
                ..event.of_write(at, made.at())
            };
            Some(codec::encode(&event).into())
        });
    }

    /// Returns the state of all targets that this node knows, or has met in events.
    pub fn event_status(&self) -> Vec<TargetStatus> {
        let mut all: BTreeMap<String, TargetStatus> = BTreeMap::new();
        let (now, now_ms) = (Instant::now(), self.now_ms());
        for (name, progress) in &*self.inner.events.progress.lock() {
            let until = progress.paused(now);
            let status = TargetStatus {
                retry_ms: until.map(|until| now_ms + (until - now).as_millis() as u64),
                ..progress.status.clone()
            };
            all.insert(name.clone(), status);
        }
        let known = self.inner.events.targets.get().into_iter().flatten();
        for (name, target) in known {
            let status = all.entry(name.clone()).or_default();
            status.kind.clone_from(&target.limits.kind);
        }
        let news = self.cluster().companion_news();
        let status = all.into_iter().map(|(name, status)| TargetStatus {
            dropped: news.dropped(&event::group_of(&name)),
            name,
            ..status
        });
        status.collect()
    }
}

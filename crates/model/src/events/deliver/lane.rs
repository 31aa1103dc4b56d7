//! Lanes: targets whose events are delivered apart from those of others. So a target that needs
//! long holds up nothing but its own events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{Id, Stamp};
use archipel_cluster::CompanionNews;
use archipel_storage::RowKey;

use crate::Model;
use crate::bucket::Bucket;
use crate::owner::Owner;
use crate::rowkeys;

/// The time for which news is gathered before lanes hear of it.
const GATHERED: Duration = Duration::from_millis(100);

/// The targets of a lane.
pub(super) enum Targets {
    /// One that this node knows.
    One(String),
    /// All that this node does not know: all but these. An attempt to reach them takes no time.
    AllBut(BTreeSet<String>),
}

impl Targets {
    /// Returns true if a target is one of them.
    pub fn have(&self, name: &str) -> bool {
        match self {
            Targets::One(one) => one == name,
            Targets::AllBut(known) => !known.contains(name),
        }
    }
}

/// Some targets, and news of what may wait for them.
pub(super) struct Lane {
    pub targets: Arc<Targets>,
    pub news: CompanionNews,
}

impl Lane {
    fn of(targets: Targets) -> Lane {
        Lane {
            targets: Arc::new(targets),
            news: CompanionNews::default(),
        }
    }
}

impl Model {
    /// Returns a lane for each target that this node knows, and one for all others.
    pub(super) fn lanes(&self) -> Vec<Lane> {
        let known = self.inner.events.targets.get().into_iter().flatten();
        let known: BTreeSet<String> = known.map(|(name, _)| name.clone()).collect();
        let each = known.iter().cloned().map(Targets::One);
        let all = each.chain([Targets::AllBut(known.clone())]);
        all.map(Lane::of).collect()
    }

    /// Returns the names of those targets of a lane that this node knows or has met in events.
    pub(super) fn names_in(&self, lane: &Lane) -> Vec<String> {
        let all = self.event_status().into_iter().map(|status| status.name);
        all.filter(|name| lane.targets.have(name)).collect()
    }

    /// Tells lanes of news until it is dropped.
    pub(super) async fn share_news(&self, lanes: &[Lane]) {
        let news = self.cluster().companion_news();
        loop {
            news.wait().await;
            // Wait until other replicas have accepted the writes, too. A read before that would
            // bring them to the others without their events, and the writer would need one more
            // round.
            tokio::time::sleep(GATHERED).await;
            let buckets = self.buckets().unwrap_or_default().into_iter();
            let buckets = buckets.filter(|bucket| bucket.notification.is_some());
            let buckets: BTreeMap<Id, Arc<Bucket>> =
                buckets.map(|bucket| (bucket.id, bucket)).collect();
            for (partition, brought) in news.take() {
                if !self.cluster().is_first_live(partition) {
                    continue;
                }
                let Some(brought) = brought else {
                    lanes.iter().for_each(|lane| lane.news.unnamed(partition));
                    continue;
                };
                for (key, stamp) in brought {
                    let row = RowKey { partition, key };
                    let object = rowkeys::object_of_event(&row).unwrap_or(row);
                    let targets = targets_of(&buckets, &object);
                    // The stamp of one target's event says nothing about those of another one.
                    let stamp = if targets.len() == 1 {
                        stamp
                    } else {
                        Stamp::ZERO
                    };
                    for lane in concerned(lanes, &targets) {
                        lane.news.stored(object.clone(), stamp);
                    }
                }
            }
        }
    }
}

/// Returns the lanes for which an object may have events, if the rules about it name these targets.
/// These are more than the lanes of the events that came: the replica may have missed earlier ones
/// for another target.
fn concerned<'a>(lanes: &'a [Lane], targets: &BTreeSet<&str>) -> Vec<&'a Lane> {
    let is_concerned = |lane: &&Lane| {
        // Without rules, the event is of earlier ones, or of new ones that this node is to learn.
        targets.is_empty() || targets.iter().any(|target| lane.targets.have(target))
    };
    lanes.iter().filter(is_concerned).collect()
}

/// Returns the targets of the rules that are about an object.
fn targets_of<'a>(buckets: &'a BTreeMap<Id, Arc<Bucket>>, object: &RowKey) -> BTreeSet<&'a str> {
    let Some(Owner::Object { bucket, key }) = rowkeys::owner_of(&object.key) else {
        return BTreeSet::new();
    };
    let bucket = buckets.get(&bucket);
    let notification = bucket.and_then(|bucket| bucket.notification.as_ref());
    let rules = notification.into_iter().flat_map(|asked| &asked.rules);
    let rules = rules.filter(|rule| rule.is_about(&key));
    rules.map(|rule| rule.target.as_str()).collect()
}

//! The delivery of events.
//!
//! The first live replica of a partition looks at the events that it holds. For each object with
//! events it
//! 1. reads the object's row, so that a quorum holds the write that is read and no earlier one can
//!    take effect any more,
//! 2. lists the object's events at a quorum, so that it misses none of an earlier write,
//! 3. delivers them, in the order of their stamps, up to that write, and deletes each that its
//!    target has confirmed ([`object`]).
//!
//! The other replicas look at old events only: the first one may seem live and deliver nothing, with a
//! full disk for example.
//!
//! A crash between delivery and deletion delivers an event again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use archipel_base::{PartitionId, Stamp, boxed};
use archipel_cluster::Brought;
use archipel_storage::RowKey;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use crate::Model;
use crate::error::Error;
use crate::rowkeys;

mod object;
mod rows;

/// How often all partitions are looked at: another node may have failed, and rows may have come
/// from other replicas.
const SCAN_PERIOD: Duration = Duration::from_secs(10);
/// How often replicas that are not the first ones look at all partitions.
const OLD_SCAN_PERIOD: Duration = Duration::from_secs(60);
/// The age from which any replica delivers an event, in milliseconds.
const OLD_MS: u64 = 300_000;
/// The pause before events that could not be delivered are looked at again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long news is gathered before it is looked at.
const GATHERED: Duration = Duration::from_millis(100);
/// The number of partitions that are worked on at once.
const PARTITIONS: usize = 8;
/// The number of objects of a partition that are read from the disk at once.
const OBJECTS_READ: usize = 256;
/// The number of objects of a partition whose events are delivered at once.
const OBJECTS: usize = 16;

/// The targets that failed, and until when they are left alone.
type Pauses = BTreeMap<String, Instant>;

/// Objects' rows, each with the stamp from which on its events are looked at; `None` for all of them.
type Objects = Vec<(RowKey, Option<Stamp>)>;

/// What is to be looked at in a partition.
enum Due {
    /// All events.
    All,
    /// All events of objects with an old one. This is not the partition's first live replica.
    Old,
    /// The events of these objects.
    Objects(Objects),
}

/// What is known of the partitions whose first live replica is here. A partition that is not named
/// has to be looked at whole.
#[derive(Default)]
struct Known {
    /// Nothing waits but what came since.
    clear: BTreeSet<PartitionId>,
    /// Events wait, and are not looked at before this time.
    waiting: BTreeMap<PartitionId, Instant>,
}

impl Model {
    /// Delivers events until it is dropped. Run it in a task of its own.
    #[boxed]
    pub async fn deliver_events(&self) {
        let mut known = Known::default();
        let (mut scanned, mut scanned_old): (Option<Instant>, Option<Instant>) = (None, None);
        let mut due = BTreeMap::new();
        loop {
            let now = Instant::now();
            let is_over =
                |last: Option<Instant>, every| last.is_none_or(|last| now >= last + every);
            if is_over(scanned, SCAN_PERIOD) {
                scanned = Some(now);
                let with_old = is_over(scanned_old, OLD_SCAN_PERIOD);
                if with_old {
                    scanned_old = Some(now);
                }
                match self.scan(&known, with_old).await {
                    Ok(found) => due.extend(found),
                    Err(error) => tracing::warn!(%error, "events cannot be looked for"),
                }
            }
            let again = known.waiting.iter().filter(|(_, until)| **until <= now);
            due.extend(again.map(|(partition, _)| (*partition, Due::All)));
            self.deliver_in(due, &mut known).await;
            let next = known
                .waiting
                .values()
                .min()
                .map(|until| *until - Instant::now());
            let news = self.cluster().companion_news();
            let wait = next.unwrap_or(SCAN_PERIOD).min(SCAN_PERIOD);
            if tokio::time::timeout(wait, news.wait()).await.is_ok() {
                // Wait until other replicas have accepted the writes, too. A read before that would
                // bring them to the others without their events, and the writer would need one more
                // round.
                tokio::time::sleep(GATHERED).await;
            }
            let is_first = |partition: &PartitionId| self.cluster().is_first_live(*partition);
            known.clear.retain(is_first);
            known.waiting.retain(|partition, _| is_first(partition));
            let news = news.take().into_iter();
            due = news
                .map(|(partition, brought)| (partition, known.due(partition, brought)))
                .collect();
        }
    }

    /// Returns what is to be looked at because it may wait.
    async fn scan(
        &self,
        known: &Known,
        with_old: bool,
    ) -> Result<BTreeMap<PartitionId, Due>, Error> {
        self.count_backlog().await?;
        let now = Instant::now();
        let found = self.partitions_with_events().await?.into_iter();
        let due = found.filter_map(|partition| {
            let waits = known.waiting.get(&partition);
            match self.cluster().is_first_live(partition) {
                true if waits.is_some_and(|until| *until > now) => None,
                true => Some((partition, Due::All)),
                false => with_old.then_some((partition, Due::Old)),
            }
        });
        Ok(due.collect())
    }

    /// Delivers the events of these partitions.
    async fn deliver_in(&self, due: BTreeMap<PartitionId, Due>, known: &mut Known) {
        let mine = due.into_iter().filter(|(partition, due)| {
            matches!(due, Due::Old) || self.cluster().is_first_live(*partition)
        });
        let passes = mine.map(|(partition, due)| async move {
            let (kind, passed) = match due {
                Due::All => (Kind::All, self.deliver_partition(partition, u64::MAX).await),
                Due::Old => {
                    let before = self.now_ms().saturating_sub(OLD_MS);
                    let passed = self.deliver_partition(partition, before).await;
                    (Kind::Old, passed)
                }
                Due::Objects(objects) => {
                    let passed = self.deliver_named(partition, objects).await;
                    (Kind::Objects, passed)
                }
            };
            let passed = passed.unwrap_or_else(|error| {
                tracing::debug!(%error, %partition, "events wait");
                Pass::soon()
            });
            (partition, kind, passed)
        });
        let mut passes = stream::iter(passes).buffer_unordered(PARTITIONS);
        while let Some((partition, kind, passed)) = passes.next().await {
            known.note(partition, kind, &passed);
        }
    }

    /// Delivers the events of objects with one from before a time in milliseconds.
    async fn deliver_partition(
        &self,
        partition: PartitionId,
        before_ms: u64,
    ) -> Result<Pass, Error> {
        let mut pass = Pass::default();
        let mut after = None;
        loop {
            let pauses = self.pauses();
            let found = self.objects_with_events(partition, after, before_ms, pauses);
            let found = found.await?;
            pass.add(Pass { again: found.until });
            let is_full = found.objects.len() == OBJECTS_READ;
            let objects = found.objects.into_iter().map(|object| (object, None));
            pass.add(self.deliver_objects(objects.collect()).await);
            if !is_full {
                return Ok(pass);
            }
            after = found.last;
        }
    }

    /// Delivers the events of objects that news names.
    async fn deliver_named(&self, partition: PartitionId, objects: Objects) -> Result<Pass, Error> {
        let pauses = self.pauses();
        if pauses.is_empty() {
            return Ok(self.deliver_objects(objects).await);
        }
        let (objects, until) = self.without_paused(partition, objects, pauses).await?;
        let mut pass = Pass { again: until };
        pass.add(self.deliver_objects(objects).await);
        Ok(pass)
    }

    async fn deliver_objects(&self, objects: Objects) -> Pass {
        let objects = objects.into_iter();
        let deliveries =
            objects.map(|(object, from)| async move { self.deliver_object(&object, from).await });
        let mut done = stream::iter(deliveries).buffer_unordered(OBJECTS);
        let mut pass = Pass::default();
        while let Some(of_object) = done.next().await {
            pass.add(of_object.unwrap_or_else(|error| {
                tracing::debug!(%error, "the events of an object wait");
                Pass::soon()
            }));
        }
        pass
    }

    /// Returns the targets that are left alone now.
    fn pauses(&self) -> Pauses {
        let now = Instant::now();
        let all = self.0.events.progress.lock();
        let paused = all
            .iter()
            .filter_map(|(name, progress)| Some((name.clone(), progress.paused(now)?)));
        paused.collect()
    }
}

impl Known {
    /// Returns what is to be looked at because of news of a partition.
    fn due(&self, partition: PartitionId, brought: Brought) -> Due {
        let is_clear = self.clear.contains(&partition);
        let Some(brought) = brought.filter(|_| is_clear || self.waiting.contains_key(&partition))
        else {
            return Due::All;
        };
        let mut objects: BTreeMap<Bytes, Option<Stamp>> = BTreeMap::new();
        for (key, from) in brought {
            let row = RowKey { partition, key };
            let object = rowkeys::object_of_event(&row).unwrap_or(row);
            // Where something waits, the object may have earlier events.
            let from = is_clear.then_some(from);
            let lowest = objects.entry(object.key).or_insert(from);
            *lowest = from.min(*lowest);
        }
        let objects = objects.into_iter();
        Due::Objects(
            objects
                .map(|(key, from)| (RowKey { partition, key }, from))
                .collect(),
        )
    }

    /// Notes the result of a look.
    fn note(&mut self, partition: PartitionId, kind: Kind, passed: &Pass) {
        let before = match kind {
            Kind::Old => return,
            Kind::All => None,
            Kind::Objects => self.waiting.get(&partition).copied(),
        };
        self.waiting.remove(&partition);
        match sooner(before, passed.again) {
            None => {
                self.clear.insert(partition);
            }
            Some(again) => {
                self.clear.remove(&partition);
                self.waiting.insert(partition, again);
            }
        }
    }
}

/// What was looked at: see [`Due`].
enum Kind {
    All,
    Old,
    Objects,
}

/// The result of a look at some events.
#[derive(Default)]
struct Pass {
    /// When to look again; `None` if none of them waits any more.
    again: Option<Instant>,
}

impl Pass {
    fn until(again: Instant) -> Pass {
        Pass { again: Some(again) }
    }

    fn soon() -> Pass {
        Pass::until(Instant::now() + AGAIN)
    }

    fn add(&mut self, other: Pass) {
        self.again = sooner(self.again, other.again);
    }
}

fn sooner(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

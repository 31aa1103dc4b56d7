//! The delivery of events.
//!
//! The first live replica of a partition looks at the events that it holds. For each object with
//! events it
//! 1. reads the object's row, so that a quorum holds the write that is read and no earlier one can
//!    take effect any more,
//! 2. lists the object's events at a quorum, so that it misses none of an earlier write,
//! 3. delivers them, in the order of their stamps, up to that write, and deletes each that its
//!    target has confirmed.
//!
//! An attempt that took no effect may have left an event at some replicas: it was refused, and its
//! operation wrote again or gave up. So if the object's row is of another write by now, the replicas
//! tell whether a quorum accepted this one. If not, the event is deleted and never told. If they
//! have forgotten, it is told, because the write may have been acknowledged.
//!
//! A crash between delivery and deletion delivers an event again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use archipel_base::{Id, PartitionId, Stamp};
use archipel_cluster::register::intent::Fate;
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::RowKey;
use archipel_storage::engine::Durability;
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::event::Event;
use crate::Model;
use crate::error::Error;

mod rows;

/// How often all partitions are looked at: another node may have failed, and rows may have come
/// from other replicas.
const SWEEP: Duration = Duration::from_secs(10);
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
/// After this time, the fate of a write that nobody has completed is decided, in milliseconds.
const UNDECIDED_MS: u64 = 30_000;

/// The pauses of targets that failed.
type Pauses = BTreeMap<String, Instant>;

/// What is to be looked at in a partition.
enum Due {
    /// All events.
    All,
    /// The events of these objects, from these stamps on: nothing else waits.
    Objects(BTreeMap<Bytes, Stamp>),
}

impl Model {
    /// Delivers events until it is dropped. Run it in a task of its own.
    pub async fn deliver_events(&self) {
        let mut due = BTreeMap::new();
        let mut pauses = Pauses::new();
        let mut swept: Option<Instant> = None;
        // Partitions of which this node has delivered everything since it became their first live
        // replica. So what came since then is all that waits.
        let mut clear = BTreeSet::new();
        loop {
            let now = Instant::now();
            if swept.is_none_or(|swept| now >= swept + SWEEP) {
                swept = Some(now);
                match self.partitions_with_events().await {
                    Ok(found) => due.extend(found.into_iter().map(|one| (one, Due::All))),
                    Err(error) => tracing::warn!(%error, "events cannot be looked for"),
                }
            }
            pauses.retain(|_, until| *until > now);
            let left = self.deliver_in(due, &mut clear, &mut pauses).await;
            due = left.into_iter().map(|one| (one, Due::All)).collect();
            if !pauses.is_empty() {
                // Each look passes over all events of targets that are left alone.
                tokio::time::sleep(AGAIN).await;
            }
            let wait = if due.is_empty() { SWEEP } else { AGAIN };
            let news = self.cluster().companion_news();
            if tokio::time::timeout(wait, news.wait()).await.is_ok() {
                // Other replicas accept the writes meanwhile. Reads that find them at a minority
                // would bring them to others.
                tokio::time::sleep(GATHERED).await;
            }
            clear.retain(|partition| self.cluster().is_first_live(*partition));
            for (partition, brought) in news.take() {
                let is_clear = clear.contains(&partition) && !due.contains_key(&partition);
                let brought = brought.filter(|_| is_clear);
                due.insert(partition, brought.map_or(Due::All, Due::Objects));
            }
        }
    }

    /// Delivers the events of these partitions. Returns those in which some wait.
    async fn deliver_in(
        &self,
        due: BTreeMap<PartitionId, Due>,
        clear: &mut BTreeSet<PartitionId>,
        pauses: &mut Pauses,
    ) -> BTreeSet<PartitionId> {
        let mine = due.into_iter();
        let mine = mine.filter(|(partition, _)| self.cluster().is_first_live(*partition));
        let paused = &pauses.clone();
        let passes = mine.map(|(partition, due)| async move {
            let passed = match due {
                Due::All => self.deliver_partition(partition, paused).await,
                Due::Objects(objects) => {
                    let objects = objects.into_iter().map(|(key, from)| {
                        let row = RowKey { partition, key };
                        (row, Some(from))
                    });
                    Ok(self.deliver_objects(objects.collect(), paused).await)
                }
            };
            (partition, passed)
        });
        let mut passes = stream::iter(passes).buffer_unordered(PARTITIONS);
        let mut left = BTreeSet::new();
        while let Some((partition, passed)) = passes.next().await {
            let is_whole = match passed {
                Ok(pass) => {
                    pauses.extend(pass.pauses);
                    pass.is_whole
                }
                Err(error) => {
                    tracing::debug!(%error, %partition, "events wait");
                    false
                }
            };
            match is_whole {
                true => clear.insert(partition),
                false => clear.remove(&partition) | left.insert(partition),
            };
        }
        if let Err(error) = self.count_backlog().await {
            tracing::debug!(%error, "the events that wait cannot be counted");
        }
        left
    }

    async fn deliver_partition(
        &self,
        partition: PartitionId,
        pauses: &Pauses,
    ) -> Result<Pass, Error> {
        let mut pass = Pass::default();
        let mut pauses = pauses.clone();
        let mut after = None;
        loop {
            let found = self.objects_with_events(partition, after, &pauses);
            let found = found.await?;
            pass.is_whole &= !found.passes_over;
            let is_full = found.objects.len() == OBJECTS_READ;
            let objects = found.objects.into_iter().map(|object| (object, None));
            pass.add(self.deliver_objects(objects.collect(), &pauses).await);
            if !is_full {
                return Ok(pass);
            }
            pauses.extend(pass.pauses.clone());
            after = found.last;
        }
    }

    /// Delivers the events of these objects, from these stamps on.
    async fn deliver_objects(
        &self,
        objects: Vec<(RowKey, Option<Stamp>)>,
        pauses: &Pauses,
    ) -> Pass {
        let objects = objects.into_iter();
        let deliveries = objects.map(|(object, from)| async move {
            let delivered = self.deliver_object(&object, from, pauses);
            delivered.await
        });
        let mut done = stream::iter(deliveries).buffer_unordered(OBJECTS);
        let mut pass = Pass::default();
        while let Some(of_object) = done.next().await {
            match of_object {
                Ok(of_object) => pass.add(of_object),
                Err(error) => {
                    tracing::debug!(%error, "the events of an object wait");
                    pass.is_whole = false;
                }
            }
        }
        pass
    }

    /// Delivers the events of one object, from a stamp on.
    async fn deliver_object(
        &self,
        object: &RowKey,
        from: Option<Stamp>,
        pauses: &Pauses,
    ) -> Result<Pass, Error> {
        let reached = self.cluster().head_stamped(object).await?;
        let reached = &(reached.stamp, reached.write);
        let mut by_target: BTreeMap<String, Vec<Event>> = BTreeMap::new();
        for event in self.events_at_quorum(object, from).await? {
            let of_target = by_target.entry(event.target.clone()).or_default();
            of_target.push(event);
        }
        let deliveries = by_target
            .into_iter()
            .map(|(target, mut events)| async move {
                events.sort_unstable_by_key(|event| event.bringer.stamp);
                let paused = pauses.contains_key(&target);
                match paused {
                    true => Ok(Pass::incomplete()),
                    false => self.deliver_to(&target, object, events, reached).await,
                }
            });
        let mut pass = Pass::default();
        for done in join_all(deliveries).await {
            pass.add(done?);
        }
        Ok(pass)
    }

    /// Delivers events of one object to one target, one after another. `reached` is the stamp and
    /// the write of the object's row.
    async fn deliver_to(
        &self,
        target: &str,
        object: &RowKey,
        events: Vec<Event>,
        reached: &(Stamp, Id),
    ) -> Result<Pass, Error> {
        for event in events {
            if event.bringer.stamp > reached.0 {
                self.pass_over(object, &event).await?;
                return Ok(Pass::incomplete());
            }
            if !self.took_effect(object, &event, reached).await? {
                self.forget(&event).await?;
                continue;
            }
            let targets = self.0.events.targets.get();
            let known = targets.and_then(|targets| targets.get(target));
            let delivered = match known {
                Some(known) => known.deliver.deliver(&event).await,
                None => Err("no target of this name is declared on this node".into()),
            };
            if let Some(pause) = self.note(target, delivered) {
                let mut pass = Pass::incomplete();
                pass.pauses
                    .insert(target.to_owned(), Instant::now() + pause);
                return Ok(pass);
            }
            self.forget(&event).await?;
        }
        Ok(Pass::default())
    }

    fn note(&self, target: &str, delivered: Result<(), String>) -> Option<Duration> {
        let mut all = self.0.events.progress.lock();
        let progress = all.entry(target.to_owned()).or_default();
        progress.status.name = target.to_owned();
        match delivered {
            Ok(()) => {
                progress.delivered();
                None
            }
            Err(why) => Some(progress.failed(why)),
        }
    }

    /// Deletes an event.
    async fn forget(&self, event: &Event) -> Result<(), Error> {
        let how = WriteOptions {
            background: true,
            frees: true,
            // If it comes back after a power cut, it is delivered again.
            ..WriteOptions::durable(Durability::Buffered)
        };
        self.cluster().write(&event.row, None, how).await?;
        Ok(())
    }

    /// Returns false if the write of an event never took effect and never will. `reached` is the
    /// stamp and the write of the object's row.
    async fn took_effect(
        &self,
        object: &RowKey,
        event: &Event,
        (reached, write): &(Stamp, Id),
    ) -> Result<bool, Error> {
        if event.bringer.write == *write {
            return Ok(true);
        }
        let fate = self
            .cluster()
            .fate_of_bringer(object, &event.bringer, *reached);
        Ok(fate.await? != Fate::Never)
    }

    /// Writes the object's row again under a newer stamp than that of an event. So what only a
    /// minority holds becomes the value, or can never become it. A write that may still be in
    /// progress gets time first.
    async fn pass_over(&self, object: &RowKey, event: &Event) -> Result<(), Error> {
        let stamp = event.bringer.stamp;
        if self.now_ms() < stamp.millis() + UNDECIDED_MS {
            return Ok(());
        }
        let how = WriteOptions {
            background: true,
            frees: true,
            ..WriteOptions::durable(Durability::Fsync)
        };
        let decide = |current: archipel_cluster::Current<'_>| match current.stamp >= stamp {
            true => Decision::Abort(()),
            false => Decision::Write(current.value.cloned()),
        };
        // Both decisions are what was wanted: the row has a newer stamp.
        let _: Result<(), ()> = self.cluster().update_stamped(object, how, decide).await?;
        Ok(())
    }
}

/// The result of a look at some events.
struct Pass {
    /// True if none of them waits any more.
    is_whole: bool,
    /// The targets that failed, and until when they are left alone.
    pauses: Pauses,
}

impl Default for Pass {
    fn default() -> Pass {
        Pass {
            is_whole: true,
            pauses: Pauses::new(),
        }
    }
}

impl Pass {
    fn add(&mut self, other: Pass) {
        self.is_whole &= other.is_whole;
        self.pauses.extend(other.pauses);
    }

    fn incomplete() -> Pass {
        Pass {
            is_whole: false,
            ..Pass::default()
        }
    }
}

//! The delivery of one object's events.
//!
//! An attempt that took no effect may have left an event at some replicas: it was refused, and its
//! operation wrote again or gave up. So if the object's row is of another write by now, the
//! replicas tell whether a quorum accepted this one. If not, the event is deleted and never told.
//! If they have forgotten, it is told, because the write may have been acknowledged. If they
//! accepted it under another stamp, the write is told in the place of that stamp, by the event of
//! that stamp if there is one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use archipel_base::{Id, Stamp};
use archipel_cluster::{Current, Decision, PastFate, State, WriteOptions};
use archipel_storage::RowKey;
use archipel_storage::engine::Durability;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::Pauses;
use super::due::Pass;
use super::lane::{Lane, Targets};
use crate::Model;
use crate::error::Error;
use crate::events::event::{Event, Waiting};
use crate::events::targets::LONGEST_PAUSE;

/// After this time, the fate of a write that nobody has completed is decided, and replicas that do
/// not answer are not waited for, in milliseconds.
const UNDECIDED_MS: u64 = 30_000;

/// The time that replicas get until then, once a quorum has told what it knows.
const LATE: Duration = Duration::from_secs(1);

/// The most targets whose state is kept, of those that nobody declared. Owners of buckets may name
/// any.
const MOST_NAMES: usize = 100;

/// The fate of the events of a write.
enum Telling {
    /// The write took effect, or nobody knows any more. It has the place of this stamp.
    Tell(Stamp),
    /// The write never took effect and never will.
    Forget,
    /// It is not known yet whether the write took effect.
    Wait,
}

impl Model {
    /// Delivers the events of one object for the targets of a lane, until the end of its turn. If
    /// nothing waited before the news of an event, `news` is its stamp. Then those below the last
    /// one that was deleted here are passed over. Targets in `pauses` are left alone.
    pub(super) async fn deliver_object(
        &self,
        lane: &Lane,
        object: &RowKey,
        news: Option<Stamp>,
        pauses: Pauses,
        end: Instant,
    ) -> Result<Pass, Error> {
        if let (Targets::One(_), Some(until)) = (&*lane.targets, pauses.values().next()) {
            return Ok(Pass::passing_over(object, *until));
        }
        let from = match news {
            Some(news) => self.last_deleted(object, news).await?,
            None => None,
        };
        let reached = self.cluster().head_stamped(object).await?;
        let reached = &(reached.stamp, reached.write);
        let mut by_target: BTreeMap<String, Vec<Waiting>> = BTreeMap::new();
        for event in self.events_at_quorum(lane, object, from).await? {
            let of_target = by_target.entry(event.target.clone()).or_default();
            of_target.push(event);
        }
        let mut pass = Pass::default();
        by_target.retain(|target, _| match pauses.get(target) {
            Some(until) => {
                pass.add(Pass::passing_over(object, *until));
                false
            }
            None => true,
        });
        let deliveries = by_target.into_iter().map(|(target, events)| async move {
            let events = (events, end);
            self.deliver_to(&target, object, events, reached).await
        });
        for done in join_all(deliveries).await {
            pass.add(done?);
        }
        Ok(pass)
    }

    /// Delivers events of one object to one target, one after another, until the end of the turn
    /// but at least one. `reached` is the stamp and the write of the object's row.
    async fn deliver_to(
        &self,
        target: &str,
        object: &RowKey,
        (events, end): (Vec<Waiting>, Instant),
        reached: &(Stamp, Id),
    ) -> Result<Pass, Error> {
        let (past, to_come) = split(by_write(events), reached.0);
        let mut past: VecDeque<_> = past.into_iter().map(|a| (last_stamp(&a), a)).collect();
        let (mut is_first, mut has_tried) = (true, false);
        while let Some((place, attempts)) = past.pop_front() {
            if !std::mem::take(&mut is_first) && Instant::now() >= end {
                return Ok(Pass::cut(object));
            }
            // A write is told once, in the place of the stamp under which it took effect.
            let Some(last) = attempts.last() else {
                continue;
            };
            // The first one is tried also if another object's event failed meanwhile: see
            // `deliver_objects`.
            if has_tried && let Some(until) = self.paused(target) {
                return Ok(Pass::until(until));
            }
            match self.telling(object, &attempts, reached).await? {
                Telling::Wait => return Ok(Pass::soon()),
                Telling::Tell(at) => {
                    let is_before = |(other, _): &(Option<Stamp>, _)| *other < Some(at);
                    if place < Some(at) && past.front().is_some_and(is_before) {
                        let behind = past.partition_point(is_before);
                        past.insert(behind, (Some(at), attempts));
                        is_first = true;
                        continue;
                    }
                    let own = attempts.iter().find(|event| event.bringer.stamp == at);
                    let event = own.unwrap_or(last).event_under(at);
                    has_tried = true;
                    if let Err(until) = self.tell(target, &event).await {
                        return Ok(Pass::until(until));
                    }
                    if own.is_none() {
                        // The coordinator may be about to bring the event under that stamp, too.
                        self.forget(&last.row_under(at)).await?;
                    }
                }
                Telling::Forget => {}
            }
            for attempt in &attempts {
                self.forget(&attempt.row).await?;
            }
        }
        match to_come.first().and_then(|attempts| attempts.last()) {
            None => Ok(Pass::default()),
            Some(event) => {
                self.pass_over(object, event).await?;
                Ok(Pass::soon())
            }
        }
    }

    /// Delivers an event to its target.
    ///
    /// # Errors
    /// The time until which the target is left alone.
    async fn tell(&self, target: &str, event: &Event) -> Result<(), Instant> {
        let targets = self.inner.events.targets.get();
        let known = targets.and_then(|targets| targets.get(target));
        let delivered = match known {
            Some(known) => known.deliver.deliver(event).await,
            None => Err("no target of this name is declared on this node".into()),
        };
        let mut all = self.inner.events.progress.lock();
        if known.is_none() && !all.contains_key(target) && all.len() >= MOST_NAMES {
            return Err(Instant::now() + LONGEST_PAUSE);
        }
        let progress = all.entry(target.to_owned()).or_default();
        progress.status.name = target.to_owned();
        delivered
            .map(|()| progress.delivered())
            .map_err(|why| progress.failed(why, Instant::now()))
    }

    /// Returns until when a target is left alone.
    fn paused(&self, target: &str) -> Option<Instant> {
        let all = self.inner.events.progress.lock();
        all.get(target)?.paused(Instant::now())
    }

    /// Deletes the event of a row, also if it comes only later.
    async fn forget(&self, row: &RowKey) -> Result<(), Error> {
        let how = WriteOptions {
            background: true,
            frees: true,
            // If it comes back after a power cut, it is delivered again.
            ..WriteOptions::durable(Durability::Buffered)
        };
        Ok(self.cluster().delete_companion(row, how).await?)
    }

    /// Says what to do with the events of a write. They belong to its attempts, in the order of
    /// their stamps. `reached` is the stamp and the write of the object's row.
    async fn telling(
        &self,
        object: &RowKey,
        attempts: &[Waiting],
        (reached, write): &(Stamp, Id),
    ) -> Result<Telling, Error> {
        let (Some(first), Some(last)) = (attempts.first(), attempts.last()) else {
            return Ok(Telling::Forget);
        };
        let under = last.bringer.stamp;
        let is_newest = last.bringer.write == *write;
        if is_newest && under == *reached {
            return Ok(Telling::Tell(under));
        }
        let cluster = self.cluster();
        // A new event is looked at again soon. It must not hold up the lane until a replica that
        // hangs fails.
        let is_new = self.is_new(under);
        let late = is_new.then_some(LATE);
        // Asked since the first attempt, the replicas tell of all of them.
        let asked = cluster.fate_of_bringer(object, &first.bringer, *reached, late);
        let (fate, have_all_told) = asked.await?;
        let mut held = match &fate {
            PastFate::Chosen(held) => held.clone(),
            PastFate::Never | PastFate::Unknown => BTreeSet::new(),
        };
        held.extend(is_newest.then_some(*reached));
        if !held.is_empty() {
            return self.telling_of_held(attempts, held, *reached).await;
        }
        Ok(match fate {
            PastFate::Never if !self.lives(object, last).await? => Telling::Forget,
            PastFate::Unknown if is_new && !have_all_told => Telling::Wait,
            _ => Telling::Tell(under),
        })
    }

    /// Says what to do with the events of a write that took effect under these stamps. Such a stamp
    /// without an event among those found is of an attempt with an event of its own, or of another
    /// coordinator that wrote the value on.
    async fn telling_of_held(
        &self,
        attempts: &[Waiting],
        held: BTreeSet<Stamp>,
        reached: Stamp,
    ) -> Result<Telling, Error> {
        let is_found = |at: &Stamp| attempts.iter().any(|event| event.bringer.stamp == *at);
        let (found, others): (BTreeSet<_>, BTreeSet<_>) = held.into_iter().partition(is_found);
        let Some(last) = attempts.last() else {
            return Ok(Telling::Forget);
        };
        let mut waits = false;
        for at in &others {
            let event = self.cluster().find_companion(&last.row_under(*at)).await?;
            match event {
                // It was told already.
                Some(State::Tombstone) => return Ok(Telling::Forget),
                // Other writes may come before it. The next look sees them. Nothing is deleted
                // untold here: a tombstone under a stamp that was held says that the write was
                // told.
                _ if *at > reached => waits = true,
                // This look missed the event, and the next one will not.
                Some(State::Live) | None => waits |= self.is_new(*at),
                Some(State::Absent) => {}
            }
        }
        Ok(match (found.first(), others.first()) {
            (Some(at), _) => Telling::Tell(*at),
            (None, Some(at)) if !waits => Telling::Tell(*at),
            _ => Telling::Wait,
        })
    }

    /// Returns true if a write under this stamp gets time still.
    fn is_new(&self, stamp: Stamp) -> bool {
        self.now_ms() < stamp.millis() + UNDECIDED_MS
    }

    /// Returns true if the version that an event's write made lives. A reader may have brought it
    /// to life although no quorum accepted the write.
    async fn lives(&self, object: &RowKey, event: &Waiting) -> Result<bool, Error> {
        if event.made.is_none() {
            return Ok(false);
        }
        let version = self.cluster().version_of(object, event.made).await?;
        Ok(version.is_some())
    }

    /// Writes the object's row again under a newer stamp than that of an event. So what only a
    /// minority holds becomes the value, or can never become it. A write that may still be in
    /// progress gets time first.
    async fn pass_over(&self, object: &RowKey, event: &Waiting) -> Result<(), Error> {
        let stamp = event.bringer.stamp;
        if self.is_new(stamp) {
            return Ok(());
        }
        let how = WriteOptions {
            background: true,
            frees: true,
            ..WriteOptions::durable(Durability::Fsync)
        };
        let decide = |current: Current<'_>| match current.stamp >= stamp {
            true => Decision::Abort(()),
            false => Decision::Write(current.value.cloned()),
        };
        // Both decisions are what was wanted: the row has a newer stamp.
        let _: Result<(), ()> = self.cluster().update_stamped(object, how, decide).await?;
        Ok(())
    }
}

/// Returns events by the write that they tell of, each with its attempts in the order of their
/// stamps. Writes are in the order of their last attempts.
fn by_write(events: Vec<Waiting>) -> Vec<Vec<Waiting>> {
    let mut writes: BTreeMap<Id, Vec<Waiting>> = BTreeMap::new();
    for event in events {
        writes.entry(event.bringer.write).or_default().push(event);
    }
    let mut writes: Vec<_> = writes.into_values().collect();
    for attempts in &mut writes {
        attempts.sort_unstable_by_key(|event| event.bringer.stamp);
    }
    writes.sort_by_key(|attempts| last_stamp(attempts));
    writes
}

/// Returns the writes that can be told now, and those whose last attempt may still take effect.
/// They are told later, so that each is told once.
fn split(writes: Vec<Vec<Waiting>>, reached: Stamp) -> (Vec<Vec<Waiting>>, Vec<Vec<Waiting>>) {
    let is_past = |attempts: &Vec<Waiting>| last_stamp(attempts) <= Some(reached);
    writes.into_iter().partition(is_past)
}

fn last_stamp(attempts: &[Waiting]) -> Option<Stamp> {
    attempts.last().map(|event| event.bringer.stamp)
}

#[cfg(test)]
mod tests {
    use archipel_base::{PartitionId, Writer};
    use archipel_cluster::Bringer;
    use archipel_storage::RowMetadata;

    use super::*;
    use crate::events::Event;

    fn event(write: u8, millis: u64) -> Waiting {
        let row = RowMetadata {
            stamp: Stamp::new(millis, 0, Writer(1)),
            write: Id([write; 16]),
            metadata: Some([0; 8].to_vec().into()),
            ..RowMetadata::default()
        };
        let (bringer, _) = Bringer::of(&row).unwrap();
        Waiting {
            target: String::new(),
            event: Event::default(),
            row: RowKey {
                partition: PartitionId(0),
                key: Vec::new().into(),
            },
            made: None,
            bringer,
        }
    }

    fn millis(writes: &[Vec<Waiting>]) -> Vec<Vec<u64>> {
        let of = |attempts: &Vec<Waiting>| {
            let stamps = attempts.iter().map(|event| event.bringer.stamp.millis());
            stamps.collect()
        };
        writes.iter().map(of).collect()
    }

    #[test]
    fn write_has_the_place_of_its_last_attempt() {
        // Another write took effect between the two attempts of the first one.
        let events = [(1, 10), (2, 12), (1, 15), (3, 11)];
        let events = events.map(|(write, millis)| event(write, millis));
        let writes = by_write(events.to_vec());
        assert_eq!(millis(&writes), [vec![11], vec![12], vec![10, 15]]);
        // A write is told only once none of its attempts can take effect any more.
        let (past, to_come) = split(writes, event(1, 12).bringer.stamp);
        assert_eq!(millis(&past), [[11], [12]]);
        assert_eq!(millis(&to_come), [[10, 15]]);
    }
}

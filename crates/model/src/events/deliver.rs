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
//! The other replicas look at old events only: the first one may seem live and deliver nothing,
//! with a full disk for example.
//!
//! Each target has a [`lane`] of its own, in which all this happens. Within a lane, work is cut
//! into turns: an object with many events, and a partition with many objects, let others go on
//! after a while. So what came last never waits for all that came before.
//!
//! A failure pauses the whole target: it may be down, and the answers of its kinds do not tell
//! whether it would take other events. Events that it refuses must not hold up those that it takes.
//! So after a pause, each partition goes on behind the objects that had their turn, and partitions
//! that had none come first.
//!
//! A crash between delivery and deletion delivers an event again.

use std::collections::BTreeMap;
use std::iter;
use std::time::Duration;

use archipel_base::{PartitionId, Stamp, boxed};
use archipel_storage::RowKey;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use self::due::{Done, Due, Known, Objects, Pass, Walk, Work, add};
use self::lane::{Lane, Targets};
use crate::Model;
use crate::error::Error;
use crate::rowkeys;

mod due;
mod lane;
mod object;
mod rows;

/// The interval at which all partitions are looked at: another node may have failed, and rows may
/// have come from other replicas.
const SCAN_PERIOD: Duration = Duration::from_secs(10);
/// The interval at which replicas that are not the first ones look at all partitions.
const OLD_SCAN_PERIOD: Duration = Duration::from_secs(60);
/// The age from which any replica delivers an event, in milliseconds.
const OLD_MS: u64 = 300_000;
/// The pause before events that could not be delivered are looked at again.
const AGAIN: Duration = Duration::from_secs(1);
/// The time after which the events of an object, and a walk, let others go on. A delivery that has
/// begun comes to its end.
const TURN: Duration = Duration::from_secs(2);
/// The number of partitions of a lane that are worked on at once.
const PARTITIONS: usize = 8;
/// The number of objects of a partition that are read from the disk at once.
const OBJECTS_READ: usize = 256;
/// The number of objects of a partition whose events are delivered at once.
const OBJECTS: usize = 16;
/// The number of objects after which a walk begins again: while new ones come before its end, it
/// would never look again at those behind it.
const WALKED: usize = 10_000;

/// The targets that failed, and until when they are left alone.
type Pauses = BTreeMap<String, Instant>;

impl Model {
    /// Delivers events until it is dropped. Run it in a task of its own, once the targets are set.
    #[boxed]
    pub async fn deliver_events(&self) {
        let lanes = self.lanes();
        let deliveries = join_all(lanes.iter().map(|lane| self.deliver_lane(lane)));
        tokio::join!(self.share_news(&lanes), deliveries);
    }

    /// Delivers the events of a lane until it is dropped.
    async fn deliver_lane(&self, lane: &Lane) {
        let mut known = Known::default();
        let (mut scanned, mut scanned_old): (Option<Instant>, Option<Instant>) = (None, None);
        let mut work = Work::new();
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
                let scan = self.scan(lane, &known, with_old, &mut work).await;
                if let Err(error) = scan {
                    tracing::warn!(%error, "events cannot be looked for");
                }
            }
            for partition in known.waited(now) {
                let due = known.walk(partition, Walk::over_all());
                add(&mut work, partition, due);
            }
            work = self.do_some(lane, work, &mut known).await;
            if work.is_empty() {
                let next = known.next().map(|until| until - Instant::now());
                let wait = next.unwrap_or(SCAN_PERIOD).min(SCAN_PERIOD);
                // Also if no news came in time: the loop looks at all that is due.
                let _ = tokio::time::timeout(wait, lane.news.wait()).await;
            }
            known.retain(|partition| self.cluster().is_first_live(*partition));
            for (partition, brought) in lane.news.take() {
                add(&mut work, partition, known.due(partition, brought));
            }
        }
    }

    /// Adds to the work what may wait.
    async fn scan(
        &self,
        lane: &Lane,
        known: &Known,
        with_old: bool,
        work: &mut Work,
    ) -> Result<(), Error> {
        self.count_backlog(lane).await?;
        let now = Instant::now();
        let old = || Walk::over_old(self.now_ms().saturating_sub(OLD_MS));
        for partition in self.partitions_with_events(lane).await? {
            let walk = match self.cluster().is_first_live(partition) {
                true => (!known.waits(partition, now)).then(Walk::over_all),
                false => with_old.then(old),
            };
            if let Some(walk) = walk {
                add(work, partition, known.walk(partition, walk));
            }
        }
        Ok(())
    }

    /// Does a turn of the work. Returns what is left.
    async fn do_some(&self, lane: &Lane, work: Work, known: &mut Known) -> Work {
        let end = Instant::now() + TURN;
        let is_mine = |(partition, due): &(PartitionId, Due)| {
            due.walk.as_ref().is_some_and(Walk::is_old) || self.cluster().is_first_live(*partition)
        };
        let mut work: Vec<(PartitionId, Due)> = work.into_iter().filter(is_mine).collect();
        // Those for which the time did not suffice, or which a pause kept from their turn, come
        // first.
        work.sort_by_key(|(_, due)| due.since);
        let turns = work.into_iter().map(|(partition, due)| async move {
            let done = self.deliver_partition(lane, partition, due, end).await;
            (partition, done)
        });
        let mut turns = stream::iter(turns).buffer_unordered(PARTITIONS);
        let mut left = Work::new();
        while let Some((partition, done)) = turns.next().await {
            if let Some(due) = known.note(partition, done) {
                left.insert(partition, due);
            }
        }
        left
    }

    /// Delivers the events of all named objects of a partition, and then those of a part of the
    /// walk. After the end of the turn, no walk goes on.
    async fn deliver_partition(
        &self,
        lane: &Lane,
        partition: PartitionId,
        due: Due,
        end: Instant,
    ) -> Done {
        let later = |error| {
            tracing::debug!(%error, %partition, "events wait");
            Pass::soon()
        };
        // Decided first: named objects may take long in each turn, and may fail.
        let (goes_on, pauses) = (Instant::now() < end, self.pauses(&lane.targets));
        let old = due.walk.as_ref().filter(|walk| walk.is_old());
        let old = old.map(|walk| walk.before_ms);
        let mut pass = Pass::default();
        if !due.objects.is_empty() {
            let named = self.deliver_named(lane, partition, due.objects, &pauses);
            pass.add(named.await.unwrap_or_else(later));
        }
        let (mut walk, mut ended, mut has_begun) = (due.walk, None, false);
        if let Some(on) = walk.take_if(|_| goes_on) {
            has_begun = on.begun == 0;
            match self.walk_events(lane, partition, on, pauses).await {
                Ok((walked, mut on, is_over)) => {
                    on.note(&walked);
                    pass.add(walked);
                    match is_over {
                        true => ended = Some(on),
                        false => walk = Some(on),
                    }
                }
                Err(error) => pass.add(later(error)),
            }
        }
        if !pass.cut.is_empty() {
            // News names no objects with old events.
            walk = walk.or(old.map(Walk::over_old));
        }
        Done {
            has_begun,
            was_old: old.is_some(),
            ended,
            since: due.since,
            again: pass.again,
            left: Due {
                since: if goes_on { Instant::now() } else { due.since },
                walk,
                objects: pass.cut,
            },
        }
    }

    /// Delivers the events of the next objects of a walk. Returns the walk, and whether it is over.
    async fn walk_events(
        &self,
        lane: &Lane,
        partition: PartitionId,
        mut walk: Walk,
        mut pauses: Pauses,
    ) -> Result<(Pass, Walk, bool), Error> {
        let end = Instant::now() + TURN;
        let mut pass = Pass::default();
        walk.had_turn |= pauses.is_empty();
        loop {
            let found = self.objects_with_events(lane, partition, &walk, pauses.clone());
            let found = found.await?;
            pass.add(Pass {
                again: found.until,
                passed_over: found.passed_over,
                ..Pass::default()
            });
            let (read, mut is_first) = (found.objects.len(), true);
            let mut objects = found.objects.into_iter();
            let begun = iter::from_fn(|| {
                let goes_on = std::mem::take(&mut is_first) || Instant::now() < end;
                let object = goes_on.then(|| objects.next()).flatten()?;
                Some((object, None))
            });
            pass.add(self.deliver_objects(lane, begun, &pauses).await);
            walk.begun += read - objects.len();
            walk.after = match objects.next() {
                Some(next) => rowkeys::events_prefix(&next),
                None if read < OBJECTS_READ => {
                    if walk.is_part && pass.again.is_none() {
                        // The objects before the first one of this walk are next.
                        pass.add(Pass::until(Instant::now()));
                    }
                    return Ok((pass, walk, true));
                }
                None => found.last,
            };
            if walk.begun >= WALKED {
                pass.add(Pass::until(Instant::now()));
                return Ok((pass, walk, true));
            }
            if Instant::now() >= end {
                return Ok((pass, walk, false));
            }
            pauses = self.pauses(&lane.targets);
        }
    }

    /// Delivers the events of objects that news names, or that were cut.
    async fn deliver_named(
        &self,
        lane: &Lane,
        partition: PartitionId,
        objects: Objects,
        pauses: &Pauses,
    ) -> Result<Pass, Error> {
        if pauses.is_empty() {
            let objects = objects.into_iter();
            return Ok(self.deliver_objects(lane, objects, pauses).await);
        }
        let ready = self.without_paused(lane, partition, objects, pauses.clone());
        let (objects, until) = ready.await?;
        let objects = objects.into_iter();
        let mut pass = self.deliver_objects(lane, objects, pauses).await;
        if let Some(until) = until {
            pass.add(Pass::until(until));
        }
        Ok(pass)
    }

    /// Delivers the events of objects. Those that begin at once go by these pauses, and the others
    /// look at the pauses when they begin. So an object that takes longer to read than another one
    /// to fail has its turn, too, and no more are tried after a failure than begin at once.
    async fn deliver_objects(
        &self,
        lane: &Lane,
        objects: impl Iterator<Item = (RowKey, Option<Stamp>)> + Send,
        pauses: &Pauses,
    ) -> Pass {
        let deliveries = objects.enumerate().map(|(n, (object, from))| async move {
            let end = Instant::now() + TURN;
            let pauses = match n < OBJECTS {
                true => pauses.clone(),
                false => self.pauses(&lane.targets),
            };
            self.deliver_object(lane, &object, from, pauses, end).await
        });
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

    /// Returns those of the targets that are left alone now.
    fn pauses(&self, targets: &Targets) -> Pauses {
        let now = Instant::now();
        let all = self.inner.events.progress.lock();
        let of_lane = all.iter().filter(|(name, _)| targets.have(name));
        let paused =
            of_lane.filter_map(|(name, progress)| Some((name.clone(), progress.paused(now)?)));
        paused.collect()
    }
}

//! Finds the events that wait: in this node's store, and as a quorum holds them.

use std::ops::Bound;

use archipel_base::{PartitionId, Stamp};
use archipel_cluster::{Bringer, ListEntry, ListQuery, ListStart, Listing};
use archipel_storage::engine::Flow;
use archipel_storage::{RowKey, RowMetadata, RowReader};
use bytes::Bytes;
use tokio::time::Instant;

use super::due::{Objects, Walk, sooner};
use super::lane::Lane;
use super::{OBJECTS_READ, Pauses};
use crate::Model;
use crate::error::Error;
use crate::events::event::{Waiting, group_of};
use crate::rowkeys;

/// Objects with events in one partition.
#[derive(Default)]
pub(super) struct Found {
    pub objects: Vec<RowKey>,
    /// When the first target of those that are left alone may be tried again, if there are events
    /// for such targets.
    pub until: Option<Instant>,
    /// The first object with such events.
    pub passed_over: Option<RowKey>,
    /// The last row that was looked at.
    pub last: Option<Bytes>,
}

impl Model {
    /// Returns the partitions of this node in which events wait for targets of a lane that it knows
    /// or has met.
    pub(super) async fn partitions_with_events(
        &self,
        lane: &Lane,
    ) -> Result<Vec<PartitionId>, Error> {
        let local = self.cluster().local_partitions(None);
        let names = self.names_in(lane);
        let groups: Vec<_> = names.iter().map(|name| group_of(name)).collect();
        let look = move |rows: &RowReader<'_>| {
            let mut found = Vec::new();
            for partition in local {
                let mut waits = false;
                for group in &groups {
                    // Not by a look at the rows: most of them are events that were delivered.
                    waits |= rows.counter(partition, *group)?.0 > 0;
                }
                if waits {
                    found.push(partition);
                }
            }
            Ok(found)
        };
        let read = self.cluster().store().read(look).await;
        Ok(read.map_err(archipel_cluster::Error::from)?)
    }

    /// Returns the next objects' rows of a walk: those of which this replica holds events for
    /// targets of the lane, except for targets that are left alone.
    pub(super) async fn objects_with_events(
        &self,
        lane: &Lane,
        partition: PartitionId,
        walk: &Walk,
        pauses: Pauses,
    ) -> Result<Found, Error> {
        let (targets, before_ms) = (lane.targets.clone(), walk.before_ms);
        let after = walk.after.clone();
        let look = move |rows: &RowReader<'_>| {
            let mut found = Found::default();
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            rows.scan_metadata(partition, &rowkeys::ALL_EVENTS, from, &mut |key, row| {
                let key = RowKey {
                    partition,
                    key: Bytes::copy_from_slice(key),
                };
                let row = row.as_ref().filter(|row| row.stamp.millis() < before_ms);
                let target = row.and_then(Waiting::target_in);
                let target = target.filter(|target| targets.have(target));
                let until = target.as_ref().and_then(|target| pauses.get(target));
                match (rowkeys::object_of_event(&key), target) {
                    (object, _) if until.is_some() => {
                        found.until = sooner(found.until, until.copied());
                        found.passed_over = found.passed_over.take().or(object);
                    }
                    (Some(object), Some(_)) if found.objects.last() != Some(&object) => {
                        found.objects.push(object);
                    }
                    _ => {}
                }
                found.last = Some(key.key);
                Ok(match found.objects.len() < OBJECTS_READ {
                    true => Flow::Continue,
                    false => Flow::Stop,
                })
            })?;
            Ok(found)
        };
        let read = self.cluster().store().read(look).await;
        Ok(read.map_err(archipel_cluster::Error::from)?)
    }

    /// Returns those objects of which this replica holds events for targets of the lane that are
    /// not left alone, and when the first target of the others may be tried again.
    pub(super) async fn without_paused(
        &self,
        lane: &Lane,
        partition: PartitionId,
        objects: Objects,
        pauses: Pauses,
    ) -> Result<(Objects, Option<Instant>), Error> {
        let targets = lane.targets.clone();
        let look = move |rows: &RowReader<'_>| {
            let (mut ready, mut first) = (Objects::new(), None);
            for (object, from) in objects {
                let Some(prefix) = rowkeys::events_prefix(&object) else {
                    continue;
                };
                let begin = from.map(|from| [&prefix[..], &from.to_bytes()].concat());
                let begin = begin.as_deref().map_or(Bound::Unbounded, Bound::Included);
                let (mut is_ready, mut waits) = (false, false);
                rows.scan_metadata(partition, &prefix, begin, &mut |_, row| {
                    let target = row.as_ref().and_then(Waiting::target_in);
                    let target = target.filter(|target| targets.have(target));
                    match target.as_ref().map(|target| pauses.get(target)) {
                        None => {}
                        Some(None) => is_ready = true,
                        Some(until) => {
                            waits = true;
                            first = sooner(first, until.copied());
                        }
                    }
                    Ok(Flow::Continue)
                })?;
                // An object without events here may have some elsewhere.
                if is_ready || !waits {
                    ready.insert(object, from);
                }
            }
            Ok((ready, first))
        };
        let read = self.cluster().store().read(look).await;
        Ok(read.map_err(archipel_cluster::Error::from)?)
    }

    /// Returns the stamp of the last event of an object, below the news of another one, that this
    /// replica holds as deleted; `None` if there is none.
    pub(super) async fn last_deleted(
        &self,
        object: &RowKey,
        news: Stamp,
    ) -> Result<Option<Stamp>, Error> {
        let Some(prefix) = rowkeys::events_prefix(object) else {
            return Ok(None);
        };
        let partition = object.partition;
        let look = move |rows: &RowReader<'_>| {
            let (end, mut last) = ([&prefix[..], &news.to_bytes()].concat(), None);
            rows.scan_metadata_back(partition, &prefix, &end, &mut |key, row| {
                let is_gone = |row: RowMetadata| row.is_written() && !row.is_live();
                let is_deleted = row.is_some_and(is_gone);
                last = is_deleted.then(|| Bringer::stamp_in(key)).flatten();
                Ok(match last {
                    Some(_) => Flow::Stop,
                    None => Flow::Continue,
                })
            })?;
            Ok(last)
        };
        let read = self.cluster().store().read(look).await;
        Ok(read.map_err(archipel_cluster::Error::from)?)
    }

    /// Returns the events of an object that wait for targets of a lane, from a stamp on, as a
    /// quorum holds them. Those for other targets take no memory: each lane looks at the object by
    /// itself.
    pub(super) async fn events_at_quorum(
        &self,
        lane: &Lane,
        object: &RowKey,
        from: Option<Stamp>,
    ) -> Result<Vec<Waiting>, Error> {
        let Some(prefix) = rowkeys::events_prefix(object) else {
            return Ok(Vec::new());
        };
        let mut query = ListQuery::new(object.partition, prefix.clone());
        if let Some(from) = from {
            let from = [&prefix[..], &from.to_bytes()].concat();
            query.start = ListStart::At(from.into());
        }
        let mut events = Vec::new();
        loop {
            let Listing { entries, next, .. } = self.cluster().list(query.clone()).await?;
            for entry in entries {
                let ListEntry::Row { key, metadata } = entry else {
                    continue;
                };
                let row = RowKey {
                    partition: object.partition,
                    key,
                };
                match Waiting::of(row.clone(), &metadata) {
                    Some(event) if lane.targets.have(&event.target) => events.push(event),
                    Some(_) => {}
                    None => tracing::error!(?row, "an event cannot be read and stays"),
                }
            }
            match next {
                Some(start) => query.start = start,
                None => return Ok(events),
            }
        }
    }

    /// Counts the events that wait for targets of a lane, in the partitions for which this node
    /// delivers.
    pub(super) async fn count_backlog(&self, lane: &Lane) -> Result<(), Error> {
        let local = self.cluster().local_partitions(None).into_iter();
        let mine = local.filter(|partition| self.cluster().is_first_live(*partition));
        let mine: Vec<_> = mine.collect();
        let names = self.names_in(lane);
        let groups: Vec<_> = names.iter().map(|name| group_of(name)).collect();
        let count = move |rows: &RowReader<'_>| {
            let mut counts = vec![0; groups.len()];
            for partition in &mine {
                for (count, group) in counts.iter_mut().zip(&groups) {
                    *count += rows.counter(*partition, *group)?.0;
                }
            }
            Ok(counts)
        };
        let counts = self.cluster().store().read(count).await;
        let counts = counts.map_err(archipel_cluster::Error::from)?;
        let mut all = self.inner.events.progress.lock();
        for (name, count) in names.into_iter().zip(counts) {
            let progress = all.entry(name.clone()).or_default();
            progress.status.name = name;
            progress.status.backlog = count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! The noncurrent versions of each key, from the rows of one replica.
//!
//! Kept rows of a key come newest first, but the null version comes before all others. The object's
//! row holds the current version. So a line is put in order while the walk goes along it, and never
//! held as a whole.

use std::collections::{HashMap, VecDeque};

use archipel_base::{Id, Stamp};
use archipel_storage::{self as storage, RowKey, RowMetadata, RowReader};
use bytes::Bytes;

use super::{Seen, Unit, current_in};
use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::object::ObjectHead;
use crate::owner::Owner;
use crate::rowkeys;
use crate::version::VersionId;

impl Bucket {
    /// Returns true if rules may remove noncurrent versions.
    pub(super) fn has_noncurrent_rules(&self) -> bool {
        let rules = self.lifecycle.as_ref();
        self.versioning.has_versions() && rules.is_some_and(|rules| rules.has_noncurrent())
    }
}

/// Returns the place before the first kept version of a key, for the row of any of them, because
/// the successors must be known. Returns any other row as it is.
pub(super) fn start_of_key(row: Bytes) -> Bytes {
    let prefix = archipel_cluster::split_kept(&row).map(|(prefix, _)| prefix.len());
    match (rowkeys::kind(&row), prefix) {
        (rowkeys::Kind::Version, Some(length)) => row.slice(..length),
        _ => row,
    }
}

/// A version's id, and the write that made it.
pub(super) type Made = (VersionId, Id);

/// A version that is not current, as a replica sees it.
pub(super) struct Noncurrent {
    pub key: String,
    pub head: ObjectHead,
    /// The stamp under which it was last current.
    pub last: Stamp,
    /// The time since which it is noncurrent.
    pub since_ms: u64,
    /// The current version, if that time is the one at which this replica's row of it was written:
    /// the version's id, and the write that made it.
    pub behind: Option<Made>,
    /// The number of noncurrent versions that are newer.
    pub newer: u32,
}

/// A version, in its place among the versions of a key.
struct Placed {
    order: Stamp,
    head: ObjectHead,
    /// The stamp under which it was last current.
    last: Stamp,
    is_current: bool,
}

/// The largest number of newer versions among which the successor of a version is looked for.
const MOST_SUCCESSORS: usize = 64;

/// The versions of a key, newest first, as far as a walk has come.
pub(super) struct Line {
    object: RowKey,
    key: String,
    /// Versions that were read before their turn: the current one, and the null version.
    early: Vec<Placed>,
    /// The places of the current version and of those that passed after it, at most
    /// [`MOST_SUCCESSORS`].
    places: VecDeque<Stamp>,
    /// The current version, and the stamp of the object's row.
    current: Option<(Made, Stamp)>,
    /// The noncurrent versions that have passed.
    newer: u32,
    passed: Vec<Seen>,
}

impl Line {
    /// Begins with the object's row.
    fn new(object: RowKey, key: String, current: Option<&RowMetadata>) -> Line {
        let placed = current.and_then(|row| Some((placed(row, true)?, row.stamp)));
        let made = |(one, row): &(Placed, Stamp)| ((one.head.id, one.head.version), *row);
        Line {
            current: placed.as_ref().map(made),
            object,
            key,
            early: placed.into_iter().map(|(one, _)| one).collect(),
            places: VecDeque::new(),
            newer: 0,
            passed: Vec::new(),
        }
    }

    /// Adds the next kept row.
    fn add(&mut self, row: &RowMetadata) {
        let Some(next) = placed(row, false) else {
            return;
        };
        // A copy of the current version: it is noncurrent at other replicas, and this one lags.
        if self.current.is_some_and(|((id, _), _)| id == next.head.id) {
            return;
        }
        if next.head.id.at().is_none() {
            self.early.push(next);
            return;
        }
        self.pass_early(Some(next.order));
        self.pass(next);
    }

    /// Lets the early versions pass that are newer than the next one, or all.
    fn pass_early(&mut self, next: Option<Stamp>) {
        self.early.sort_by_key(|one| one.order);
        while let Some(newest) = self
            .early
            .pop_if(|one| next.is_none_or(|next| one.order > next))
        {
            self.pass(newest);
        }
    }

    fn pass(&mut self, one: Placed) {
        let since = self.noncurrent_since(&one);
        if one.is_current || !self.places.is_empty() {
            if self.places.len() >= MOST_SUCCESSORS {
                self.places.pop_front();
            }
            self.places.push_back(one.order);
        }
        if one.is_current {
            return;
        }
        self.passed.extend(since.map(|(since, behind)| {
            Seen::Noncurrent(Noncurrent {
                key: self.key.clone(),
                head: one.head,
                last: one.last,
                since_ms: since.millis(),
                behind,
                newer: self.newer,
            })
        }));
        self.newer = self.newer.saturating_add(1);
    }

    /// Returns since when a version is noncurrent, and the current version if its row tells that.
    /// `None` if this replica cannot tell.
    fn noncurrent_since(&self, one: &Placed) -> Option<(Stamp, Option<Made>)> {
        // Unless the object's row is newer than the version's last time as the current one, this
        // replica lags.
        let (current, row) = self.current.filter(|(_, row)| *row >= one.last)?;
        // A write without an answer may have a place in front of a version that was current after
        // it. So the successor is the oldest version with a place above that time. If none is
        // found, a decision made an older version current again, or more than a few writes without
        // an answer are in front. The row's stamp is later.
        let mut places = self.places.iter().rev();
        Some(match places.find(|place| **place > one.last) {
            Some(place) => (*place, None),
            None => (row, Some(current)),
        })
    }

    /// Returns the noncurrent versions that have passed since the last call.
    fn take(&mut self) -> Vec<Seen> {
        std::mem::take(&mut self.passed)
    }

    /// Ends the line, and returns the rest of its noncurrent versions.
    pub fn end(mut self) -> Vec<Seen> {
        self.pass_early(None);
        self.passed
    }
}

/// Returns the version that a row holds. Of the null version, the stamp that it had when it became
/// noncurrent stands for its name.
fn placed(row: &RowMetadata, is_current: bool) -> Option<Placed> {
    let head = current_in(row)?;
    let version = row.version.as_ref();
    let since = version.and_then(|version| version.since);
    Some(Placed {
        order: head.id.at().or(since).unwrap_or(row.stamp),
        head,
        // The row of an older build has no note: the version was not current after the row's stamp.
        last: version
            .and_then(|version| version.last)
            .unwrap_or(row.stamp),
        is_current,
    })
}

impl Model {
    /// Returns the noncurrent versions among some kept rows. `line` is that of the last key, which
    /// the next rows may go on with.
    pub(super) async fn noncurrent_among(
        &self,
        unit: Unit,
        rows: &[(Bytes, RowMetadata)],
        line: &mut Option<Line>,
    ) -> Result<Vec<Seen>, Error> {
        let object_of = |key: &Bytes| {
            let row = RowKey {
                partition: unit.partition,
                key: key.clone(),
            };
            rowkeys::kept_in(&row).map(|(object, _)| object)
        };
        let mut objects: Vec<RowKey> = rows.iter().filter_map(|(key, _)| object_of(key)).collect();
        objects.dedup();
        let current = self.currents(objects).await?;
        let mut seen = Vec::new();
        for (key, row) in rows {
            let Some(object) = object_of(key) else {
                continue;
            };
            let Some(Owner::Object { key, .. }) = rowkeys::owner_of(&object.key) else {
                continue;
            };
            if line.as_ref().is_none_or(|line| line.object != object) {
                let first = Line::new(object.clone(), key, current.get(&object));
                seen.extend(line.replace(first).map(Line::end).unwrap_or_default());
            }
            if let Some(line) = line {
                line.add(row);
                seen.extend(line.take());
            }
        }
        Ok(seen)
    }

    /// Returns this replica's rows of objects. A damaged one is for repair.
    async fn currents(&self, objects: Vec<RowKey>) -> Result<HashMap<RowKey, RowMetadata>, Error> {
        let read = move |rows: &RowReader<'_>| {
            let mut found = HashMap::new();
            for object in objects {
                match rows.metadata(&object) {
                    Ok(Some(row)) => {
                        found.insert(object, row);
                    }
                    Ok(None) | Err(storage::Error::Damaged(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(found)
        };
        let read = self.cluster().store().read(read).await;
        Ok(read.map_err(archipel_cluster::Error::from)?)
    }
}

#[cfg(test)]
mod tests;

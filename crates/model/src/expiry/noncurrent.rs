//! The noncurrent versions of each key, from the rows of one replica.
//!
//! Kept rows of a key come newest first, but the null version comes before all others. The object's
//! row holds the current version. So a line is put in order while the walk goes along it, and never
//! held as a whole.

use std::collections::HashMap;

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

/// Returns the place before the first kept version of a key, for the row of any of them, because the
/// successors must be known. Returns any other row as it is.
pub(super) fn start_of_key(row: Bytes) -> Bytes {
    let prefix = archipel_cluster::split_kept(&row).map(|(prefix, _)| prefix.len());
    match (rowkeys::kind(&row), prefix) {
        (rowkeys::Kind::Version, Some(length)) => row.slice(..length),
        _ => row,
    }
}

/// A version, in its place among the versions of a key.
struct Placed {
    order: Stamp,
    head: ObjectHead,
    is_current: bool,
}

impl Placed {
    fn as_successor(&self, made_ms: u64) -> Successor {
        Successor {
            made_ms,
            name: (self.head.id, self.head.version),
        }
    }
}

/// A version after which another is noncurrent.
#[derive(Clone, Copy)]
struct Successor {
    made_ms: u64,
    name: (VersionId, Id),
}

/// The versions of a key, newest first, as far as a walk has come.
pub(super) struct Line {
    object: RowKey,
    key: String,
    /// Versions that were read before their turn: the current one, and the null version.
    early: Vec<Placed>,
    /// The version before the next one; `None` until the current one has passed.
    successor: Option<Successor>,
    /// The current version, and when it certainly was current: what a version with a newer name is behind.
    current: Option<Successor>,
    /// The noncurrent versions that have passed.
    newer: u32,
    passed: Vec<Seen>,
}

impl Line {
    /// Begins with the object's row.
    fn new(object: RowKey, key: String, current: Option<&RowMetadata>) -> Line {
        let since_ms = current.map_or(0, |row| row.stamp.millis());
        let current = current.and_then(|row| placed(row, true));
        Line {
            current: current.as_ref().map(|one| one.as_successor(since_ms)),
            object,
            key,
            early: current.into_iter().collect(),
            successor: None,
            newer: 0,
            passed: Vec::new(),
        }
    }

    /// Adds the next kept row.
    fn add(&mut self, row: &RowMetadata) {
        let Some(next) = placed(row, false) else {
            return;
        };
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
        let successor = self.successor;
        if one.is_current || successor.is_some() {
            self.successor = Some(one.as_successor(one.order.millis()));
        }
        // A write without an answer may have reached this replica, and a decision about another version then made
        // the older one current again. Nothing tells when: the row's stamp is later. If such a version is current
        // elsewhere, its removal is refused.
        let behind = self.current.map(|current| Successor {
            made_ms: current.made_ms.max(one.order.millis()),
            ..current
        });
        let Some(successor) = successor.or(behind).filter(|_| !one.is_current) else {
            return;
        };
        self.passed.push(Seen::Noncurrent {
            key: self.key.clone(),
            head: one.head,
            since_ms: successor.made_ms,
            successor: successor.name,
            current: self.current.map(|current| current.name),
            newer: self.newer,
        });
        self.newer = self.newer.saturating_add(1);
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

/// Returns the version that a row holds. Of the null version, the stamp under which it became
/// noncurrent stands for its name.
fn placed(row: &RowMetadata, is_current: bool) -> Option<Placed> {
    let head = current_in(row)?;
    let since = row.version.as_ref().and_then(|version| version.since);
    Some(Placed {
        order: head.id.at().or(since).unwrap_or(row.stamp),
        head,
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

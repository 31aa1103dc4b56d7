//! Versions of objects at the replica: see [`versions`].

use std::ops::Bound;

use archipel_base::Stamp;
use archipel_storage as storage;
use archipel_storage::engine::Flow;
use archipel_storage::{RowKey, RowReader, RowTxn, Value, VersionName, name_bytes};
use bytes::{BufMut, Bytes, BytesMut};

use super::{Around, cell_of, note_cell, row_of};
use crate::node::options::Hooks;
use crate::node::wire::{About, RowCall};
use crate::register::versions::{self, Kept, NEWEST, VersionReport};
use crate::register::{Answer, Bounds, Cell, Request, Rules, Version};

/// Returns the kept row of a version.
pub(crate) fn kept_row(prefix: &Bytes, row: &RowKey, name: VersionName) -> RowKey {
    let mut key = BytesMut::with_capacity(prefix.len() + 16);
    key.put_slice(prefix);
    key.put_slice(&name_bytes(name));
    RowKey {
        partition: row.partition,
        key: key.freeze(),
    }
}

/// Returns the name of the version that a kept row's key ends with, and the key before it.
pub fn split_kept(key: &[u8]) -> Option<(&[u8], VersionName)> {
    let (prefix, name) = key.split_last_chunk::<16>()?;
    let name = match name {
        [0, ..] if *name == [0; 16] => None,
        name => Some(Stamp::from_bytes(name.map(|byte| !byte))),
    };
    Some((prefix, name))
}

/// The kept rows that change with an object's row.
#[derive(Default)]
pub(super) struct Moves {
    /// True if the object's row moves to a kept row, so that its content is still referred to.
    pub is_kept: bool,
    pub changes: Vec<(RowKey, Cell<Value>)>,
}

/// Returns what the acceptance of a version of an object's row changes in kept rows, or the answer
/// that refuses it.
pub(super) fn moves(
    txn: &RowTxn<'_>,
    key: &RowKey,
    old: &Cell<Value>,
    new: &Version<Value>,
    hooks: Hooks,
) -> Result<Result<Moves, Answer<Value>>, storage::Error> {
    let old_name = versions::name_of(old.value.as_ref());
    let Some(prefix) = (hooks.kept_prefix)(key) else {
        return Ok(Ok(Moves::default()));
    };
    let read = |name| -> Result<Cell<Value>, storage::Error> {
        let row = txn.row_to_replace(&kept_row(&prefix, key, name))?;
        Ok(cell_of(row.unwrap_or_default()))
    };
    Ok(match versions::keep(Rules::CORRECT, old, new, read)? {
        Kept::Lacks(name) => Err(Answer::Lacking { name }),
        Kept::Changes(changes) => {
            let lives = |(name, cell): &(VersionName, Cell<Value>)| {
                *name == old_name && cell.value.is_some()
            };
            Ok(Moves {
                is_kept: changes.iter().any(lives),
                changes: changes
                    .into_iter()
                    .map(|(name, cell)| (kept_row(&prefix, key, name), cell))
                    .collect(),
            })
        }
    })
}

/// A part of the moves of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The versions that live. They are stored before the object's row, so that their blocks are
    /// referred to throughout.
    Living,
    /// The others. They are stored after it.
    Gone,
}

/// Stores a part of the moves. `current` is the object's row.
pub(super) fn store(
    txn: &mut RowTxn<'_>,
    moves: &Moves,
    current: Option<&Value>,
    part: Part,
    around: &Around,
) -> Result<(), storage::Error> {
    for (key, cell) in &moves.changes {
        if cell.value.is_some() != (part == Part::Living) {
            continue;
        }
        let old = cell_of(txn.row_to_replace(key)?.unwrap_or_default());
        if cell.stamp == Stamp::ZERO {
            // The version is in the object's row now, or another null version is.
            if let Some(value) = &old.value
                && let Some(work) = (around.hooks.on_replace)(key, value, current)
            {
                txn.queue_push(&work)?;
            }
            txn.set(key, &row_of(cell.clone()))?;
        } else {
            // Its content was this replica's before. A block that was lost must not keep newer
            // versions of the object from this replica.
            let row = note_cell(txn, key, &old, cell.clone(), around)?;
            txn.take_over(key, &row)?;
        }
    }
    Ok(())
}

/// Returns what the replica tells of the versions that a request asks about, or the answer that
/// refuses the request.
///
/// A replica refuses what a version that it holds does not permit, by its own clock and the
/// cluster's. It refuses the promise, not the value: a value that others have accepted must be able
/// to reach every replica. One replica of each quorum shows what any quorum holds, so no
/// decision passes a protection that was acknowledged.
pub(super) fn asked(
    rows: &RowReader<'_>,
    call: &RowCall,
    current: &Cell<Value>,
    bounds: &Bounds,
    around: &Around,
) -> Result<Result<Vec<VersionReport>, Answer<Value>>, storage::Error> {
    let key = call.row_key();
    if let (Some(taking), Request::Prepare { asking: None, .. }) = (&call.taking, &call.request) {
        let kept = match (around.hooks.kept_prefix)(&key) {
            Some(prefix) => rows.metadata(&kept_row(&prefix, &key, taking.from))?,
            None => None,
        };
        let kept = cell_of(kept.map(storage::Row::from).unwrap_or_default());
        let held = versions::view(taking.from, current, &kept, bounds);
        let now = around.wall.earliest_millis();
        if held
            .value
            .is_some_and(|value| (around.hooks.refuses)(&value, &taking.what, now))
        {
            return Ok(Err(Answer::Held));
        }
    }
    Ok(Ok(match &call.about {
        Some(about) => told(rows, &key, current, about, bounds, around.hooks)?,
        None => Vec::new(),
    }))
}

/// Returns reports about the versions that a request asks about.
pub(super) fn told(
    rows: &RowReader<'_>,
    key: &RowKey,
    current: &Cell<Value>,
    about: &About,
    bounds: &Bounds,
    hooks: Hooks,
) -> Result<Vec<VersionReport>, storage::Error> {
    let Some(prefix) = (hooks.kept_prefix)(key) else {
        return Ok(Vec::new());
    };
    let view = |name, whole: bool| -> Result<VersionReport, storage::Error> {
        let row = kept_row(&prefix, key, name);
        let kept = match whole {
            true => rows.row(&row)?,
            false => rows.metadata(&row)?.map(storage::Row::from),
        };
        let kept = cell_of(kept.unwrap_or_default());
        let report = versions::view(name, current, &kept, bounds);
        let is_whole = whole || report.stamp != kept.stamp;
        Ok(VersionReport { is_whole, ..report })
    };
    let mut told = Vec::new();
    for name in &about.names {
        told.push(view(*name, true)?);
    }
    if !about.newest {
        return Ok(told);
    }
    let mut others = Vec::new();
    for name in newest_names(rows, key, &prefix, about, hooks)? {
        others.push(view(name, false)?);
    }
    // The payload of the newest one is told, too: it may become current.
    let newest = others
        .iter()
        .filter_map(|one| Some((versions::order_of(one.value.as_ref()?), one.name)))
        .max();
    if let Some((_, name)) = newest
        && let Some(one) = others.iter_mut().find(|one| one.name == name)
    {
        *one = view(name, true)?;
    }
    told.extend(others);
    Ok(told)
}

/// Returns the names of the newest versions that this replica keeps, without those that the request
/// names itself.
fn newest_names(
    rows: &RowReader<'_>,
    key: &RowKey,
    prefix: &Bytes,
    about: &About,
    hooks: Hooks,
) -> Result<Vec<VersionName>, storage::Error> {
    let (mut names, mut seen, mut lives) = (Vec::new(), 0, false);
    let visit = &mut |key: &[u8], row: Option<storage::RowMetadata>| {
        let Some((_, name)) = split_kept(key) else {
            return Ok(Flow::Continue);
        };
        seen += 1;
        if !about.names.contains(&name) {
            // The null version is the first, and need not be the newest.
            lives |= name.is_some() && row.is_some_and(|row| row.is_live());
            names.push(name);
        }
        let is_enough = seen >= NEWEST && (lives || seen >= hooks.most_dead);
        Ok(if is_enough {
            Flow::Stop
        } else {
            Flow::Continue
        })
    };
    let below = about.below.map(|at| kept_row(prefix, key, Some(at)).key);
    let start = below.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    rows.scan_metadata(key.partition, prefix, start, visit)?;
    Ok(names)
}

//! Rows that point to a write of another row: see [`intent`](crate::register::intent).

use archipel_base::Stamp;
use archipel_storage as storage;
use archipel_storage::{RowKey, RowTxn, Value};

use super::{Around, cell_of, store_cell};
use crate::node::options::Hooks;
use crate::node::wire::RowCall;
use crate::register::intent::{self, Marking, Pointing};
use crate::register::replica::above_floor;
use crate::register::{Answer, Bounds, Cell, Intent, Request, Rules, Version};

/// A change of a pointing row that belongs to a change of the deciding row.
pub(super) struct Beside {
    key: RowKey,
    old: Cell<Value>,
    new: Cell<Value>,
}

/// The changes of pointing rows, or the answer that refuses the change of the deciding row.
pub(super) type Verdict = Result<Vec<Beside>, Answer<Value>>;

/// Returns what a request changes in pointing rows. `is_over` is true if a quorum has told that the
/// row which points to the write is over.
pub(super) fn beside(
    txn: &RowTxn<'_>,
    call: &RowCall,
    (is_over, bounds): (bool, &Bounds),
    hooks: Hooks,
) -> Result<Verdict, storage::Error> {
    match (&call.request, call.pointing()) {
        (
            Request::Prepare {
                ballot,
                guarded: true,
                ..
            },
            Some((key, intent)),
        ) => {
            let old = pointing_row(txn, &key, bounds)?;
            let (rules, state) = (Rules::CORRECT, state(&old, hooks));
            if !call.announces() {
                let promise = intent::promise(rules, &old, state, *ballot);
                return Ok(promise.map(|new| vec![Beside { key, old, new }]));
            }
            let intent = Intent {
                name: Some(*ballot),
                ..intent
            };
            Ok(
                match intent::announce(rules, &old, state, *ballot, intent.write) {
                    Ok(true) => Ok(vec![marked(key, old, *ballot, intent, hooks)?]),
                    Ok(false) => Ok(Vec::new()),
                    Err(refusal) => Err(refusal),
                },
            )
        }
        (Request::Write { version, .. }, own) => {
            let known = (is_over, bounds);
            marks(txn, &call.row_key(), version, own, known, hooks)
        }
        _ => Ok(Ok(Vec::new())),
    }
}

/// Returns the rows that point to the write of a version, each with the write: the row that the
/// value names, and the one that the version's own coordinator named.
fn of(
    key: &RowKey,
    version: &Version<Value>,
    own: Option<(RowKey, Intent)>,
    hooks: Hooks,
) -> impl Iterator<Item = (RowKey, Intent)> {
    let value = version.value.as_ref();
    let named = value.and_then(|value| (hooks.points)(key, value));
    // The operation also writes versions of others again.
    let own = own.filter(|(_, intent)| intent.write == version.write);
    let own = own.filter(|(row, _)| named.as_ref().is_none_or(|(key, _)| key != row));
    named.into_iter().chain(own)
}

/// Returns the row that a replica must have to accept a version: the one that points to the
/// version's own write.
///
/// The value of a later write may name the row of an earlier one: a completed upload, in an object
/// that got new tags. That row may be gone for long.
pub(super) fn needed(
    key: &RowKey,
    version: &Version<Value>,
    own: Option<(RowKey, Intent)>,
    hooks: Hooks,
) -> Option<RowKey> {
    let mut all = of(key, version, own, hooks);
    all.find_map(|(row, intent)| (intent.write == version.write).then_some(row))
}

/// Returns the marks that belong to the acceptance of a version. `is_over` is true if a quorum has
/// told that the row which points to its write is over.
pub(super) fn marks(
    txn: &RowTxn<'_>,
    key: &RowKey,
    version: &Version<Value>,
    own: Option<(RowKey, Intent)>,
    (is_over, bounds): (bool, &Bounds),
    hooks: Hooks,
) -> Result<Verdict, storage::Error> {
    let mut marks = Vec::new();
    for (key, intent) in of(key, version, own, hooks) {
        let old = pointing_row(txn, &key, bounds)?;
        let (state, write) = (state(&old, hooks), (version.stamp, intent.write));
        let may_lack = is_over || intent.write != version.write;
        match intent::mark(Rules::CORRECT, &old, state, write, may_lack) {
            Marking::Stay => {}
            Marking::Refuse(refusal) => return Ok(Err(refusal)),
            Marking::Mark => marks.push(marked(key, old, version.stamp, intent, hooks)?),
        }
    }
    Ok(Ok(marks))
}

/// Returns the change that gives a pointing row an intent.
fn marked(
    key: RowKey,
    old: Cell<Value>,
    stamp: Stamp,
    intent: Intent,
    hooks: Hooks,
) -> Result<Beside, storage::Error> {
    let value = old.value.as_ref();
    let value = value.and_then(|value| (hooks.with_intent)(value, intent));
    let unread = || storage::Error::Damaged("a pointing row cannot be read".into());
    let new = Cell {
        promised: old.promised.max(stamp),
        stamp,
        write: intent.write,
        value: Some(value.ok_or_else(unread)?),
    };
    Ok(Beside { key, old, new })
}

/// Stores changes of pointing rows.
pub(super) fn store(
    txn: &mut RowTxn<'_>,
    changes: Vec<Beside>,
    around: &Around,
) -> Result<(), storage::Error> {
    for Beside { key, old, new } in changes {
        store_cell(txn, &key, &old, new, around)?;
    }
    Ok(())
}

fn pointing_row(
    txn: &RowTxn<'_>,
    key: &RowKey,
    bounds: &Bounds,
) -> Result<Cell<Value>, storage::Error> {
    let cell = cell_of(txn.row(key)?.unwrap_or_default());
    Ok(above_floor(&cell, bounds))
}

fn state(row: &Cell<Value>, hooks: Hooks) -> Pointing {
    let Some(value) = &row.value else {
        return match row.stamp {
            Stamp::ZERO => Pointing::Absent,
            _ => Pointing::Over,
        };
    };
    match (hooks.intent)(&value.metadata) {
        Some(intent) => Pointing::To(intent.write),
        None => Pointing::Live,
    }
}

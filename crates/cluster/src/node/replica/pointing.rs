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

/// The change of the pointing row, or the answer that refuses the change of the deciding row.
pub(super) type Verdict = Result<Option<Beside>, Answer<Value>>;

/// Returns what a request changes in the pointing row.
pub(super) fn beside(
    txn: &RowTxn<'_>,
    call: &RowCall,
    bounds: &Bounds,
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
                return Ok(promise.map(|new| Some(Beside { key, old, new })));
            }
            let intent = Intent {
                name: Some(*ballot),
                ..intent
            };
            Ok(
                match intent::announce(rules, &old, state, *ballot, intent.write) {
                    Ok(true) => Ok(Some(marked(key, old, *ballot, intent, hooks)?)),
                    Ok(false) => Ok(None),
                    Err(refusal) => Err(refusal),
                },
            )
        }
        (Request::Write { version, .. }, own) => {
            let pointing = of(&call.row_key(), version, own, hooks);
            mark(txn, version.stamp, pointing, call.is_over, bounds, hooks)
        }
        _ => Ok(Ok(None)),
    }
}

/// Returns the row that points to the write of a version, and the write: the row that the value names,
/// or the one that the version's own coordinator named.
///
/// The value of a later write may name the row of an earlier one: a completed upload, in an object that
/// got new tags. The later write was decided on the earlier one, so a quorum has marked that row.
pub(crate) fn of(
    key: &RowKey,
    version: &Version<Value>,
    own: Option<(RowKey, Intent)>,
    hooks: Hooks,
) -> Option<(RowKey, Intent)> {
    let value = version.value.as_ref();
    let named = value.and_then(|value| (hooks.points)(key, value));
    let is_of_version = |(_, intent): &(RowKey, Intent)| intent.write == version.write;
    // The operation also writes versions of others again.
    named.filter(is_of_version).or(own.filter(is_of_version))
}

/// Returns the mark that belongs to the acceptance of a version under `stamp`. `is_over` is true if a
/// quorum has told that the pointing row is over.
pub(super) fn mark(
    txn: &RowTxn<'_>,
    stamp: Stamp,
    pointing: Option<(RowKey, Intent)>,
    is_over: bool,
    bounds: &Bounds,
    hooks: Hooks,
) -> Result<Verdict, storage::Error> {
    let Some((key, intent)) = pointing else {
        return Ok(Ok(None));
    };
    let old = pointing_row(txn, &key, bounds)?;
    let (state, write) = (state(&old, hooks), (stamp, intent.write));
    Ok(
        match intent::mark(Rules::CORRECT, &old, state, write, is_over) {
            Marking::Stay => Ok(None),
            Marking::Refuse(refusal) => Err(refusal),
            Marking::Mark => Ok(Some(marked(key, old, stamp, intent, hooks)?)),
        },
    )
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

/// Stores the change of a pointing row.
pub(super) fn store(
    txn: &mut RowTxn<'_>,
    change: Option<Beside>,
    around: &Around,
) -> Result<(), storage::Error> {
    match change {
        Some(Beside { key, old, new }) => store_cell(txn, &key, &old, new, around),
        None => Ok(()),
    }
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

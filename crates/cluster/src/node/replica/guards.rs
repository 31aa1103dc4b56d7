//! The guards of a request: rows of the same partition that must hold.

use archipel_storage as storage;
use archipel_storage::{RowKey, RowReader};
use bytes::Bytes;

use crate::node::options::Hooks;
use crate::node::wire::RowCall;

/// Returns true if each guard of a write holds here.
pub(super) fn hold(
    rows: &RowReader<'_>,
    call: &RowCall,
    hooks: Hooks,
) -> Result<bool, storage::Error> {
    for (guard, expects) in call.guard_rows() {
        if state(rows, &guard, expects, hooks)? != Some(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if one of the guards is known here and does not hold. This is what refuses a read.
/// A guard that is not known here refuses nothing: each read meets a replica that knows it.
pub(super) fn refuse(
    rows: &RowReader<'_>,
    guards: &[(RowKey, Bytes)],
    hooks: Hooks,
) -> Result<bool, storage::Error> {
    for (guard, expects) in guards {
        if state(rows, guard, expects, hooks)? == Some(false) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the guards of a request, each with what the request expects of it.
pub(super) fn of(call: &RowCall) -> Vec<(RowKey, Bytes)> {
    let guards = call.guard_rows();
    guards
        .map(|(row, expects)| (row, expects.clone()))
        .collect()
}

/// Returns whether a guard holds; `None` if it is not known here.
fn state(
    rows: &RowReader<'_>,
    guard: &RowKey,
    expects: &Bytes,
    hooks: Hooks,
) -> Result<Option<bool>, storage::Error> {
    let metadata = rows.metadata(guard)?.and_then(|row| row.metadata);
    Ok(metadata.map(|metadata| (hooks.holds)(guard, &metadata, expects)))
}

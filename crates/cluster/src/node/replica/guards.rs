//! The guards of a request: rows of the same partition that must hold.

use archipel_storage as storage;
use archipel_storage::{RowKey, RowReader, RowTxn};
use bytes::Bytes;

use crate::node::options::Hooks;
use crate::node::wire::RowCall;

/// Returns true if each guard of a write holds here.
pub(super) fn hold(txn: &RowTxn<'_>, call: &RowCall, hooks: Hooks) -> Result<bool, storage::Error> {
    for (guard, expects) in call.guard_rows() {
        let metadata = txn.metadata(&guard)?.and_then(|row| row.metadata);
        if !metadata.is_some_and(|metadata| (hooks.holds)(&guard, &metadata, expects)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the guards of a request, each with what the request expects of it.
pub(super) fn of(call: &RowCall) -> Vec<(RowKey, Bytes)> {
    let guards = call.guard_rows();
    guards
        .map(|(row, expects)| (row, expects.clone()))
        .collect()
}

/// Returns true if one of the guards is known here and does not hold. This is what refuses a read.
/// A guard that is not known here refuses nothing: a guard that a quorum has is met by each read.
pub(super) fn refuse(
    rows: &RowReader<'_>,
    guards: &[(RowKey, Bytes)],
    hooks: Hooks,
) -> Result<bool, storage::Error> {
    for (guard, expects) in guards {
        let metadata = rows.metadata(guard)?.and_then(|row| row.metadata);
        if metadata.is_some_and(|metadata| !(hooks.holds)(guard, &metadata, expects)) {
            return Ok(true);
        }
    }
    Ok(false)
}

//! Limits on what a partition holds: guards set them, and replicas check them.
//!
//! A replica compares a limit with its own counter, in the transaction of the write. So it never
//! accepts more than the limit from coordinators. Rows of other replicas are taken without a look
//! at limits, because replicas must become equal.

use archipel_storage as storage;
use archipel_storage::{RowTxn, UsageDelta};

use super::versions;
use crate::node::options::{Hooks, UsageLimit};
use crate::node::wire::RowCall;
use crate::register::{Cell, Request, Version};
use storage::Value;

/// A change of a counter.
#[derive(Clone, Copy, Default)]
struct Growth {
    objects: i64,
    bytes: i128,
}

impl Growth {
    fn add(&mut self, usage: Option<UsageDelta>, limit: &UsageLimit, sign: i8) {
        if let Some(usage) = usage.filter(|usage| usage.group == limit.group) {
            self.objects += i64::from(sign) * i64::from(usage.objects);
            self.bytes += i128::from(sign) * i128::from(usage.bytes);
        }
    }
}

/// Returns true unless the request is a write that would lift a counter above the limit of one of
/// its guards. A write that lets a counter fall, or leaves it, passes also above the limit.
pub(super) fn are_kept(
    txn: &RowTxn<'_>,
    call: &RowCall,
    cell: &Cell<Value>,
    hooks: Hooks,
) -> Result<bool, storage::Error> {
    let Request::Write {
        version,
        guarded: true,
    } = &call.request
    else {
        return Ok(true);
    };
    // It is held already, or will not be.
    if version.stamp <= cell.stamp {
        return Ok(true);
    }
    for guard in call.limiting_rows() {
        let metadata = txn.metadata(&guard)?.and_then(|row| row.metadata);
        let Some(limit) = metadata.and_then(|metadata| (hooks.limit)(&guard, &metadata)) else {
            continue;
        };
        let Some(growth) = growth(txn, call, cell, version, &limit, hooks)? else {
            continue;
        };
        let (objects, bytes) = txn.counter(call.row_key().partition, limit.group)?;
        let exceeds = |counted: u64, growth: i128, most: u64| {
            growth > 0 && i128::from(counted) + growth > i128::from(most)
        };
        if exceeds(objects, growth.objects.into(), limit.objects)
            || exceeds(bytes, growth.bytes, limit.bytes)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns by how much a write would change the counter. `None` if the replica refuses the write
/// because it lacks a version.
fn growth(
    txn: &RowTxn<'_>,
    call: &RowCall,
    cell: &Cell<Value>,
    version: &Version<Value>,
    limit: &UsageLimit,
    hooks: Hooks,
) -> Result<Option<Growth>, storage::Error> {
    let Ok(moves) = versions::moves(txn, &call.row_key(), cell, version, hooks)? else {
        return Ok(None);
    };
    let usage = |value: &Option<Value>| value.as_ref().and_then(|value| value.usage);
    let mut growth = Growth::default();
    growth.add(usage(&version.value), limit, 1);
    growth.add(usage(&cell.value), limit, -1);
    for (row, kept) in &moves.changes {
        growth.add(usage(&kept.value), limit, 1);
        let old = txn.metadata(row)?;
        growth.add(old.and_then(|old| old.usage), limit, -1);
    }
    Ok(Some(growth))
}

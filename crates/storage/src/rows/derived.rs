//! Derived data: the change log, windows and counters that follow from a row's change.

use std::ops::Bound;

use archipel_base::{Id, PartitionId, Stamp};

use super::codec::{self, Counter};
use super::window::{Fingerprint, Granularity, Window};
use crate::engine::{Direction, Edit, Flow, ReadTxn, Result, Tree};
use crate::error::Error;
use crate::row::UsageDelta;

/// Moves a row's key from its old stamp to its new one, in the log and in the windows.
/// [`Stamp::ZERO`] means that the key has no entry.
pub(crate) fn restamp(
    edit: &mut dyn Edit,
    partition: PartitionId,
    key: &[u8],
    (old, new): (Stamp, Stamp),
) -> Result<()> {
    if old == new {
        return Ok(());
    }
    if old != Stamp::ZERO {
        edit.delete(Tree::Derived, &codec::log_key(partition, old, key))?;
    }
    if new != Stamp::ZERO {
        edit.put(Tree::Derived, &codec::log_key(partition, new, key), &[])?;
    }
    let (taken, given) = (fingerprint_of(key, old), fingerprint_of(key, new));
    for granularity in Granularity::ALL {
        let (from, to) = (granularity.window_of(old), granularity.window_of(new));
        match (taken, given) {
            (Some(mut taken), Some(given)) if from == to => {
                taken.toggle(given);
                change_window(edit, partition, (granularity, from), taken, 0)?;
            }
            _ => {
                if let Some(taken) = taken {
                    change_window(edit, partition, (granularity, from), taken, -1)?;
                }
                if let Some(given) = given {
                    change_window(edit, partition, (granularity, to), given, 1)?;
                }
            }
        }
    }
    Ok(())
}

fn fingerprint_of(key: &[u8], stamp: Stamp) -> Option<Fingerprint> {
    (stamp != Stamp::ZERO).then(|| Fingerprint::of(key, stamp))
}

/// Changes one window. A window without rows has no entry.
fn change_window(
    edit: &mut dyn Edit,
    partition: PartitionId,
    (granularity, number): (Granularity, u32),
    toggled: Fingerprint,
    rows: i64,
) -> Result<()> {
    let key = codec::window_key(partition, granularity, number);
    let mut window = match edit.get(Tree::Derived, &key)? {
        Some(bytes) => codec::decode_window(&bytes)?,
        None => Window::default(),
    };
    window.fingerprint.toggle(toggled);
    window.rows = add(window.rows, rows, "the rows of a window")?;
    match window.rows {
        0 => edit.delete(Tree::Derived, &key).map(|_| ()),
        _ => edit.put(Tree::Derived, &key, &codec::encode_window(&window)),
    }
}

/// Replaces a row's share in a counter. A counter of zero has no entry.
pub(crate) fn recount(
    edit: &mut dyn Edit,
    partition: PartitionId,
    old: Option<UsageDelta>,
    new: Option<UsageDelta>,
) -> Result<()> {
    match (old, new) {
        (old, new) if old == new => Ok(()),
        (Some(old), Some(new)) if old.group == new.group => {
            let objects = i64::from(new.objects) - i64::from(old.objects);
            let bytes = i128::from(new.bytes) - i128::from(old.bytes);
            change_counter(edit, partition, new, (objects, bytes))
        }
        (old, new) => {
            if let Some(old) = old {
                let share = (-i64::from(old.objects), -i128::from(old.bytes));
                change_counter(edit, partition, old, share)?;
            }
            if let Some(new) = new {
                let share = (i64::from(new.objects), i128::from(new.bytes));
                change_counter(edit, partition, new, share)?;
            }
            Ok(())
        }
    }
}

fn change_counter(
    edit: &mut dyn Edit,
    partition: PartitionId,
    usage: UsageDelta,
    (objects, bytes): (i64, i128),
) -> Result<()> {
    let key = codec::counter_key(partition, usage.group);
    let old = match edit.get(Tree::Derived, &key)? {
        Some(bytes) => codec::decode_counter(&bytes)?,
        None => Counter::default(),
    };
    let new = Counter {
        objects: add(old.objects, objects, "a counter's objects")?,
        bytes: add(old.bytes, bytes, "a counter's bytes")?,
    };
    if new == Counter::default() {
        edit.delete(Tree::Derived, &key).map(|_| ())
    } else {
        edit.put(Tree::Derived, &key, &codec::encode_counter(&new))
    }
}

/// Returns the keys of a partition's counters.
pub(crate) fn counter_keys(txn: &dyn ReadTxn, partition: PartitionId) -> Result<Vec<Vec<u8>>> {
    let first = codec::counter_key(partition, Id([0; 16]));
    let last = codec::counter_key(partition, Id([u8::MAX; 16]));
    let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
    let mut keys = Vec::new();
    txn.scan(Tree::Derived, range, Direction::Ascending, &mut |key, _| {
        keys.push(key.to_vec());
        Ok(Flow::Continue)
    })?;
    Ok(keys)
}

/// Adds a change to a number. A sum out of range shows that the derived data were wrong before.
fn add(number: u64, change: impl Into<i128>, what: &str) -> Result<u64> {
    u64::try_from(i128::from(number) + change.into())
        .map_err(|_| Error::Damaged(format!("{what} do not add up: run a verification")))
}

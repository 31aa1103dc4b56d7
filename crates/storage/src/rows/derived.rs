//! Derived data: the change log, windows and counters that follow from a row's change.

use std::ops::Bound;

use archipel_base::{Id, PartitionId, Stamp, Writer};

use super::codec::{self, Counter};
use super::reader::PrefixRange;
use super::window::{Granularity, Window, WindowDigest};
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
    let (taken, given) = (digest_of(key, old), digest_of(key, new));
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

fn digest_of(key: &[u8], stamp: Stamp) -> Option<WindowDigest> {
    (stamp != Stamp::ZERO).then(|| WindowDigest::of(key, stamp))
}

/// Changes one window. A window without rows has no entry.
fn change_window(
    edit: &mut dyn Edit,
    partition: PartitionId,
    (granularity, number): (Granularity, u32),
    toggled: WindowDigest,
    rows: i64,
) -> Result<()> {
    let key = codec::window_key(partition, granularity, number);
    let window = match changed_window(edit, &key, toggled, rows) {
        Err(Error::Damaged(why)) => {
            tracing::error!(%partition, ?granularity, number, why, "a window is counted again");
            // The log has changed already, so the result needs no change.
            count_window(edit, partition, (granularity, number))?
        }
        window => window?,
    };
    match window.rows {
        0 => edit.delete(Tree::Derived, &key).map(|_| ()),
        _ => edit.put(Tree::Derived, &key, &codec::encode_window(&key, &window)),
    }
}

fn changed_window(
    txn: &(impl ReadTxn + ?Sized),
    key: &[u8],
    toggled: WindowDigest,
    rows: i64,
) -> Result<Window> {
    let mut window = match txn.get(Tree::Derived, key)? {
        Some(bytes) => codec::decode_window(key, &bytes)?,
        None => Window::default(),
    };
    window.digest.toggle(toggled);
    window.rows = add(window.rows, rows, "the rows of a window")?;
    Ok(window)
}

/// Counts a window again, from the log.
pub(crate) fn count_window(
    txn: &(impl ReadTxn + ?Sized),
    partition: PartitionId,
    (granularity, number): (Granularity, u32),
) -> Result<Window> {
    let (first, end) = granularity.span(number);
    let from = codec::log_key(partition, Stamp::new(first, 0, Writer(0)), &[]);
    let to = codec::log_until(partition, end);
    let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    let mut window = Window::default();
    txn.scan(Tree::Derived, range, Direction::Ascending, &mut |key, _| {
        let (_, stamp, key) = codec::split_log_key(key)?;
        window.rows += 1;
        window.digest.toggle(WindowDigest::of(key, stamp));
        Ok(Flow::Continue)
    })?;
    Ok(window)
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
    let changed = |old: Counter| -> Result<Counter> {
        Ok(Counter {
            objects: add(old.objects, objects, "a counter's objects")?,
            bytes: add(old.bytes, bytes, "a counter's bytes")?,
        })
    };
    let new = match counter(edit, partition, usage.group).and_then(changed) {
        // The counter was wrong before. The row itself has not changed yet.
        Err(Error::Damaged(why)) => {
            tracing::error!(%partition, group = %usage.group, why, "a counter is counted again");
            changed(count(edit, partition, usage.group)?)?
        }
        new => new?,
    };
    if new == Counter::default() {
        edit.delete(Tree::Derived, &key).map(|_| ())
    } else {
        edit.put(Tree::Derived, &key, &codec::encode_counter(&key, &new))
    }
}

/// Returns a counter. Counts a damaged one again.
pub(crate) fn counter(
    txn: &(impl ReadTxn + ?Sized),
    partition: PartitionId,
    group: Id,
) -> Result<Counter> {
    let key = codec::counter_key(partition, group);
    match txn.get(Tree::Derived, &key)? {
        Some(bytes) => match codec::decode_counter(&key, &bytes) {
            Err(Error::Damaged(_)) => count(txn, partition, group),
            counter => counter,
        },
        None => Ok(Counter::default()),
    }
}

/// Counts a counter from the partition's rows. Reads all of them.
fn count(txn: &(impl ReadTxn + ?Sized), partition: PartitionId, group: Id) -> Result<Counter> {
    let range = PrefixRange::new(partition, &[], Bound::Unbounded);
    let mut counter = Counter::default();
    txn.scan(
        Tree::Rows,
        range.bounds(),
        Direction::Ascending,
        &mut |key, value| {
            match codec::decode_metadata(key, value) {
                Ok(row) => {
                    if let Some(usage) = row.usage.filter(|usage| usage.group == group) {
                        counter.objects += u64::from(usage.objects);
                        counter.bytes = counter.bytes.saturating_add(usage.bytes);
                    }
                }
                Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
            Ok(Flow::Continue)
        },
    )?;
    Ok(counter)
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
        .map_err(|_| Error::Damaged(format!("{what} do not add up")))
}

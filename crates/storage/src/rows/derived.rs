//! What follows from a row's change: the log, the windows and the counters.

use archipel_base::{PartitionId, Stamp};

use super::codec::{self, Counter};
use super::window::{Fingerprint, Granularity, Window};
use crate::engine::{Edit, Result, Tree};
use crate::error::Error;
use crate::row::Tally;

/// Moves a row's key from its old stamp to its new one, in the log and in the windows.
/// [`Stamp::ZERO`] stands for not being there.
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
    let (taken, given) = (share(key, old), share(key, new));
    for granularity in Granularity::ALL {
        let (from, to) = (granularity.window_of(old), granularity.window_of(new));
        match (taken, given) {
            (Some(mut taken), Some(given)) if from == to => {
                taken.toggle(given);
                shift(edit, partition, (granularity, from), taken, 0)?;
            }
            _ => {
                if let Some(taken) = taken {
                    shift(edit, partition, (granularity, from), taken, -1)?;
                }
                if let Some(given) = given {
                    shift(edit, partition, (granularity, to), given, 1)?;
                }
            }
        }
    }
    Ok(())
}

fn share(key: &[u8], stamp: Stamp) -> Option<Fingerprint> {
    (stamp != Stamp::ZERO).then(|| Fingerprint::of(key, stamp))
}

/// Changes one window. A window without rows has no entry.
fn shift(
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

/// Replaces a row's share in a counter. A counter of nothing has no entry.
pub(crate) fn recount(
    edit: &mut dyn Edit,
    partition: PartitionId,
    old: Option<Tally>,
    new: Option<Tally>,
) -> Result<()> {
    match (old, new) {
        (old, new) if old == new => Ok(()),
        (Some(old), Some(new)) if old.group == new.group => {
            let objects = i64::from(new.objects) - i64::from(old.objects);
            let bytes = i128::from(new.bytes) - i128::from(old.bytes);
            count(edit, partition, new, (objects, bytes))
        }
        (old, new) => {
            if let Some(old) = old {
                let share = (-i64::from(old.objects), -i128::from(old.bytes));
                count(edit, partition, old, share)?;
            }
            if let Some(new) = new {
                let share = (i64::from(new.objects), i128::from(new.bytes));
                count(edit, partition, new, share)?;
            }
            Ok(())
        }
    }
}

fn count(
    edit: &mut dyn Edit,
    partition: PartitionId,
    tally: Tally,
    (objects, bytes): (i64, i128),
) -> Result<()> {
    let key = codec::counter_key(partition, tally.group);
    let old = match edit.get(Tree::Derived, &key)? {
        Some(bytes) => codec::decode_counter(&bytes)?,
        None => Counter::default(),
    };
    let new = Counter {
        objects: add(old.objects, objects, "a counter's objects")?,
        bytes: add(old.bytes, bytes, "a counter's bytes")?,
    };
    match new == Counter::default() {
        true => edit.delete(Tree::Derived, &key).map(|_| ()),
        false => edit.put(Tree::Derived, &key, &codec::encode_counter(&new)),
    }
}

/// A sum that leaves its range shows that what is derived was wrong before.
fn add(number: u64, change: impl Into<i128>, what: &str) -> Result<u64> {
    u64::try_from(i128::from(number) + change.into())
        .map_err(|_| Error::Damaged(format!("{what} do not add up: run a verification")))
}

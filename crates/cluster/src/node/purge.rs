//! Purging: dropping the rows of partitions that are not the store's own, or all rows.
//!
//! # Invariants
//! - The floors of a partition go in the same transaction as the first of its rows. Floors say that
//!   the rows up to them are complete here. A store that gets the partition back in the middle of a
//!   purge lacks rows, and must not claim that. It joins like a new store instead: without floors,
//!   and with rows that anti-entropy completes.
//! - A purge may stop at any moment and begin again.

use archipel_base::PartitionId;
use archipel_storage::engine::{Durability, Flow};
use archipel_storage::store::Transact;
use archipel_storage::{Error, RowKey, RowReader, RowTxn, Store};
use bytes::Bytes;

use crate::faults::Faults;
use crate::layout::all_partitions;
use crate::node::floors;
use crate::register::rules::Mutant;

/// Purges all partitions of a store. The blocks of the rows go with them.
pub(crate) async fn wipe(store: &Store) -> Result<(), Error> {
    let faults = Faults::default();
    for partition in all_partitions() {
        let found = store.read(move |rows| holds_any(rows, partition)).await?;
        if !found {
            continue;
        }
        let purge = move |txn: &mut RowTxn<'_>| purge_some(txn, partition, &faults);
        while !store.transact(shrinking(), purge).await? {}
    }
    Ok(())
}

/// Returns how a purge runs: durably, and also on a disk that is nearly full.
pub(crate) fn shrinking() -> Transact {
    Transact::new(Durability::Fsync).shrinking()
}

/// Returns true if the store holds a row or the floors of a partition.
pub(crate) fn holds_any(rows: &RowReader<'_>, partition: PartitionId) -> Result<bool, Error> {
    let some = !first_keys(rows, partition, 1)?.is_empty();
    Ok(some || floors::exist(rows, partition)?)
}

/// Purges some rows of a partition, and its floors. Returns true if nothing is left.
pub(crate) fn purge_some(
    txn: &mut RowTxn<'_>,
    partition: PartitionId,
    faults: &Faults,
) -> Result<bool, Error> {
    let keys = first_keys(&txn.reader(), partition, faults.purge_rows)?;
    keys.iter().try_for_each(|key| txn.forget(key))?;
    let is_last = keys.len() < faults.purge_rows;
    if is_last || !faults.rules.breaks(Mutant::FloorOutlivesRows) {
        floors::forget(txn, partition)?;
    }
    Ok(is_last)
}

fn first_keys(
    rows: &RowReader<'_>,
    partition: PartitionId,
    limit: usize,
) -> Result<Vec<RowKey>, Error> {
    let mut keys = Vec::new();
    rows.scan_keys(partition, &mut |key| {
        keys.push(RowKey {
            partition,
            key: Bytes::copy_from_slice(key),
        });
        Ok(if keys.len() < limit {
            Flow::Continue
        } else {
            Flow::Stop
        })
    })?;
    Ok(keys)
}

//! Emptying a store: what it holds must not be heard of again.

use std::ops::Bound;

use archipel_base::PartitionId;
use archipel_storage::engine::{Durability, Flow};
use archipel_storage::store::Transact;
use archipel_storage::{RowKey, RowReader, RowTxn, Store};
use bytes::Bytes;

use crate::error::Error;
use crate::heal::record;
use crate::layout::all_partitions;

/// Rows forgotten in one transaction.
const BATCH: usize = 500;

/// Forgets all rows and floors; their blocks go with them. May be broken off and repeated.
pub(crate) async fn empty(store: &Store) -> Result<(), Error> {
    for partition in all_partitions() {
        while forget_some(store, partition).await? == BATCH {}
    }
    let how = Transact::new(Durability::Fsync).shrinking();
    store.transact(how, record::forget_all).await?;
    Ok(())
}

async fn forget_some(store: &Store, partition: PartitionId) -> Result<usize, Error> {
    let find = move |rows: &RowReader<'_>| {
        let mut keys: Vec<RowKey> = Vec::new();
        rows.scan_heads(partition, &[], Bound::Unbounded, &mut |key, _| {
            keys.push(RowKey {
                partition,
                key: Bytes::copy_from_slice(key),
            });
            Ok(match keys.len() < BATCH {
                true => Flow::Continue,
                false => Flow::Stop,
            })
        })?;
        Ok(keys)
    };
    let keys = store.read(find).await?;
    let found = keys.len();
    let how = Transact::new(Durability::Fsync).shrinking();
    let forget = move |txn: &mut RowTxn<'_>| keys.iter().try_for_each(|key| txn.forget(key));
    store.transact(how, forget).await?;
    Ok(found)
}

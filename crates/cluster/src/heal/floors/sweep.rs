//! Dropping tombstones and promises below a partition's floor, and finding how old those are that stay.

use std::ops::Bound;
use std::sync::Arc;

use archipel_base::PartitionId;
use archipel_storage::engine::{Durability, Flow};
use archipel_storage::store::Transact;
use archipel_storage::{Error, Row, RowHead, RowKey, RowTxn, Value};
use bytes::Bytes;

use super::record;
use crate::inner::Inner;
use crate::register::replica::above_floor;
use crate::register::{Bounds, Cell};

/// Rows looked at in one transaction.
const PAGE: usize = 500;

/// What one page came to.
struct Page {
    dropped: u64,
    next: Option<Bytes>,
}

impl Inner {
    /// Drops what may go in a partition. What a crash undoes is dropped again.
    pub(in crate::heal) async fn sweep(
        self: &Arc<Inner>,
        partition: PartitionId,
    ) -> Result<(), Error> {
        let _one_at_a_time = self.heal.floors.sweeping.lock().await;
        let mut from = None;
        loop {
            let litter = self.replica.litter();
            let how = Transact::new(Durability::Buffered).shrinking();
            let sweep = move |txn: &mut RowTxn<'_>| {
                if from.is_none() {
                    litter.begin(partition);
                }
                sweep_page(txn, partition, from, &litter)
            };
            let page = self.store().transact(how, sweep).await?;
            self.heal
                .floors
                .count(|total| total.dropped += page.dropped);
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        self.replica.litter().end(partition);
        Ok(())
    }
}

fn sweep_page(
    txn: &mut RowTxn<'_>,
    partition: PartitionId,
    from: Option<Bytes>,
    litter: &super::Litter,
) -> Result<Page, Error> {
    let bounds = Bounds::without_floors(0, 0);
    let bounds = record::bounds(&txn.reader(), partition, bounds)?;
    let (mut found, mut seen, mut next) = (Vec::new(), 0, None);
    let start = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    txn.reader()
        .scan_heads(partition, &[], start, &mut |key, head| {
            seen += 1;
            if !head.is_live() {
                found.push((Bytes::copy_from_slice(key), head));
            }
            if seen < PAGE {
                return Ok(Flow::Continue);
            }
            next = Some(Bytes::copy_from_slice(key));
            Ok(Flow::Stop)
        })?;
    let mut dropped = 0;
    for (key, head) in found {
        let cell = cell_of(head);
        let left = above_floor(&cell, &bounds);
        litter.note(partition, &left);
        if left != cell {
            dropped += 1;
            let row = Row {
                promised: left.promised,
                stamp: left.stamp,
                write: left.write,
                value: None,
            };
            txn.set(&RowKey { partition, key }, &row)?;
        }
    }
    Ok(Page { dropped, next })
}

fn cell_of(head: RowHead) -> Cell<Value> {
    Cell {
        promised: head.promised,
        stamp: head.stamp,
        write: head.write,
        value: None,
    }
}

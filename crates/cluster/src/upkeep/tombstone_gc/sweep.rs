//! Dropping tombstones and promises below a partition's floor, and noting the age of those that
//! stay.

use std::ops::Bound;
use std::sync::Arc;

use archipel_base::PartitionId;
use archipel_storage::engine::{Durability, Flow};
use archipel_storage::store::Transact;
use archipel_storage::{Error, Row, RowKey, RowMetadata, RowTxn, Value};
use bytes::Bytes;

use crate::node::floors as record;
use crate::node::tombstones::TombstoneStats;
use crate::register::replica::above_floor;
use crate::register::{Bounds, Cell};
use crate::upkeep::Upkeep;

/// The result of one page.
struct Page {
    dropped: u64,
    /// Damaged rows. They stay as they are.
    damaged: u64,
    next: Option<Bytes>,
}

impl Upkeep {
    /// Drops what may be dropped in a partition. If a crash undoes it, it is dropped again.
    pub(in crate::upkeep) async fn sweep(
        self: &Arc<Upkeep>,
        partition: PartitionId,
    ) -> Result<(), Error> {
        let _one_at_a_time = self.anti_entropy.floors.sweeping.lock().await;
        let (mut from, mut damaged) = (None, 0);
        let rows = self.options.sizes.swept_rows;
        loop {
            let tombstones = self.replica.tombstones();
            let how = Transact::new(Durability::Buffered).shrinking();
            let sweep = move |txn: &mut RowTxn<'_>| {
                if from.is_none() {
                    tombstones.begin(partition);
                }
                sweep_page(txn, partition, from, rows, &tombstones)
            };
            let page = self.store().transact(how, sweep).await?;
            self.anti_entropy
                .floors
                .count(|total| total.dropped += page.dropped);
            damaged += page.damaged;
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        self.replica.tombstones().end(partition);
        if damaged > 0 {
            tracing::error!(%partition, damaged, "damaged rows were passed over: a verification names them");
        }
        Ok(())
    }
}

fn sweep_page(
    txn: &mut RowTxn<'_>,
    partition: PartitionId,
    from: Option<Bytes>,
    rows: usize,
    tombstones: &TombstoneStats,
) -> Result<Page, Error> {
    let bounds = Bounds::without_floors(0, 0);
    let bounds = record::bounds(&txn.reader(), partition, bounds)?;
    let (mut found, mut seen, mut damaged, mut next) = (Vec::new(), 0, 0, None);
    let start = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    txn.reader()
        .scan_metadata(partition, &[], start, &mut |key, metadata| {
            seen += 1;
            match metadata {
                Some(metadata) if metadata.is_live() => {}
                Some(metadata) => found.push((Bytes::copy_from_slice(key), metadata)),
                None => damaged += 1,
            }
            if seen < rows {
                return Ok(Flow::Continue);
            }
            next = Some(Bytes::copy_from_slice(key));
            Ok(Flow::Stop)
        })?;
    let mut dropped = 0;
    for (key, metadata) in found {
        let cell = cell_of(metadata);
        let left = above_floor(&cell, &bounds);
        tombstones.note(partition, &left);
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
    Ok(Page {
        dropped,
        damaged,
        next,
    })
}

fn cell_of(metadata: RowMetadata) -> Cell<Value> {
    Cell {
        promised: metadata.promised,
        stamp: metadata.stamp,
        write: metadata.write,
        value: None,
    }
}

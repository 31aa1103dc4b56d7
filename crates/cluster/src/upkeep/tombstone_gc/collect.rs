//! Dropping tombstones and promises below a partition's floor, and noting the age of those that
//! stay.

use std::ops::Bound;
use std::sync::Arc;

use archipel_base::{PartitionId, Stamp};
use archipel_storage::engine::{Durability, Flow};
use archipel_storage::store::Transact;
use archipel_storage::{Error, Row, RowKey, RowMetadata, RowReader, RowTxn, Value};
use bytes::Bytes;

use crate::node::floors as record;
use crate::node::tombstones::TombstoneStats;
use crate::register::replica::above_floor;
use crate::register::{Bounds, Cell, versions};
use crate::upkeep::Upkeep;

/// The findings of a read of one page of rows.
struct Page {
    /// Rows of which something may be dropped.
    droppable: Vec<Bytes>,
    /// Rows that hold no version and that all replicas hold, with their stamps.
    void: Vec<(Bytes, Stamp)>,
    /// Damaged rows. They stay as they are.
    damaged: u64,
    next: Option<Bytes>,
}

impl Upkeep {
    /// Drops what may be dropped in a partition. If a crash undoes it, it is dropped again. Reads
    /// the rows beside the writers, and writes only where there is something to drop. Returns the
    /// rows to [retire](Upkeep::retire).
    pub(in crate::upkeep) async fn collect(
        self: &Arc<Upkeep>,
        partition: PartitionId,
    ) -> Result<Vec<(RowKey, Stamp)>, Error> {
        let _one_at_a_time = self.anti_entropy.floors.collecting.lock().await;
        let how = || Transact::new(Durability::Buffered).shrinking();
        let tombstones = self.replica.tombstones();
        // In a transaction: every row whose transaction noted it before is committed when this one
        // has ended, so the reads below see it.
        let begin = move |_: &mut RowTxn<'_>| {
            tombstones.begin(partition);
            Ok(())
        };
        self.store().transact(how(), begin).await?;
        let (mut from, mut damaged, mut void) = (None, 0, Vec::new());
        let rows = self.options.sizes.collected_rows;
        loop {
            let tombstones = self.replica.tombstones();
            let read =
                move |reader: &RowReader<'_>| read_page(reader, partition, from, rows, &tombstones);
            let page = self.store().read(read).await?;
            if !page.droppable.is_empty() {
                let tombstones = self.replica.tombstones();
                let drop = move |txn: &mut RowTxn<'_>| {
                    drop_rows(txn, partition, page.droppable, &tombstones)
                };
                let dropped = self.store().transact(how(), drop).await?;
                let floors = &self.anti_entropy.floors;
                floors.count(|total| total.dropped += dropped);
            }
            let room = super::void::MOST.saturating_sub(void.len());
            let found = page.void.into_iter().take(room);
            void.extend(found.map(|(key, stamp)| (RowKey { partition, key }, stamp)));
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
        Ok(void)
    }
}

fn read_page(
    reader: &RowReader<'_>,
    partition: PartitionId,
    from: Option<Bytes>,
    rows: usize,
    tombstones: &TombstoneStats,
) -> Result<Page, Error> {
    let bounds = bounds_of(reader, partition)?;
    let (mut droppable, mut void) = (Vec::new(), Vec::new());
    let (mut seen, mut damaged, mut next) = (0, 0, None);
    let start = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    reader.scan_metadata(partition, &[], start, &mut |key, metadata| {
        seen += 1;
        match metadata {
            Some(metadata) if metadata.is_live() => {
                let kind = metadata.version.as_ref().map(|version| version.kind);
                let kind = kind.unwrap_or_default();
                if versions::may_retire(kind, metadata.stamp, bounds.agreed) {
                    void.push((Bytes::copy_from_slice(key), metadata.stamp));
                }
            }
            Some(metadata) => {
                let cell = cell_of(metadata);
                if above_floor(&cell, &bounds) == cell {
                    tombstones.note(partition, &cell);
                } else {
                    droppable.push(Bytes::copy_from_slice(key));
                }
            }
            None => damaged += 1,
        }
        if seen < rows {
            return Ok(Flow::Continue);
        }
        next = Some(Bytes::copy_from_slice(key));
        Ok(Flow::Stop)
    })?;
    Ok(Page {
        droppable,
        void,
        damaged,
        next,
    })
}

/// Drops what may be dropped of rows that a read found, as they are now. Returns the number of
/// rows that changed.
fn drop_rows(
    txn: &mut RowTxn<'_>,
    partition: PartitionId,
    keys: Vec<Bytes>,
    tombstones: &TombstoneStats,
) -> Result<u64, Error> {
    let bounds = bounds_of(&txn.reader(), partition)?;
    let mut dropped = 0;
    for key in keys {
        let key = RowKey { partition, key };
        let metadata = match txn.metadata(&key) {
            Ok(Some(metadata)) if !metadata.is_live() => metadata,
            Ok(_) | Err(Error::Damaged(_)) => continue,
            Err(error) => return Err(error),
        };
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
            txn.set(&key, &row)?;
        }
    }
    Ok(dropped)
}

fn bounds_of(reader: &RowReader<'_>, partition: PartitionId) -> Result<Bounds, Error> {
    record::bounds(reader, partition, Bounds::without_floors(0, 0))
}

fn cell_of(metadata: RowMetadata) -> Cell<Value> {
    Cell {
        promised: metadata.promised,
        stamp: metadata.stamp,
        write: metadata.write,
        value: None,
    }
}

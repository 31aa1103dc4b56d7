//! A replica's floors of a partition in its store, under the `meta` name `floor/` and the partition
//! in four hexadecimal digits.

use archipel_base::codec::{self, Versioned};
use archipel_base::{PartitionId, Stamp};
use archipel_storage::{Error, RowReader, RowTxn};
use serde::{Deserialize, Serialize};

use crate::register::Bounds;
use crate::register::floor::Floors;

/// The stored form of floors.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(rename = "c")]
    closed: Stamp,
    #[serde(rename = "f", default)]
    frozen: Stamp,
    #[serde(rename = "a")]
    agreed: Stamp,
    #[serde(rename = "e")]
    agreed_epoch: u64,
    #[serde(rename = "g")]
    gone: Stamp,
    #[serde(rename = "j")]
    joined_epoch: u64,
}

impl Versioned for Stored {
    const VERSION: u8 = 1;
}

fn name(partition: PartitionId) -> String {
    format!("floor/{:04x}", partition.0)
}

/// Returns the floors of a partition; `None` if the replica never took part in a round.
pub(crate) fn read(rows: &RowReader<'_>, partition: PartitionId) -> Result<Option<Floors>, Error> {
    let Some(bytes) = rows.meta(&name(partition))? else {
        return Ok(None);
    };
    let damaged = |error| Error::Damaged(format!("the floors of partition {partition}: {error}"));
    let stored: Stored = codec::decode(&bytes).map_err(damaged)?;
    Ok(Some(Floors {
        closed: stored.closed,
        frozen: stored.frozen.max(stored.agreed),
        agreed: stored.agreed,
        agreed_epoch: stored.agreed_epoch,
        gone: stored.gone,
        joined_epoch: stored.joined_epoch,
    }))
}

/// Returns whether a partition has floors, without reading them.
pub(crate) fn exist(rows: &RowReader<'_>, partition: PartitionId) -> Result<bool, Error> {
    Ok(rows.meta(&name(partition))?.is_some())
}

/// Stores the floors of a partition.
pub(crate) fn write(
    txn: &mut RowTxn<'_>,
    partition: PartitionId,
    floors: &Floors,
) -> Result<(), Error> {
    let stored = codec::encode(&Stored {
        closed: floors.closed,
        frozen: floors.frozen,
        agreed: floors.agreed,
        agreed_epoch: floors.agreed_epoch,
        gone: floors.gone,
        joined_epoch: floors.joined_epoch,
    });
    txn.set_meta(&name(partition), Some(&stored))
}

/// Removes the floors of a partition. They go with the partition's rows.
pub(crate) fn forget(txn: &mut RowTxn<'_>, partition: PartitionId) -> Result<(), Error> {
    txn.set_meta(&name(partition), None)
}

/// Returns `bounds` with the floors of a partition.
pub(crate) fn bounds(
    rows: &RowReader<'_>,
    partition: PartitionId,
    bounds: Bounds,
) -> Result<Bounds, Error> {
    let floors = read(rows, partition)?;
    Ok(floors.map_or(bounds, |floors| bounds.with_floors(&floors)))
}

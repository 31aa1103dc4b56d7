//! Companions of an accepted write: see [`companion`](crate::register::companion).

use archipel_base::{PartitionId, Stamp};
use archipel_storage as storage;
use archipel_storage::{Row, RowKey, RowTxn, Value};

use super::{Around, cell_of, row_of};
use crate::node::companions::{CompanionNews, CompanionRow, is_companion};
use crate::node::wire::RowCall;
use crate::register::companion::{Bringing, bring};
use crate::register::replica::above_floor;
use crate::register::{Answer, Bounds, Cell, Request, Version};

/// The rows to store, or the answer that refuses the write.
pub(super) type Verdict = Result<Vec<(RowKey, Row)>, Answer<Value>>;

/// The news of a write that brings companions, or of a companion that was brought later.
pub(super) struct Item {
    row: RowKey,
    stamp: Stamp,
}

impl Item {
    pub fn of(call: &RowCall) -> Option<Item> {
        let Request::Write { version, .. } = &call.request else {
            return None;
        };
        let is_news = !call.companions.is_empty() || is_companion(&call.key, version);
        is_news.then(|| Item {
            row: call.row_key(),
            stamp: version.stamp,
        })
    }

    pub fn tell(self, news: &CompanionNews) {
        news.stored(self.row, self.stamp);
    }
}

/// Returns the rows that the acceptance of a write stores beside it.
///
/// # Errors
/// [`storage::Error::Busy`] if there are too many already, and the companion refuses the write
/// then.
pub(super) fn rows_of(
    txn: &RowTxn<'_>,
    (partition, companions): (PartitionId, &[CompanionRow]),
    written: Option<&Version<Value>>,
    bounds: &Bounds,
    around: &Around,
) -> Result<Verdict, storage::Error> {
    let Some(written) = written else {
        return Ok(Ok(Vec::new()));
    };
    let mut rows = Vec::new();
    for companion in companions {
        let key = RowKey {
            partition,
            key: companion.key.clone(),
        };
        let held = above_floor(&cell_of(txn.row(&key)?.unwrap_or_default()), bounds);
        match bring(held.stamp, written.stamp, bounds) {
            Bringing::Known => continue,
            Bringing::TooOld => {
                let highest = bounds.closed;
                return Ok(Err(Answer::Stale {
                    highest,
                    remembered: None,
                }));
            }
            Bringing::Store => {}
        }
        if held.value.is_none() && is_full(txn, partition, companion)? {
            if companion.refuses {
                let why = "too many events wait for a target that does not take them";
                return Err(storage::Error::Busy(why.into()));
            }
            if let Some(usage) = companion.value.usage {
                around.news.drop_one(usage.group);
            }
            continue;
        }
        let cell = Cell {
            promised: held.promised.max(written.stamp),
            stamp: written.stamp,
            write: written.write,
            value: Some(companion.value.clone()),
        };
        rows.push((key, row_of(cell)));
    }
    Ok(Ok(rows))
}

fn is_full(
    txn: &RowTxn<'_>,
    partition: PartitionId,
    companion: &CompanionRow,
) -> Result<bool, storage::Error> {
    let Some(usage) = companion.value.usage else {
        return Ok(false);
    };
    let (count, _) = txn.counter(partition, usage.group)?;
    Ok(count >= companion.most)
}

//! The partitions that expiry has walked today, and the place that it keeps over restarts.

use std::collections::BTreeMap;
use std::time::Duration;

use archipel_base::codec::{self, Versioned};
use archipel_base::hash::placement_hash;
use archipel_base::{Id, PartitionId, boxed};
use archipel_storage::engine::Durability;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Rules;
use crate::Model;
use crate::error::{Error, damaged_row};
use crate::rowkeys;

/// The name of the stored place.
const NAME: &str = "expiry";
/// The shortest pause before the place is stored again.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);

/// A part of a bucket: its rows in one partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct Unit {
    #[serde(rename = "b")]
    pub bucket: Id,
    #[serde(rename = "p")]
    pub partition: PartitionId,
}

/// The last row that a walk looked at. Units are walked in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub unit: Unit,
    pub at: Bytes,
}

/// A place as it is stored. It counts only under the same rules, day and layout.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Stored {
    #[serde(rename = "r")]
    rules: u64,
    /// All units before this one are walked.
    #[serde(rename = "u")]
    unit: Unit,
    /// The last row of the unit that was looked at; empty before the first one.
    #[serde(rename = "k")]
    at: Bytes,
}

impl Versioned for Stored {
    const VERSION: u8 = 1;
}

/// The walks so far, and the rules that they followed.
#[derive(Default)]
pub(crate) struct Progress {
    walked: BTreeMap<Unit, u64>,
    /// The hash of all present rules.
    rules: u64,
    /// True once the stored place was read.
    is_read: bool,
    /// The place at which the first walk after a restart goes on.
    start: Option<Place>,
    saved: Option<Instant>,
    /// True if something before the present place is not done, so that the place must not be
    /// stored.
    has_hole: bool,
}

impl Progress {
    /// Begins a walk under these rules. The first time, goes on where the node was before its
    /// restart.
    #[boxed]
    pub async fn begin(&mut self, model: &Model, rules: &Rules) -> Result<(), Error> {
        self.walked
            .retain(|unit, _| rules.contains_key(&unit.bucket));
        let each = rules.iter();
        let fields = each.flat_map(|(id, (_, hash))| [id.0.to_vec(), hash.to_be_bytes().to_vec()]);
        self.rules = hash(&fields.collect::<Vec<_>>());
        self.has_hole = false;
        if self.is_read {
            return Ok(());
        }
        let store = model.cluster().store();
        let stored = store.read(|rows| rows.meta(NAME)).await?;
        self.is_read = true;
        let stored = stored.map(|bytes| codec::decode::<Stored>(&bytes));
        let Some(stored) = stored.transpose().map_err(damaged_row)? else {
            return Ok(());
        };
        if stored.rules != self.rules {
            return Ok(());
        }
        for (id, (_, hash)) in rules {
            for partition in rowkeys::bucket_partitions(model.cluster(), id) {
                let unit = Unit {
                    bucket: *id,
                    partition,
                };
                if unit < stored.unit {
                    self.walked.insert(unit, *hash);
                }
            }
        }
        self.start = Some(Place {
            unit: stored.unit,
            at: stored.at,
        });
        Ok(())
    }

    /// Returns true if a unit was walked under these rules.
    pub fn has(&self, unit: &Unit, hash: u64) -> bool {
        self.walked.get(unit) == Some(&hash)
    }

    /// Returns the row after which the walk of a unit begins.
    pub fn take_start(&mut self, unit: &Unit) -> Option<Bytes> {
        let start = self.start.take().filter(|start| start.unit == *unit)?;
        Some(start.at).filter(|at| !at.is_empty())
    }

    /// Notes that a unit was walked.
    pub fn done(&mut self, unit: Unit, hash: u64) {
        self.walked.insert(unit, hash);
    }

    /// Notes that something could not be removed.
    pub fn leave_hole(&mut self) {
        self.has_hole = true;
    }

    /// Stores the place, unless it was stored a moment ago.
    #[boxed]
    pub async fn note(&mut self, model: &Model, place: Place) -> Result<(), Error> {
        if self
            .saved
            .is_some_and(|saved| saved.elapsed() < SAVE_INTERVAL)
        {
            return Ok(());
        }
        self.save(model, place).await
    }

    /// Stores that all units are walked.
    #[boxed]
    pub async fn end(&mut self, model: &Model) -> Result<(), Error> {
        let unit = Unit {
            bucket: Id([0xff; 16]),
            partition: PartitionId(u16::MAX),
        };
        let at = Bytes::new();
        self.save(model, Place { unit, at }).await
    }

    async fn save(&mut self, model: &Model, place: Place) -> Result<(), Error> {
        if self.has_hole {
            return Ok(());
        }
        self.saved = Some(Instant::now());
        let stored = codec::encode(&Stored {
            rules: self.rules,
            unit: place.unit,
            at: place.at,
        });
        let store = model.cluster().store();
        let set = store.transact(Durability::Buffered, move |txn| {
            txn.set_meta(NAME, Some(&stored))
        });
        Ok(set.await?)
    }
}

/// Returns a hash of a sequence of fields.
pub(crate) fn hash(fields: &[Vec<u8>]) -> u64 {
    let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
    placement_hash(&fields)
}

//! The rebalancer's work in one epoch: what is done, and what cannot be moved.

use std::collections::{BTreeMap, BTreeSet};

use archipel_base::PartitionId;
use archipel_base::codec::Versioned;
use archipel_storage::RowKey;
use serde::{Deserialize, Serialize};

use super::ranges::Listed;
use crate::error::Error;

/// The most rows of a partition that may fail before the partition is left for the next try.
const MOST_FAILED: usize = 8;

/// The work in one epoch.
///
/// A partition that is done stays done while the epoch is in force. Replicas that have listed their
/// rows in the epoch accept nothing of an earlier one, and a later write of the epoch is on a
/// majority of the newer version anyway. Only this node's memory says so: the next driver begins
/// again.
#[derive(Default)]
pub(crate) struct Work {
    /// The number of the epoch.
    pub epoch: u64,
    done: BTreeSet<PartitionId>,
    failed: BTreeMap<PartitionId, Failed>,
    /// The number of rows of each partition that were looked at, in the try that got furthest.
    rows: BTreeMap<PartitionId, u64>,
    /// The reason why the older version could not retire, although all partitions are done.
    pub trouble: Option<String>,
    /// The most keys of one partition that were held at once.
    #[cfg(test)]
    pub most_held: usize,
}

/// Asks a node how far it is with the change of an epoch.
#[derive(Serialize, Deserialize)]
pub(crate) struct ProgressCall {
    /// The number of the epoch.
    #[serde(rename = "e")]
    pub epoch: u64,
}

impl Versioned for ProgressCall {
    const VERSION: u8 = 1;
}

/// The part of the work that operators see.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Shown {
    /// The number of partitions that are done.
    #[serde(rename = "d")]
    pub done: u32,
    /// The number of rows that were looked at.
    #[serde(rename = "r")]
    pub rows: u64,
    /// The reason why the change does not continue, if it does not.
    #[serde(rename = "t")]
    pub trouble: Option<String>,
    /// The first row that cannot be moved, if there is one.
    #[serde(rename = "k")]
    pub row: Option<RowKey>,
}

impl Versioned for Shown {
    const VERSION: u8 = 1;
}

/// The rows of a partition that could not be moved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Failed {
    /// Some of them. None if the partition failed as a whole.
    pub rows: Vec<Listed>,
    /// The error of the first one, or of the partition.
    pub why: String,
    /// True if the partition may have more of them.
    pub is_partial: bool,
}

impl Work {
    /// Begins the work in an epoch, or goes on with it. Returns those of these partitions that are
    /// not done.
    pub fn begin(&mut self, epoch: u64, mut partitions: Vec<PartitionId>) -> Vec<PartitionId> {
        if self.epoch != epoch {
            *self = Work {
                epoch,
                ..Work::default()
            };
        }
        partitions.retain(|partition| !self.done.contains(partition));
        partitions
    }

    /// Notes that so many rows of a partition were looked at in this try.
    pub fn looked_at(&mut self, partition: PartitionId, rows: u64) {
        let most = self.rows.entry(partition).or_default();
        *most = rows.max(*most);
    }

    /// Notes the end of a try to move a partition.
    pub fn ended(&mut self, partition: PartitionId, moved: Result<(), Failed>) {
        match moved {
            Ok(()) => {
                self.failed.remove(&partition);
                self.done.insert(partition);
            }
            Err(failed) => {
                self.failed.insert(partition, failed);
            }
        }
    }

    /// Returns the rows of a partition that could not be moved in the last try.
    pub fn failed_in(&self, partition: PartitionId) -> Failed {
        let failed = self.failed.get(&partition);
        failed.cloned().unwrap_or_default()
    }

    /// Returns what operators see of the work in an epoch.
    pub fn shown(&self, epoch: u64) -> Shown {
        if self.epoch != epoch {
            return Shown::default();
        }
        Shown {
            done: self.done.len() as u32,
            rows: self.rows.values().sum(),
            trouble: self.failure().or_else(|| self.trouble.clone()),
            row: self.first_row().map(|(row, _)| row),
        }
    }

    /// Returns the reason why partitions are not done; `None` if none has failed.
    pub fn failure(&self) -> Option<String> {
        let first = self.failed.values().next()?;
        let Some((row, why)) = self.first_row() else {
            return Some(first.why.clone());
        };
        let count: usize = self.failed.values().map(|failed| failed.rows.len()).sum();
        let is_partial = self.failed.values().any(|failed| failed.is_partial);
        let (partition, key) = (row.partition, row.key.escape_ascii());
        Some(match (count, is_partial) {
            (1, false) => format!("row {partition}/{key} cannot be moved: {why}"),
            (_, false) => {
                format!("{count} rows cannot be moved; the first is row {partition}/{key}: {why}")
            }
            (_, true) => format!(
                "at least {count} of the rows cannot be moved; the first is row {partition}/{key}: {why}"
            ),
        })
    }

    /// Returns the first row that could not be moved, and its error.
    fn first_row(&self) -> Option<(RowKey, &str)> {
        let mut each = self.failed.iter();
        each.find_map(|(partition, failed)| {
            let (key, _) = failed.rows.first()?;
            let row = RowKey {
                partition: *partition,
                key: key.clone(),
            };
            Some((row, failed.why.as_str()))
        })
    }
}

impl Failed {
    /// Adds a row, unless there are enough.
    pub fn add(&mut self, row: &Listed, error: &Error) {
        if self.rows.is_empty() {
            self.why = error.to_string();
        }
        if !self.is_full() {
            self.rows.push(row.clone());
        }
    }

    /// Returns true if so many rows have failed that the partition is left for now.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= MOST_FAILED
    }

    /// Returns the result of a try that ended before all rows of the partition were tried.
    #[must_use]
    pub fn ended_by(mut self, error: &Error) -> Failed {
        if self.rows.is_empty() {
            self.why = error.to_string();
        }
        self.is_partial = true;
        self
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::default().ended_by(&error)
    }
}

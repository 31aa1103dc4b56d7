//! Fingerprints of partitions and windows, from what the store keeps in the rows' own transactions.

use std::ops::RangeInclusive;

use archipel_base::{BlockHash, PartitionId};
use archipel_storage::Error;
use archipel_storage::RowReader;
use archipel_storage::rows::{Fingerprint, Granularity, Window};

use crate::register::windows::WindowId;

/// The most months of a partition: more than eighty years.
const MAX_MONTHS: usize = 1000;

/// What a set of rows amounts to, shortened: different sets differ here, too, but for one case in 2^64.
pub(super) fn shortened(window: &Window) -> u64 {
    let mut whole = [0; 40];
    whole[..8].copy_from_slice(&window.rows.to_be_bytes());
    whole[8..].copy_from_slice(&window.fingerprint.0);
    let hash = BlockHash::of(&whole);
    hash.as_bytes()
        .iter()
        .take(8)
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Shortened fingerprints of whole partitions. Those without rows, most of them in a small store, cost one look for many.
pub(super) struct Prints<'a, 'b> {
    rows: &'a RowReader<'b>,
    /// Known to have no rows, and what they amount to.
    empty: Option<RangeInclusive<PartitionId>>,
    of_nothing: u64,
}

impl<'a, 'b> Prints<'a, 'b> {
    pub fn new(rows: &'a RowReader<'b>) -> Prints<'a, 'b> {
        Prints {
            rows,
            empty: None,
            of_nothing: shortened(&Window::default()),
        }
    }

    /// The fingerprint of a partition.
    pub fn of(&mut self, partition: PartitionId) -> Result<u64, Error> {
        if let Some(empty) = &self.empty
            && empty.contains(&partition)
        {
            return Ok(self.of_nothing);
        }
        let next = self.rows.next_partition(partition)?;
        if next == Some(partition) {
            return Ok(shortened(&of_partition(self.rows, partition)?));
        }
        // What comes next is above it, so there is one below that.
        let last = next.map_or(u16::MAX, |next| next.0.saturating_sub(1));
        self.empty = Some(partition..=PartitionId(last));
        Ok(self.of_nothing)
    }
}

/// All rows of a partition as one window.
pub(super) fn of_partition(rows: &RowReader<'_>, partition: PartitionId) -> Result<Window, Error> {
    let months = rows.windows(partition, Granularity::Month, 0, MAX_MONTHS)?;
    Ok(sum(months.into_iter().map(|(_, month)| month)))
}

/// Several windows as one.
pub(super) fn sum(windows: impl IntoIterator<Item = Window>) -> Window {
    let mut all = Window {
        rows: 0,
        fingerprint: Fingerprint::default(),
    };
    for window in windows {
        all.rows = all.rows.wrapping_add(window.rows);
        all.fingerprint.toggle(window.fingerprint);
    }
    all
}

/// The parts, with rows, of a window; of a whole partition its months. Their length, number and rows.
pub(super) fn parts(
    rows: &RowReader<'_>,
    partition: PartitionId,
    window: Option<WindowId>,
) -> Result<Vec<(u32, Window)>, Error> {
    let Some(window) = window else {
        return rows.windows(partition, Granularity::Month, 0, MAX_MONTHS);
    };
    let numbers: Vec<WindowId> = window.parts().collect();
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
        return Ok(Vec::new());
    };
    let mut found = rows.windows(partition, first.granularity, first.number, numbers.len())?;
    found.retain(|(number, _)| *number <= last.number);
    Ok(found)
}

/// How long the parts of a window are; `None` for an hour, which has none.
pub(super) fn length_of_parts(window: Option<WindowId>) -> Option<Granularity> {
    match window.map(|window| window.granularity) {
        None => Some(Granularity::Month),
        Some(Granularity::Month) => Some(Granularity::Day),
        Some(Granularity::Day) => Some(Granularity::Hour),
        Some(Granularity::Hour) => None,
    }
}

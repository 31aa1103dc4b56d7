//! Digests of partitions and windows, from what the store keeps in the rows' own transactions.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use archipel_base::{BlockHash, PartitionId};
use archipel_storage::Error;
use archipel_storage::RowReader;
use archipel_storage::rows::{Granularity, Window, WindowDigest};

use super::wire::Span;
use crate::register::windows::WindowId;

/// The most months of a partition: more than eighty years.
const MAX_MONTHS: usize = 1000;

/// Returns the digest of a set of rows, shortened to 8 bytes. Different sets have different
/// digests, except for one case in 2^64.
pub(in crate::upkeep) fn shortened(window: &Window) -> u64 {
    let mut whole = [0; 40];
    whole[..8].copy_from_slice(&window.rows.to_be_bytes());
    whole[8..].copy_from_slice(&window.digest.0);
    let hash = BlockHash::of(&whole);
    hash.as_bytes()
        .iter()
        .take(8)
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The shortened digests of whole partitions. One look covers many partitions without rows, which
/// are most of them in a small store.
pub(in crate::upkeep) struct Digests<'a, 'b> {
    rows: &'a RowReader<'b>,
    /// Partitions that are known to have no rows.
    empty: Option<RangeInclusive<PartitionId>>,
    of_nothing: u64,
}

impl<'a, 'b> Digests<'a, 'b> {
    pub fn new(rows: &'a RowReader<'b>) -> Digests<'a, 'b> {
        Digests {
            rows,
            empty: None,
            of_nothing: shortened(&Window::default()),
        }
    }

    /// Returns the digest of a partition.
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
        // The next partition with rows is above this one, so the subtraction is safe.
        let last = next.map_or(u16::MAX, |next| next.0.saturating_sub(1));
        self.empty = Some(partition..=PartitionId(last));
        Ok(self.of_nothing)
    }
}

/// Returns all rows of a partition as one window.
pub(in crate::upkeep) fn of_partition(
    rows: &RowReader<'_>,
    partition: PartitionId,
) -> Result<Window, Error> {
    let months = rows.windows(partition, Granularity::Month, 0, MAX_MONTHS)?;
    Ok(sum(months.into_iter().map(|(_, month)| month)))
}

/// Returns several windows as one.
pub(in crate::upkeep) fn sum(windows: impl IntoIterator<Item = Window>) -> Window {
    let mut all = Window {
        rows: 0,
        digest: WindowDigest::default(),
    };
    for window in windows {
        all.rows = all.rows.wrapping_add(window.rows);
        all.digest.toggle(window.digest);
    }
    all
}

/// Returns the parts of a window that have rows, with their length, number and rows. The parts of a
/// whole partition are its months.
pub(in crate::upkeep) fn parts(
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

/// Returns how long the parts of a window are; `None` for an hour, which has no parts.
fn length_of_parts(window: Option<WindowId>) -> Option<Granularity> {
    match window.map(|window| window.granularity) {
        None => Some(Granularity::Month),
        Some(Granularity::Month) => Some(Granularity::Day),
        Some(Granularity::Day) => Some(Granularity::Hour),
        Some(Granularity::Hour) => None,
    }
}

/// Returns the parts of these windows that have rows, with their shortened digests.
pub(super) fn parts_of(rows: &RowReader<'_>, spans: &[Span]) -> Result<BTreeMap<Span, u64>, Error> {
    let mut found = BTreeMap::new();
    for span in spans {
        let Some(window) = span.id() else { continue };
        for (number, window) in parts(rows, span.partition, window)? {
            if let Some(part) = part_of(span, number) {
                found.insert(part, shortened(&window));
            }
        }
    }
    Ok(found)
}

/// Returns the part of a window with this number.
pub(super) fn part_of(span: &Span, number: u32) -> Option<Span> {
    let granularity = length_of_parts(span.id()?)?;
    Some(Span {
        partition: span.partition,
        window: Some((granularity as u8, number)),
    })
}

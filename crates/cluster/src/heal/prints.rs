//! Fingerprints of partitions and windows, from what the store keeps in the rows' own transactions.

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

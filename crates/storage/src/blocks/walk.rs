//! A walk through the records of a segment, in batches: finds the gaps between them, and counts the
//! space that they need.

use super::index;
use super::location::DiskLocation;
use super::reclaim::Span;
use crate::disk::PUNCH_BYTES;
use crate::engine::{Flow, ReadTxn, Result};

/// The number of punchable gaps of a segment for which a file system may need one more page, to note
/// where the segment's parts are. ext4 and XFS note 125 or more in a page.
const GAPS_OF_A_PAGE: u64 = 64;

/// The bounds of a batch, which holds up other freeing passes.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub records: usize,
    pub gaps: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            records: 4096,
            gaps: 128,
        }
    }
}

/// A position between records.
#[derive(Clone, Copy, Default)]
pub(super) struct Position {
    /// The record before; `None` before the first record of the segment.
    after: Option<DiskLocation>,
    /// The end of the records before.
    pub end: u64,
}

/// A count of the space that the live records of a segment need.
pub(super) struct Count {
    position: Position,
    /// The space that the segment took before, in bytes.
    allocated: u64,
    pages: u64,
    /// The number of gaps that can be punched.
    gaps: u64,
}

/// The position after a scan.
#[derive(Clone, Copy)]
pub(super) enum Scanned {
    /// There may be more records.
    Some(Position),
    /// All records of the segment were seen.
    All(Position),
}

impl Position {
    /// Returns the gaps after the position that can be punched, in the bounds of a batch, and the new
    /// position.
    pub fn gaps(
        self,
        txn: &dyn ReadTxn,
        disk: u16,
        segment: u32,
        batch: Batch,
    ) -> Result<(Vec<Span>, Scanned)> {
        let mut gaps = Vec::new();
        let scanned = self.scan(txn, disk, segment, batch.records, |from, to, _| {
            let gap = Span {
                disk,
                segment,
                from,
                to,
            };
            if gap.inner().is_some() {
                gaps.push(gap);
            }
            gaps.len() < batch.gaps
        })?;
        Ok((gaps, scanned))
    }

    /// Visits records after the position: for each the end of the records before, its offset and its
    /// end. Ends after `records` of them, or when the visitor returns false.
    fn scan(
        self,
        txn: &dyn ReadTxn,
        disk: u16,
        segment: u32,
        records: usize,
        mut visit: impl FnMut(u64, u64, u64) -> bool,
    ) -> Result<Scanned> {
        // Begin before the segment, so that its first record is visited too.
        let before = DiskLocation {
            disk,
            segment: segment - 1,
            offset: u64::MAX,
        };
        let mut position = self;
        let mut seen = 0;
        let mut is_all = true;
        index::locations(txn, self.after.or(Some(before)), |_, located| {
            let location = located.location;
            if (location.disk, location.segment) != (disk, segment) {
                return Ok(Flow::Stop);
            }
            let wants_more = visit(position.end, location.offset, located.end());
            position = Position {
                after: Some(location),
                // If records overlap, the index is wrong. Then spare what either of them covers.
                end: position.end.max(located.end()),
            };
            seen += 1;
            if wants_more && seen < records {
                return Ok(Flow::Continue);
            }
            is_all = false;
            Ok(Flow::Stop)
        })?;
        Ok(if is_all {
            Scanned::All(position)
        } else {
            Scanned::Some(position)
        })
    }
}

/// The outcome of counting.
pub(super) enum Counted {
    /// Records are left to count.
    More(Count),
    /// The segment has space of dead records that is not freed yet.
    HasDeadSpace,
    /// The segment has no such space.
    NothingToFree,
}

impl Count {
    /// Begins to count in a segment that takes `allocated` bytes.
    pub fn new(allocated: u64) -> Count {
        Count {
            position: Position::default(),
            allocated,
            pages: 0,
            gaps: 0,
        }
    }

    /// Counts further records.
    pub fn more(
        mut self,
        txn: &dyn ReadTxn,
        disk: u16,
        segment: u32,
        batch: Batch,
    ) -> Result<Counted> {
        let (mut pages, mut gaps) = (self.pages, self.gaps);
        let scanned =
            self.position
                .scan(txn, disk, segment, batch.records, |from, offset, end| {
                    let gap = Span {
                        disk,
                        segment,
                        from,
                        to: offset,
                    };
                    gaps += u64::from(gap.inner().is_some());
                    // The record may share its first page with the one before.
                    let first = (offset / PUNCH_BYTES).max(from.div_ceil(PUNCH_BYTES));
                    pages += end.div_ceil(PUNCH_BYTES).saturating_sub(first);
                    true
                })?;
        (self.pages, self.gaps) = (pages, gaps);
        Ok(match scanned {
            Scanned::Some(position) => Counted::More(Count { position, ..self }),
            Scanned::All(_) if self.has_dead_space() => Counted::HasDeadSpace,
            Scanned::All(_) => Counted::NothingToFree,
        })
    }

    /// Returns true if the segment takes more than what lives in it, or less: then the file system counts
    /// in another way, for instance after it has compressed the content, and the figure says nothing.
    fn has_dead_space(&self) -> bool {
        self.allocated < self.pages * PUNCH_BYTES
            || self.allocated > (self.pages + self.gaps / GAPS_OF_A_PAGE) * PUNCH_BYTES
    }
}

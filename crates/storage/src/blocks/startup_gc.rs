//! Garbage collection after an unclean start: it frees the dead space of earlier processes.
//!
//! The last process may have ended before it freed what was dead. The next one serves at once, and
//! collects garbage in the background ([`startup_gc_thread`](super::startup_gc_thread)). The collection
//! walks through all segments in small batches. It punches every gap between records that must be kept,
//! and removes segments without such records.
//!
//! Gaps that were punched long ago would cost a system call each. So a segment that takes no more
//! space than its live records is left alone.
//!
//! # Schedule
//! A batch runs beside uploads, commits, moves and readers. It has four steps:
//! 1. It takes the lock of freeing passes and holds it to its end.
//! 2. It opens a view of the index, and finds the gaps between the records in it.
//! 3. It reads the append position, which bounds the last gap.
//! 4. It reads the pin table for each gap, and punches only what no record in the table touches.
//!
//! It never punches a record that must be kept, because each such record is in one of three places:
//! - *At or after the append position of step 3.* Positions of a segment only grow, and a segment that
//!   is not appended to never will be. So a record that is reserved after step 3 lies there, or in
//!   another segment.
//! - *In the pin table of step 4.* A record that is reserved before step 3 is in the table by then,
//!   because the lock of the append position covers both. It stays: only a freeing pass takes records
//!   out of the table, and the lock of step 1 keeps those away.
//! - *In the view of step 2.* A freeing pass that ended before step 1 takes a record that must be kept
//!   out of the table only if the index names it. Then the view has it, or a change removed it from
//!   the index later. That change, a release or a move, entered it into the table before its commit,
//!   and keeps it there until the commit is durable and the last reader has let go. The same is true
//!   of records of earlier processes: no table has them, and they must be kept only if the index names
//!   them. These names are durable, because the start synced the engine.
//!
//! An upload that deduplicates takes a record that the index or the table names, after it has pinned
//! the block. So it finds nothing that a batch may punch.
//!
//! Nothing is carried from one batch to the next but a position between records, and the space that a
//! segment took before its records were counted. Space that is freed while they are counted makes that
//! figure too large, so that the segment is searched for gaps.

use std::collections::VecDeque;

use super::Blocks;
use super::reclaim::Span;
use super::volume::{DiskState, Volume};
use super::walk::{Batch, Count, Counted, Position, Scanned};
use crate::engine::{ReadTxn, Result};
use crate::error::Error;

/// A garbage collection of all segments, in progress.
pub(super) struct StartupGc {
    batch: Batch,
    /// The disk and the number of each segment that is not done yet.
    segments: VecDeque<(u16, u32)>,
    /// The work in the first of them, if it has begun.
    work: Option<Work>,
    freed_bytes: u64,
    /// The first error. The segment was left.
    error: Option<Error>,
    /// True if a disk was left out because it failed.
    lacks_disk: bool,
}

/// The work in a segment.
enum Work {
    Count(Count),
    Punch(Position),
}

/// The outcome of a batch.
struct Done {
    freed_bytes: u64,
    /// The further work in the segment; `None` if it is done.
    more: Option<Work>,
}

impl Done {
    fn with(freed_bytes: u64) -> Done {
        Done {
            freed_bytes,
            more: None,
        }
    }

    fn and(self, work: Work) -> Done {
        Done {
            more: Some(work),
            ..self
        }
    }
}

impl StartupGc {
    /// Makes a garbage collection of all segments.
    pub fn new(blocks: &Blocks, batch: Batch) -> StartupGc {
        let mut gc = StartupGc {
            batch,
            segments: VecDeque::new(),
            work: None,
            freed_bytes: 0,
            error: None,
            lacks_disk: false,
        };
        for volume in blocks.volumes.values() {
            if volume.state() == DiskState::Failed {
                gc.lacks_disk = true;
                continue;
            }
            match volume.segments() {
                Ok(segments) => {
                    let numbered = segments.into_iter().filter(|segment| *segment > 0);
                    let segments = numbered.map(|segment| (volume.id, segment));
                    gc.segments.extend(segments);
                }
                Err(error) => gc.failed(blocks, error),
            }
        }
        gc
    }

    /// Runs a batch. Returns true if there is more to do.
    pub fn step(&mut self, blocks: &Blocks) -> bool {
        let Some((disk, segment)) = self.segments.front().copied() else {
            return false;
        };
        match blocks.collect_batch(disk, segment, self.work.take(), self.batch) {
            Ok(done) => {
                self.freed_bytes += done.freed_bytes;
                blocks.counters.punched_bytes.add(done.freed_bytes);
                self.work = done.more;
            }
            Err(error) => self.failed(blocks, error),
        }
        if self.work.is_none() {
            self.segments.pop_front();
        }
        if blocks.is_failed(disk) {
            self.lacks_disk = true;
            self.segments.retain(|(other, _)| *other != disk);
            self.work = None;
        }
        !self.segments.is_empty()
    }

    fn failed(&mut self, blocks: &Blocks, error: Error) {
        blocks.counters.free_errors.add(1);
        tracing::warn!("freeing dead space: {error}");
        self.error.get_or_insert(error);
    }

    /// Returns the number of segments that are not done yet.
    pub fn segments_left(&self) -> usize {
        self.segments.len()
    }

    /// Returns true if the collection has freed all that it should.
    pub fn is_complete(&self) -> bool {
        self.segments.is_empty() && self.error.is_none() && !self.lacks_disk
    }

    /// Returns the number of freed bytes, or the first error.
    pub fn result(self) -> Result<u64> {
        self.error.map_or(Ok(self.freed_bytes), Err)
    }

    /// Returns the number of freed bytes.
    pub fn freed_bytes(&self) -> u64 {
        self.freed_bytes
    }
}

impl Blocks {
    fn collect_batch(
        &self,
        disk: u16,
        segment: u32,
        work: Option<Work>,
        batch: Batch,
    ) -> Result<Done> {
        let _only = self.reclaiming.lock();
        let volume = self.volume(disk)?;
        volume.check()?;
        let txn = self.engine.read()?;
        match work {
            None => self.begin(&*txn, volume, segment),
            Some(Work::Count(count)) => {
                let count = count.more(&*txn, disk, segment, batch)?;
                Ok(Done::with(0)).map(|done| match count {
                    Counted::More(count) => done.and(Work::Count(count)),
                    Counted::HasDeadSpace => done.and(Work::Punch(Position::default())),
                    Counted::NothingToFree => done,
                })
            }
            Some(Work::Punch(position)) => self.punch_gaps(txn, volume, segment, position, batch),
        }
    }

    /// Removes the segment if it is empty. Otherwise decides what is to be done in it.
    fn begin(&self, txn: &dyn ReadTxn, volume: &Volume, segment: u32) -> Result<Done> {
        if let Some(freed) = self.try_unlink(txn, volume.id, segment)? {
            return Ok(Done::with(freed));
        }
        if volume.length_if_present(segment)? == 0 {
            return Ok(Done::with(0));
        }
        // The space that is allocated ahead in the active segment says nothing about dead records.
        let work = match volume.position_in(segment) {
            Some(_) => Work::Punch(Position::default()),
            None => Work::Count(Count::new(volume.measure(segment)?)),
        };
        Ok(Done::with(0).and(work))
    }

    fn punch_gaps(
        &self,
        txn: Box<dyn ReadTxn + '_>,
        volume: &Volume,
        segment: u32,
        position: Position,
        batch: Batch,
    ) -> Result<Done> {
        let disk = volume.id;
        let (mut gaps, next) = position.gaps(&*txn, disk, segment, batch)?;
        let end = volume.end_of(segment)?;
        if let Scanned::All(last) = next {
            gaps.push(Span {
                disk,
                segment,
                from: last.end,
                to: end,
            });
        }
        // The punches take longer than the scan, and an open view keeps the engine from reusing space.
        drop(txn);
        let mut ranges = Vec::new();
        for gap in gaps {
            let gap = Span {
                to: gap.to.min(end),
                ..gap
            };
            let parts = self.pin_table.parts_without_records(gap);
            ranges.extend(parts.iter().filter_map(Span::inner));
        }
        let done = Done::with(volume.punch(segment, &ranges)?);
        Ok(match next {
            Scanned::All(_) => done,
            Scanned::Some(position) => done.and(Work::Punch(position)),
        })
    }
}

//! Freeing of records that nobody pins and the committed index does not name.
//!
//! There is no compaction. The dead span around a freed record reaches from the end of the record
//! before to the start of the record after. It is punched out of the segment. An empty segment is
//! removed.
//!
//! # Invariants
//! - One pass runs at a time.
//! - A pass computes a span from a view of the index, and then from the pin table as it is *later*.
//!   Each live record is in one of the two, or beyond the append position that was read before. The
//!   record is in the view, or it entered the pin table before it left the index or was written
//!   (see [`pin_table`](super::pin_table)).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::location::{DiskLocation, LocatedRecord, NO_DISK};
use super::pin_table::Unpinned;
use super::volume::DiskState;
use super::{Blocks, index};
use crate::disk::PUNCH_BYTES;
use crate::engine::{ReadTxn, Result};
use crate::error::Error;

/// A dead range of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Span {
    pub disk: u16,
    pub segment: u32,
    pub from: u64,
    pub to: u64,
}

impl Span {
    /// Returns the part of the span that can be punched.
    pub fn inner(&self) -> Option<(u64, u64)> {
        let from = self.from.checked_next_multiple_of(PUNCH_BYTES)?;
        let to = self.to / PUNCH_BYTES * PUNCH_BYTES;
        (from < to).then_some((from, to))
    }
}

impl Blocks {
    /// Starts a pass in the background, unless one is about to begin.
    pub(super) fn reclaim_soon(self: &Arc<Blocks>) {
        if !self.reclaim_is_due.swap(true, Ordering::SeqCst) {
            let blocks = self.clone();
            self.pool.defer(move || blocks.reclaim());
        }
    }

    /// Frees all dead records. Errors are logged. Records that could not be freed are left for the
    /// next start, which then is none after a clean end.
    pub(super) fn reclaim(&self) {
        let _only = self.reclaiming.lock();
        self.reclaim_is_due.store(false, Ordering::SeqCst);
        let unpinned = self.pin_table.take_unpinned();
        if let Err(error) = self.reclaim_unpinned(&unpinned) {
            self.leave_over("freeing blocks", &error);
            self.pin_table.return_unpinned(&unpinned);
        }
    }

    fn reclaim_unpinned(&self, unpinned: &Unpinned) -> Result<()> {
        let mut dead = self.take_dead(unpinned)?;
        dead.retain(|located| located.location.disk != NO_DISK);
        let mut empty_candidates: BTreeSet<(u16, u32)> =
            unpinned.empty_candidates.iter().copied().collect();
        empty_candidates.extend(
            dead.iter()
                .map(|located| (located.location.disk, located.location.segment)),
        );
        if empty_candidates.is_empty() {
            return Ok(());
        }
        // This view is later than the one in `take_dead`. From now on nothing leaves the pin table.
        let txn = self.engine.read()?;
        empty_candidates.retain(|(disk, segment)| {
            if self.is_failed(*disk) {
                self.left_over.store(true, Ordering::SeqCst);
                return false;
            }
            !self.unlink_if_empty(&*txn, *disk, *segment)
        });
        let mut spans = BTreeSet::new();
        for located in &dead {
            if empty_candidates.contains(&(located.location.disk, located.location.segment)) {
                spans.extend(self.dead_span(&*txn, located.location)?);
            }
        }
        // A record that died at the end of the active segment could be freed only up to the last
        // whole page.
        for (disk, segment) in unpinned
            .empty_candidates
            .iter()
            .filter(|one| empty_candidates.contains(one))
        {
            let tail = DiskLocation {
                offset: u64::MAX,
                ..DiskLocation::first_of(*disk, *segment)
            };
            spans.extend(self.dead_span(&*txn, tail)?);
        }
        spans.iter().for_each(|span| self.punch(span));
        Ok(())
    }

    /// Forgets the blocks that nobody pinned again. Returns their dead records.
    fn take_dead(&self, unpinned: &Unpinned) -> Result<Vec<LocatedRecord>> {
        let mut indexed = Vec::with_capacity(unpinned.blocks.len());
        let txn = self.engine.read()?;
        for (hash, _) in &unpinned.blocks {
            indexed.push(index::entry(&*txn, hash)?.map(|entry| entry.located.location));
        }
        drop(txn);
        let mut dead = Vec::new();
        for ((hash, touched), location) in unpinned.blocks.iter().zip(indexed) {
            let freed = self.pin_table.forget_untouched(hash, *touched, location);
            self.counters.freed.add(freed.len() as u64);
            if location.is_none() && !freed.is_empty() {
                self.damaged.lock().remove(hash);
            }
            dead.extend(freed);
        }
        Ok(dead)
    }

    pub(super) fn is_failed(&self, disk: u16) -> bool {
        let volume = self.volumes.get(&disk);
        volume.is_none_or(|volume| volume.state() == DiskState::Failed)
    }

    /// Removes an inactive segment without records. Returns true if it is gone.
    fn unlink_if_empty(&self, txn: &dyn ReadTxn, disk: u16, segment: u32) -> bool {
        match self.try_unlink(txn, disk, segment) {
            Ok(None) => false,
            Ok(Some(freed)) => {
                self.counters.punched_bytes.add(freed);
                true
            }
            Err(error) => {
                self.leave_over("removing an empty segment", &error);
                false
            }
        }
    }

    /// Removes an inactive segment without records. Returns how many bytes that gave back; `None` if
    /// the segment stays. Only a freeing pass may call it, with a view that it opened.
    pub(super) fn try_unlink(
        &self,
        txn: &dyn ReadTxn,
        disk: u16,
        segment: u32,
    ) -> Result<Option<u64>> {
        let volume = self.volume(disk)?;
        let first = DiskLocation::first_of(disk, segment);
        if volume.position_in(segment).is_some()
            || index::first_from(txn, first)?.is_some()
            || self.pin_table.start_from(first).is_some()
        {
            return Ok(None);
        }
        volume.unlink(segment).map(Some)
    }

    /// Returns the span between the neighbours of a dead location.
    fn dead_span(&self, txn: &dyn ReadTxn, dead: DiskLocation) -> Result<Option<Span>> {
        let DiskLocation {
            disk,
            segment,
            offset,
        } = dead;
        let volume = self.volume(disk)?;
        // Read the append position before the table: space that is reserved later lies beyond it.
        let end = volume.end_of(segment)?;
        let before = index::last_before(txn, dead)?.map_or(0, |located| located.end());
        let after = index::first_from(txn, dead)?.map_or(end, |located| located.location.offset);
        let span = Span {
            disk,
            segment,
            from: before.max(self.pin_table.end_before(dead).unwrap_or(0)),
            to: after
                .min(self.pin_table.start_from(dead).unwrap_or(end))
                .min(end),
        };
        // A neighbour that reaches into the record means that the index is wrong. Then free
        // nothing.
        Ok((span.from <= offset).then_some(span))
    }

    fn punch(&self, span: &Span) {
        let Some(range) = span.inner() else {
            return;
        };
        let punched = self
            .volume(span.disk)
            .and_then(|volume| volume.punch(span.segment, &[range]));
        match punched {
            Ok(bytes) => self.counters.punched_bytes.add(bytes),
            Err(error) => self.leave_over("punching a segment", &error),
        }
    }

    /// Notes that something dead could not be freed. The next start looks for it.
    fn leave_over(&self, what: &str, error: &Error) {
        self.left_over.store(true, Ordering::SeqCst);
        self.counters.free_errors.add(1);
        tracing::warn!("{what}: {error}; the next start tries again");
    }
}

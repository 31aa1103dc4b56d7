//! Freeing: what nobody pins and the committed index does not name.
//!
//! There is no compaction. The dead span around a freed record, from the end of the record before
//! to the start of the one after it, is punched out of the segment, and an empty segment is removed.
//!
//! # Invariants
//! - One sweep at a time.
//! - A span is computed from a view of the index and from what the pin table holds *later*. A
//!   record that lives is in that view, or it came to the table before it left the index or was
//!   written (see [`table`](super::table)), or it lies beyond the append position read before.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::place::{Located, Place};
use super::table::Unpinned;
use super::volume::DiskState;
use super::{Blocks, index};
use crate::disk::PUNCH_BYTES;
use crate::engine::{ReadTxn, Result};

/// A dead range of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Span {
    pub disk: u16,
    pub segment: u32,
    pub from: u64,
    pub to: u64,
}

impl Span {
    /// The part that can be punched.
    pub fn inner(&self) -> Option<(u64, u64)> {
        let from = self.from.checked_next_multiple_of(PUNCH_BYTES)?;
        let to = self.to / PUNCH_BYTES * PUNCH_BYTES;
        (from < to).then_some((from, to))
    }
}

impl Blocks {
    /// Has a sweep done in the background, unless one is about to begin.
    pub(super) fn sweep_soon(self: &Arc<Blocks>) {
        if !self.sweep_is_due.swap(true, Ordering::SeqCst) {
            let blocks = self.clone();
            self.pool.defer(move || blocks.sweep());
        }
    }

    /// Frees what may go. What cannot be done is logged and left for the next sweep or start.
    pub(super) fn sweep(&self) {
        let _one = self.sweeper.lock().unwrap_or_else(PoisonError::into_inner);
        self.sweep_is_due.store(false, Ordering::SeqCst);
        let unpinned = self.table.take_unpinned();
        if let Err(error) = self.sweep_these(&unpinned) {
            self.counters.free_errors.add(1);
            tracing::warn!("freeing blocks: {error}");
            self.table.put_back(&unpinned);
        }
    }

    fn sweep_these(&self, unpinned: &Unpinned) -> Result<()> {
        let dead = self.forget(unpinned)?;
        let mut suspects: BTreeSet<(u16, u32)> = unpinned.suspects.iter().copied().collect();
        suspects.extend(
            dead.iter()
                .map(|located| (located.place.disk, located.place.segment)),
        );
        if suspects.is_empty() {
            return Ok(());
        }
        // A later view than that of `forget`: from now on nothing leaves the table.
        let txn = self.engine.read()?;
        suspects.retain(|(disk, segment)| {
            !self.is_failed(*disk) && !self.unlink_if_empty(&*txn, *disk, *segment)
        });
        let mut spans = BTreeSet::new();
        for located in &dead {
            if suspects.contains(&(located.place.disk, located.place.segment)) {
                spans.extend(self.dead_span(&*txn, located.place)?);
            }
        }
        // What died at the end of a segment while it was appended to could be freed only up to
        // the last whole page.
        for (disk, segment) in unpinned
            .suspects
            .iter()
            .filter(|one| suspects.contains(one))
        {
            let tail = Place {
                offset: u64::MAX,
                ..Place::first_of(*disk, *segment)
            };
            spans.extend(self.dead_span(&*txn, tail)?);
        }
        spans.iter().for_each(|span| self.punch(span));
        Ok(())
    }

    /// Forgets the blocks that nobody pinned again, and answers what lies dead.
    fn forget(&self, unpinned: &Unpinned) -> Result<Vec<Located>> {
        let mut indexed = Vec::with_capacity(unpinned.blocks.len());
        let txn = self.engine.read()?;
        for (hash, _) in &unpinned.blocks {
            indexed.push(index::entry(&*txn, hash)?.map(|entry| entry.located.place));
        }
        drop(txn);
        let mut dead = Vec::new();
        for ((hash, touched), place) in unpinned.blocks.iter().zip(indexed) {
            let freed = self.table.forget(hash, *touched, place);
            self.counters.freed.add(freed.len() as u64);
            if place.is_none() && !freed.is_empty() {
                self.damaged_names().remove(hash);
            }
            dead.extend(freed);
        }
        Ok(dead)
    }

    fn is_failed(&self, disk: u16) -> bool {
        let volume = self.volumes.get(&disk);
        volume.is_none_or(|volume| volume.state() == DiskState::Failed)
    }

    /// Removes a segment that takes no more records and has none; tells whether it is gone.
    fn unlink_if_empty(&self, txn: &dyn ReadTxn, disk: u16, segment: u32) -> bool {
        let removed = self.try_unlink(txn, disk, segment);
        removed.unwrap_or_else(|error| {
            self.counters.free_errors.add(1);
            tracing::warn!(disk, segment, "removing an empty segment: {error}");
            false
        })
    }

    fn try_unlink(&self, txn: &dyn ReadTxn, disk: u16, segment: u32) -> Result<bool> {
        let volume = self.volume(disk)?;
        let first = Place::first_of(disk, segment);
        let active = volume
            .active()
            .is_some_and(|active| active.segment == segment);
        if active
            || index::first_from(txn, first)?.is_some()
            || self.table.start_from(first).is_some()
        {
            return Ok(false);
        }
        self.counters.punched_bytes.add(volume.unlink(segment)?);
        Ok(true)
    }

    /// The span between the neighbours of a dead place.
    fn dead_span(&self, txn: &dyn ReadTxn, dead: Place) -> Result<Option<Span>> {
        let Place {
            disk,
            segment,
            offset,
        } = dead;
        let volume = self.volume(disk)?;
        // The append position is read before the table: what is reserved meanwhile lies beyond.
        let active = volume.active().filter(|active| active.segment == segment);
        let end = match active {
            Some(active) => active.head,
            None => volume.length_left(segment)?.next_multiple_of(PUNCH_BYTES),
        };
        let before = index::last_before(txn, dead)?.map_or(0, |located| located.end());
        let after = index::first_from(txn, dead)?.map_or(end, |located| located.place.offset);
        let span = Span {
            disk,
            segment,
            from: before.max(self.table.end_before(dead).unwrap_or(0)),
            to: after
                .min(self.table.start_from(dead).unwrap_or(end))
                .min(end),
        };
        // A neighbour that reaches into the record would mean that the index is wrong: hands off.
        Ok((span.from <= offset).then_some(span))
    }

    pub(super) fn punch(&self, span: &Span) {
        let Some((from, to)) = span.inner() else {
            return;
        };
        let punched = self
            .volume(span.disk)
            .and_then(|volume| volume.punch(span.segment, from, to));
        match punched {
            Ok(bytes) => self.counters.punched_bytes.add(bytes),
            Err(error) => {
                self.counters.free_errors.add(1);
                tracing::warn!("{error}");
            }
        }
    }
}

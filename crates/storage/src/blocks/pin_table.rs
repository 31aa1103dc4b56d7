//! The pin table: the holders of blocks, and locations that the committed index may not name.
//!
//! # Invariants
//! - `unindexed` contains every record that must be kept although the index may not name it: a
//!   record that is being written or is not committed yet, and a released record whose block is
//!   pinned or whose release is not durable.
//! - Only a freeing pass takes locations out of `unindexed`, and one pass runs at a time. So if a
//!   pass reads `unindexed` *after* it began to read the index, the two together contain all
//!   records that must be kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use archipel_base::BlockHash;
use parking_lot::{Condvar, Mutex};

use super::location::{DiskLocation, LocatedRecord};
use super::reclaim::Span;
use super::sync::Ticket;

/// The pins of a node's blocks, and the records that the committed index may not name.
#[derive(Default)]
pub(super) struct PinTable {
    state: Mutex<PinTableState>,
    released: Condvar,
}

#[derive(Default)]
struct PinTableState {
    held: HashMap<BlockHash, HeldBlock>,
    /// The begin and the end of each record that must be kept.
    unindexed: BTreeMap<DiskLocation, u64>,
    /// Blocks that lost their last pin and have locations to examine.
    unpinned: BTreeSet<BlockHash>,
    /// Segments that may be empty.
    empty_candidates: BTreeSet<(u16, u32)>,
    pins: u64,
}

/// A block that is pinned or waits to be freed.
#[derive(Default)]
struct HeldBlock {
    pins: u32,
    /// A number that changes with every pin. It tells a freeing pass that its view of the index is
    /// too old.
    touched: u64,
    /// True while an upload decides if and where to write the block.
    claimed: bool,
    /// The locations that the index may not name. The last one is the one to use.
    records: Vec<UsableRecord>,
    /// Locations that must not be used. They are freed with the last pin.
    discarded: Vec<LocatedRecord>,
}

/// A record that may be used.
#[derive(Clone)]
pub(super) struct UsableRecord {
    pub located: LocatedRecord,
    /// The ticket that makes the record durable; `None` if it is durable.
    pub ticket: Option<Ticket>,
}

impl HeldBlock {
    /// Forgets a location. Returns its ticket if it was a location to use.
    fn remove(&mut self, location: DiskLocation) -> Option<Ticket> {
        self.discarded.retain(|record| record.location != location);
        let here = |record: &UsableRecord| record.located.location == location;
        let position = self.records.iter().position(here)?;
        self.records.remove(position).ticket
    }
}

/// The work of one freeing pass.
pub(super) struct Unpinned {
    pub blocks: Vec<(BlockHash, u64)>,
    pub empty_candidates: Vec<(u16, u32)>,
}

impl PinTable {
    pub fn pin(&self, hash: &BlockHash) {
        let mut state = self.state.lock();
        state.pins += 1;
        let touched = state.pins;
        let held = state.held.entry(*hash).or_default();
        held.pins += 1;
        held.touched = touched;
    }

    /// Removes a pin. Returns true if a freeing pass is due.
    pub fn unpin(&self, hash: &BlockHash) -> bool {
        let mut state = self.state.lock();
        let Some(held) = state.held.get_mut(hash) else {
            return false;
        };
        held.pins = held.pins.saturating_sub(1);
        if held.pins > 0 {
            return false;
        }
        if held.records.is_empty() && held.discarded.is_empty() {
            state.held.remove(hash);
            return false;
        }
        state.unpinned.insert(*hash);
        true
    }

    /// Waits for the exclusive right to decide about the block, and takes it. The block must be
    /// pinned.
    pub fn claim(&self, hash: &BlockHash) {
        let mut state = self.state.lock();
        loop {
            let held = state.held.entry(*hash).or_default();
            if !held.claimed {
                held.claimed = true;
                return;
            }
            self.released.wait(&mut state);
        }
    }

    pub fn unclaim(&self, hash: &BlockHash) {
        if let Some(held) = self.state.lock().held.get_mut(hash) {
            held.claimed = false;
        }
        self.released.notify_all();
    }

    /// Returns the record of the block if the index may not name it. The block must be pinned.
    pub fn record(&self, hash: &BlockHash) -> Option<UsableRecord> {
        self.state.lock().held.get(hash)?.records.last().cloned()
    }

    /// Keeps the space of a record that is about to be written.
    pub fn reserve(&self, location: DiskLocation, end: u64) {
        self.state.lock().unindexed.insert(location, end);
    }

    /// Makes a record the one to use from now on. `ticket` makes it durable; `None` keeps the
    /// ticket that is known already. The block must be pinned.
    pub fn publish(&self, hash: &BlockHash, located: LocatedRecord, ticket: Option<Ticket>) {
        let mut state = self.state.lock();
        state.unindexed.insert(located.location, located.end());
        let held = state.held.entry(*hash).or_default();
        let known = held.remove(located.location);
        let ticket = ticket.or(known);
        held.records.push(UsableRecord { located, ticket });
    }

    /// Keeps the space of a record until the last pin goes, because a reader may still need it. The
    /// index is about to forget the record, or writing it failed. The block must be pinned.
    pub fn discard(&self, hash: &BlockHash, located: LocatedRecord) {
        let mut state = self.state.lock();
        state.unindexed.insert(located.location, located.end());
        let held = state.held.entry(*hash).or_default();
        held.remove(located.location);
        held.discarded.push(located);
    }

    /// Notes a segment that takes no more records and may have no live ones.
    pub fn note_empty_candidate(&self, disk: u16, segment: u32) {
        self.state.lock().empty_candidates.insert((disk, segment));
    }

    /// Takes the work for a freeing pass. Each block comes with its number of touches.
    pub fn take_unpinned(&self) -> Unpinned {
        let mut state = self.state.lock();
        let blocks = std::mem::take(&mut state.unpinned);
        let touched = |hash: &BlockHash| Some((*hash, state.held.get(hash)?.touched));
        let blocks = blocks.iter().filter_map(touched).collect();
        let empty_candidates = std::mem::take(&mut state.empty_candidates)
            .into_iter()
            .collect();
        Unpinned {
            blocks,
            empty_candidates,
        }
    }

    /// Returns the work that a freeing pass could not finish.
    pub fn return_unpinned(&self, unpinned: &Unpinned) {
        let mut state = self.state.lock();
        let blocks = unpinned.blocks.iter().map(|(hash, _)| *hash);
        let blocks: Vec<BlockHash> = blocks
            .filter(|hash| state.held.contains_key(hash))
            .collect();
        state.unpinned.extend(blocks);
        state.empty_candidates.extend(&unpinned.empty_candidates);
    }

    /// Forgets a block that nobody has touched since. Returns the records that are not at
    /// `indexed`. Only a freeing pass may call it.
    pub fn forget_untouched(
        &self,
        hash: &BlockHash,
        touched: u64,
        indexed: Option<DiskLocation>,
    ) -> Vec<LocatedRecord> {
        let mut state = self.state.lock();
        let untouched = |held: &&HeldBlock| held.pins == 0 && held.touched == touched;
        if state.held.get(hash).filter(untouched).is_none() {
            return Vec::new();
        }
        let Some(held) = state.held.remove(hash) else {
            return Vec::new();
        };
        let known = held.records.into_iter().map(|record| record.located);
        let mut records: Vec<LocatedRecord> = known.chain(held.discarded).collect();
        for located in &records {
            state.unindexed.remove(&located.location);
        }
        records.retain(|located| Some(located.location) != indexed);
        records
    }

    /// Returns true if no record must be kept that the index may not name.
    pub fn keeps_nothing(&self) -> bool {
        self.state.lock().unindexed.is_empty()
    }

    /// Returns true if a record on this disk must be kept although the index may not name it.
    pub fn has_on(&self, disk: u16) -> bool {
        let first = DiskLocation::first_of(disk, 0);
        let state = self.state.lock();
        let next = state.unindexed.range(first..).next();
        next.is_some_and(|(location, _)| location.disk == disk)
    }

    /// Returns the end of the last kept record before `location` in its segment.
    pub fn end_before(&self, location: DiskLocation) -> Option<u64> {
        let first = DiskLocation::first_of(location.disk, location.segment);
        let state = self.state.lock();
        let before = state.unindexed.range(first..location).next_back();
        before.map(|(_, end)| *end)
    }

    /// Returns the start of the first kept record at or after `location` in its segment.
    pub fn start_from(&self, location: DiskLocation) -> Option<u64> {
        let state = self.state.lock();
        let (next, _) = state.unindexed.range(location..).next()?;
        let same = (next.disk, next.segment) == (location.disk, location.segment);
        same.then_some(next.offset)
    }

    /// Returns the parts of a span that no kept record touches.
    pub fn parts_without_records(&self, span: Span) -> Vec<Span> {
        let Span {
            disk, segment, to, ..
        } = span;
        let at = |offset| DiskLocation {
            disk,
            segment,
            offset,
        };
        let mut parts = Vec::new();
        let mut from = span.from.max(self.end_before(at(span.from)).unwrap_or(0));
        if from >= to {
            return parts;
        }
        for (kept, end) in self.state.lock().unindexed.range(at(from)..at(to)) {
            if from < kept.offset {
                let to = kept.offset;
                parts.push(Span { from, to, ..span });
            }
            from = from.max(*end);
        }
        if from < to {
            parts.push(Span { from, ..span });
        }
        parts
    }

    /// Returns the number of blocks that are pinned or wait to be freed.
    pub fn held(&self) -> usize {
        self.state.lock().held.len()
    }
}

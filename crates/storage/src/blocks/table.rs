//! The pin table: who holds which block, and where blocks lie that the committed index may not name.
//!
//! # Invariants
//! - A record that is being written, or was written and not yet committed, or was released while
//!   its block is pinned, is in `unindexed`; so is one whose release is not durable.
//! - Only the sweeper takes places out of `unindexed`, and there is one sweep at a time. Hence
//!   what a sweep finds there *after* it began to read the index holds all that is not in that
//!   view of the index and must be kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use archipel_base::BlockHash;

use super::place::{Located, Place};

#[derive(Default)]
pub(super) struct Table {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    held: HashMap<BlockHash, Held>,
    /// Where a record that must be kept begins and ends.
    unindexed: BTreeMap<Place, u64>,
    /// Blocks that lost their last pin and have places to look after.
    unpinned: BTreeSet<BlockHash>,
    /// Segments that may be empty.
    suspects: BTreeSet<(u16, u32)>,
    pins: u64,
}

#[derive(Default)]
struct Held {
    pins: u32,
    /// Changes with every pin: tells a sweep that its view of the index is too old.
    touched: u64,
    /// Whether somebody decides right now whether and where to write it.
    claimed: bool,
    /// Where it lies, as far as the index may not say so; the last is the one to use.
    places: Vec<Located>,
    /// Where it lay, or should have lain: not to be used, and freed with the last pin.
    discarded: Vec<Located>,
}

impl Held {
    fn remove(&mut self, place: Place) {
        self.places.retain(|known| known.place != place);
        self.discarded.retain(|known| known.place != place);
    }
}

/// What a sweep has to look at.
pub(super) struct Unpinned {
    pub blocks: Vec<(BlockHash, u64)>,
    pub suspects: Vec<(u16, u32)>,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn pin(&self, hash: &BlockHash) {
        let mut state = self.lock();
        state.pins += 1;
        let touched = state.pins;
        let held = state.held.entry(*hash).or_default();
        held.pins += 1;
        held.touched = touched;
    }

    /// Takes a pin away. `true` if a sweep is due.
    pub fn unpin(&self, hash: &BlockHash) -> bool {
        let mut state = self.lock();
        let Some(held) = state.held.get_mut(hash) else {
            return false;
        };
        held.pins = held.pins.saturating_sub(1);
        if held.pins > 0 {
            return false;
        }
        if held.places.is_empty() && held.discarded.is_empty() {
            state.held.remove(hash);
            return false;
        }
        state.unpinned.insert(*hash);
        true
    }

    /// Waits until nobody else decides about the block, and claims that. It must be pinned.
    pub fn claim(&self, hash: &BlockHash) {
        let mut state = self.lock();
        loop {
            let held = state.held.entry(*hash).or_default();
            if !held.claimed {
                held.claimed = true;
                return;
            }
            state = self
                .released
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn unclaim(&self, hash: &BlockHash) {
        if let Some(held) = self.lock().held.get_mut(hash) {
            held.claimed = false;
        }
        self.released.notify_all();
    }

    /// Where the block lies, if the index may not know. The block must be pinned.
    pub fn place(&self, hash: &BlockHash) -> Option<Located> {
        self.lock().held.get(hash)?.places.last().copied()
    }

    /// Keeps the space of a record that is about to be written.
    pub fn reserve(&self, place: Place, end: u64) {
        self.lock().unindexed.insert(place, end);
    }

    /// Makes a place known as the one to use from now on. The block must be pinned.
    pub fn publish(&self, hash: &BlockHash, located: Located) {
        let mut state = self.lock();
        state.unindexed.insert(located.place, located.end());
        let held = state.held.entry(*hash).or_default();
        held.remove(located.place);
        held.places.push(located);
    }

    /// Keeps the space of a place until the last pin goes: somebody may still read it. The index
    /// is about to forget it, or writing it failed. The block must be pinned.
    pub fn discard(&self, hash: &BlockHash, located: Located) {
        let mut state = self.lock();
        state.unindexed.insert(located.place, located.end());
        let held = state.held.entry(*hash).or_default();
        held.remove(located.place);
        held.discarded.push(located);
    }

    /// A segment that takes no more records, and may have none that live.
    pub fn suspect(&self, disk: u16, segment: u32) {
        self.lock().suspects.insert((disk, segment));
    }

    /// What there is to sweep, each block with its count of touches.
    pub fn take_unpinned(&self) -> Unpinned {
        let mut state = self.lock();
        let blocks = std::mem::take(&mut state.unpinned);
        let touched = |hash: &BlockHash| Some((*hash, state.held.get(hash)?.touched));
        let blocks = blocks.iter().filter_map(touched).collect();
        let suspects = std::mem::take(&mut state.suspects).into_iter().collect();
        Unpinned { blocks, suspects }
    }

    /// Puts back what a sweep could not finish.
    pub fn put_back(&self, unpinned: &Unpinned) {
        let mut state = self.lock();
        let blocks = unpinned.blocks.iter().map(|(hash, _)| *hash);
        let blocks: Vec<BlockHash> = blocks
            .filter(|hash| state.held.contains_key(hash))
            .collect();
        state.unpinned.extend(blocks);
        state.suspects.extend(&unpinned.suspects);
    }

    /// Forgets a block that nobody touched since; answers the places that are not `indexed`.
    /// For the sweeper only.
    pub fn forget(&self, hash: &BlockHash, touched: u64, indexed: Option<Place>) -> Vec<Located> {
        let mut state = self.lock();
        let untouched = |held: &&Held| held.pins == 0 && held.touched == touched;
        if state.held.get(hash).filter(untouched).is_none() {
            return Vec::new();
        }
        let Some(held) = state.held.remove(hash) else {
            return Vec::new();
        };
        let mut places = [held.places, held.discarded].concat();
        for located in &places {
            state.unindexed.remove(&located.place);
        }
        places.retain(|located| Some(located.place) != indexed);
        places
    }

    /// Where the last kept record before `place` in its segment ends.
    pub fn end_before(&self, place: Place) -> Option<u64> {
        let first = Place::first_of(place.disk, place.segment);
        let state = self.lock();
        let before = state.unindexed.range(first..place).next_back();
        before.map(|(_, end)| *end)
    }

    /// Where the first kept record at or after `place` in its segment begins.
    pub fn start_from(&self, place: Place) -> Option<u64> {
        let state = self.lock();
        let (next, _) = state.unindexed.range(place..).next()?;
        let same = (next.disk, next.segment) == (place.disk, place.segment);
        same.then_some(next.offset)
    }

    /// How many blocks are pinned or looked after.
    pub fn held(&self) -> usize {
        self.lock().held.len()
    }
}

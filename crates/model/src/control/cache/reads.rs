//! Reads of control rows, and the order in which the cache takes them.
//!
//! Reads of rows run in parallel. No lock is held during network requests, so neither a slow change
//! nor a read of an unknown name delays the complete read that renews the lease. The cache follows
//! the order of the rows in this way:
//! - Each read gets a number when it begins. For each row, the cache holds the result of the read
//!   with the highest number that has been applied. A later result with a lower number is
//!   *overtaken*: it is dropped. A complete read is a read of all rows, also of those that it does
//!   not find.
//! - A quorum read sees all changes that ended before it began. A changed row is read again after
//!   the change. From then on the cache holds that read, or one with a higher number. All of these
//!   began after the change, so nothing brings back the state before it. The same holds for changes
//!   that other nodes announce.
//! - The deletion of an access key gets the highest number at its end. It overtakes all reads in
//!   progress.
//! - A complete read confirms the cache for the time at which it began. Each row then comes from
//!   this read, or from one with a higher number, which began later. So no row misses a change that
//!   ended before that time.
//!
//! A read can see a change before the change ends. If a read with a higher number overlaps and does
//! not see it, the cache holds the state before the change until the row is read after the change.
//! The node that makes the change reads the row before it answers. Another node reads it when it
//! gets the notice, or with the next complete read if the notice is lost.
//!
//! A read in progress keeps the names of the rows in which it is overtaken, until it ends or is
//! cancelled. So names that do not exist do not use up memory.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Cached, Control, Moment, State};
use crate::error::Error;

/// A read in progress, and the rows in which a read with a higher number has been applied.
#[derive(Default)]
pub(super) struct InProgress {
    /// The row that it reads; `None` for all.
    row: Option<Bytes>,
    overtaken: BTreeSet<Bytes>,
    overtaken_in_all: bool,
}

impl State {
    /// Notes that the cache holds a row as the read of this number saw it.
    fn overtake(&mut self, number: u64, key: &Bytes) {
        for read in self.reads.range_mut(..number).map(|(_, read)| read) {
            if read.row.as_ref().is_none_or(|row| row == key) {
                read.overtaken.insert(key.clone());
            }
        }
    }
}

/// A read in progress. It ends when it is dropped.
pub struct Read<'a> {
    control: &'a Control,
    number: u64,
    begun: Moment,
}

impl Read<'_> {
    /// Puts a row into the cache as this read saw it, unless the read is overtaken in it.
    pub fn apply(self, key: &Bytes, metadata: Option<&Bytes>) -> Result<(), Error> {
        let mut state = self.control.state.write();
        let this = state.reads.get(&self.number);
        if this.is_some_and(|read| read.overtaken_in_all || read.overtaken.contains(key)) {
            return Ok(());
        }
        let before = state.cached.in_row(key).cloned();
        state.cached.put(key, metadata, &*self.control.ring)?;
        state.overtake(self.number, key);
        if before.is_some_and(|bucket| !state.cached.has(&bucket)) {
            self.control.lost.notify_waiters();
        }
        Ok(())
    }

    /// Fills the cache with a complete read, which confirms it, or notes the error. Rows in which
    /// the read is overtaken stay as they are.
    pub fn confirm(self, read: Result<Cached, Error>) -> Result<(), Error> {
        let mut state = self.control.state.write();
        let this = state.reads.remove(&self.number).unwrap_or_default();
        if this.overtaken_in_all {
            return read.map(|_| ());
        }
        state.failure = read.as_ref().err().cloned();
        let mut fresh = read?;
        for key in &this.overtaken {
            fresh.copy(key, &state.cached);
        }
        let mut known = state.cached.buckets.values();
        let did_count = state.confirmed.is_some_and(|confirmed| {
            let age = confirmed.age(&*self.control.clock);
            age <= self.control.lease
        });
        if !did_count || known.any(|bucket| !fresh.has(bucket)) {
            self.control.lost.notify_waiters();
        }
        state.cached = fresh;
        state.confirmed = Some(self.begun);
        for earlier in state.reads.range_mut(..self.number).map(|(_, read)| read) {
            earlier.overtaken_in_all = true;
        }
        Ok(())
    }
}

impl Drop for Read<'_> {
    fn drop(&mut self) {
        self.control.state.write().reads.remove(&self.number);
    }
}

impl Control {
    /// Begins a read of a row; `None` for a complete read.
    pub fn begin_read(&self, row: Option<&Bytes>) -> Read<'_> {
        let mut state = self.state.write();
        state.last_read += 1;
        let number = state.last_read;
        let row = row.cloned();
        let read = InProgress {
            row,
            ..InProgress::default()
        };
        state.reads.insert(number, read);
        Read {
            control: self,
            number,
            begun: Moment::now(&*self.clock),
        }
    }

    /// Removes a row that was deleted just now: it overtakes all reads in progress.
    pub fn remove(&self, key: &Bytes) -> Result<(), Error> {
        self.begin_read(Some(key)).apply(key, None)
    }

    /// Returns how many reads are in progress.
    #[cfg(test)]
    pub fn reads(&self) -> usize {
        self.state.read().reads.len()
    }
}

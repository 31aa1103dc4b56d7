//! Appending records to the active segment of a disk.
//!
//! # Invariants
//! - One segment is appended to. Places are given out under one lock, and known to the pin table
//!   before the lock is let go; the writes themselves run side by side.

use std::io;
use std::sync::{MutexGuard, PoisonError};

use archipel_base::BlockHash;

use super::place::{Located, Place, record_bytes};
use super::record::Header;
use super::table::Table;
use super::volume::Volume;
use crate::engine::Result;
use crate::error::Error;

/// Where appending goes on.
#[derive(Default)]
pub(super) struct Append {
    active: Option<Active>,
    next_segment: u32,
}

/// The segment that is appended to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub segment: u32,
    /// Where the next record begins.
    pub head: u64,
    /// How far space is allocated.
    pub allocated: u64,
}

/// What a record stores.
#[derive(Clone, Copy)]
pub(super) struct Content<'a> {
    pub stored: &'a [u8],
    /// The length before compression.
    pub len: u32,
    pub compressed: bool,
}

impl Volume {
    /// Where appending goes on after a start.
    pub fn resume(&self, active: Option<Active>, next_segment: u32) -> Result<()> {
        let active = active.filter(|active| active.head < self.segment_bytes);
        *self.append() = Append {
            active,
            next_segment,
        };
        for segment in self.segments()? {
            self.measure(segment)?;
        }
        Ok(())
    }

    /// Writes a record; it is on stable storage after a sync of its segment. The block must be pinned.
    pub fn write(&self, table: &Table, hash: &BlockHash, content: Content<'_>) -> Result<Located> {
        self.check()?;
        let place = self.reserve(table, record_bytes(content.stored.len() as u32))?;
        let located = Located {
            place,
            stored: content.stored.len() as u32,
            len: content.len,
            compressed: content.compressed,
        };
        let header = Header {
            hash: *hash,
            located,
        };
        let parts = [&header.to_bytes(), content.stored];
        let written = self.disk.write_at(place.segment, place.offset, &parts);
        if let Err(error) = written {
            table.discard(hash, located);
            return Err(self.error("writing a block to", &error));
        }
        self.sync_of(place.segment).wrote();
        self.usage().add(place.segment, located.record_bytes());
        Ok(located)
    }

    /// Where appending goes on.
    pub fn active(&self) -> Option<Active> {
        self.append().active
    }

    /// Gives back the space that is allocated ahead.
    pub fn trim(&self) -> Result<()> {
        let mut append = self.append();
        let Some(active) = &mut append.active else {
            return Ok(());
        };
        self.cut(active)
    }

    fn append(&self) -> MutexGuard<'_, Append> {
        self.append.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives out a place for a record of `bytes`, and makes it known to `table`.
    fn reserve(&self, table: &Table, bytes: u64) -> Result<Place> {
        let mut append = self.append();
        let mut active = match append.active {
            Some(active) if active.head + bytes <= self.segment_bytes.max(bytes) => active,
            full => self.next_segment(&mut append, full, table)?,
        };
        if active.head + bytes > active.allocated {
            active.allocated = self.allocate(&active, bytes)?;
        }
        let place = Place {
            disk: self.id,
            segment: active.segment,
            offset: active.head,
        };
        active.head += bytes;
        append.active = Some(active);
        table.reserve(place, active.head);
        Ok(place)
    }

    fn next_segment(
        &self,
        append: &mut Append,
        full: Option<Active>,
        table: &Table,
    ) -> Result<Active> {
        if let Some(mut full) = full {
            append.active = None;
            table.suspect(self.id, full.segment);
            self.cut(&mut full)?;
        }
        let segment = append.next_segment;
        // A number is never tried twice, in case an attempt that failed left a file.
        append.next_segment = segment.checked_add(1).ok_or_else(|| {
            Error::Failed(format!("disk {}: no segment numbers are left", self.id))
        })?;
        if let Err(error) = self.disk.create(segment) {
            if error.raw_os_error() == Some(libc::EIO) {
                // It may have been the sync of the folder.
                self.fail(format!("making segment {segment}: {error}"));
            }
            return Err(self.error("making a segment on", &error));
        }
        let active = Active {
            segment,
            head: 0,
            allocated: 0,
        };
        append.active = Some(active);
        Ok(active)
    }

    /// Allocates space ahead: syncing is several times cheaper when it need not do that. If there
    /// is no room for a whole step, what the record needs.
    fn allocate(&self, active: &Active, bytes: u64) -> Result<u64> {
        let need = active.head + bytes;
        let step = need.max((active.allocated + self.preallocate_bytes).min(self.segment_bytes));
        for end in [step, need] {
            let len = end - active.allocated.min(end);
            match self.disk.preallocate(active.segment, active.allocated, len) {
                Ok(()) => return Ok(end),
                Err(error) if error.kind() == io::ErrorKind::StorageFull && end > need => {}
                Err(error) => return Err(self.error("allocating space on", &error)),
            }
        }
        Ok(need)
    }

    /// Cuts off what was allocated ahead.
    fn cut(&self, active: &mut Active) -> Result<()> {
        let cut = self.disk.set_length(active.segment, active.head);
        cut.map_err(|e| self.error("cutting a segment of", &e))?;
        active.allocated = active.head;
        self.measure(active.segment).map(|_| ())
    }
}

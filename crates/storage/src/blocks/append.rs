//! Appends of records to the active segment of a disk.
//!
//! # Invariants
//! - Each disk has one active segment. Locations are assigned under one lock, and the pin table
//!   learns of each before the lock is released. The writes themselves run concurrently.

use std::sync::Arc;

use archipel_base::BlockHash;

use super::location::{DiskLocation, LocatedRecord, record_bytes};
use super::pin_table::PinTable;
use super::record::Header;
use super::sync::Ticket;
use super::volume::Volume;
use crate::disk::{PUNCH_BYTES, write_zeros};
use crate::engine::Result;
use crate::error::Error;

/// The append position of a disk.
#[derive(Default)]
pub(super) struct Append {
    active: Option<Active>,
    next_segment: u32,
}

/// The active segment: the one that records are appended to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub segment: u32,
    /// The offset of the next record.
    pub position: u64,
    /// The offset up to which space is allocated.
    pub allocated: u64,
    /// The offset up to which zeros are written.
    pub zeroed: u64,
}

/// The content of a record, as it is stored.
#[derive(Clone, Copy)]
pub(super) struct Content<'a> {
    pub stored: &'a [u8],
    /// The length before compression, in bytes.
    pub len: u32,
    pub compressed: bool,
}

impl Volume {
    /// Sets the append position after a start.
    pub fn resume(&self, active: Option<Active>, next_segment: u32) -> Result<()> {
        let active = active.filter(|active| active.position < self.segment_bytes);
        *self.append.lock() = Append {
            active,
            next_segment,
        };
        for segment in self.segments()? {
            self.measure(segment)?;
        }
        Ok(())
    }

    /// Writes a record. Returns the ticket that makes it durable. The block must be pinned.
    pub fn write(
        self: &Arc<Volume>,
        table: &PinTable,
        hash: &BlockHash,
        content: Content<'_>,
    ) -> Result<(LocatedRecord, Ticket)> {
        self.check()?;
        let location = self.reserve(table, record_bytes(content.stored.len() as u32))?;
        let located = LocatedRecord {
            location,
            stored: content.stored.len() as u32,
            len: content.len,
            compressed: content.compressed,
        };
        let header = Header {
            hash: *hash,
            located,
        };
        let parts = [&header.to_bytes(), content.stored];
        let written = self
            .disk
            .write_at(location.segment, location.offset, &parts);
        if let Err(error) = written {
            table.discard(hash, located);
            return Err(self.error("writing a block to", &error));
        }
        self.usage
            .lock()
            .add(location.segment, located.record_bytes());
        Ok((located, Ticket::of_write(self, location.segment)))
    }

    /// Returns the active segment and the append position in it.
    pub fn active(&self) -> Option<Active> {
        self.append.lock().active
    }

    /// Returns the append position in `segment`; `None` if the segment is not appended to. Then it
    /// never will be.
    pub fn position_in(&self, segment: u32) -> Option<u64> {
        let active = self.active().filter(|active| active.segment == segment);
        active.map(|active| active.position)
    }

    /// Returns the end of the space that may hold dead records: the append position in `segment`, or
    /// the end of its last page. Space that is reserved later lies beyond it.
    pub fn end_of(&self, segment: u32) -> Result<u64> {
        match self.position_in(segment) {
            Some(position) => Ok(position),
            None => Ok(self
                .length_if_present(segment)?
                .next_multiple_of(PUNCH_BYTES)),
        }
    }

    /// Gives back the space that is allocated ahead.
    pub fn trim(&self) -> Result<()> {
        let mut append = self.append.lock();
        let Some(active) = &mut append.active else {
            return Ok(());
        };
        self.cut(active)
    }

    /// Assigns a location to a record of `bytes` and registers it in `table`.
    fn reserve(&self, table: &PinTable, bytes: u64) -> Result<DiskLocation> {
        let mut append = self.append.lock();
        let mut active = match append.active {
            Some(active) if active.position + bytes <= self.segment_bytes.max(bytes) => active,
            full => self.next_segment(&mut append, full, table)?,
        };
        let end = active.position + bytes;
        if end > active.allocated {
            active.allocated = self.allocate(&active, end)?;
        }
        if end > active.zeroed && self.is_worth_zeros(active.segment, bytes) {
            active.zeroed = self.write_zeros(&active, end)?;
        }
        let location = DiskLocation {
            disk: self.id,
            segment: active.segment,
            offset: active.position,
        };
        active.position = end;
        append.active = Some(active);
        table.reserve(location, active.position);
        Ok(location)
    }

    fn next_segment(
        &self,
        append: &mut Append,
        full: Option<Active>,
        table: &PinTable,
    ) -> Result<Active> {
        if let Some(mut full) = full {
            append.active = None;
            table.note_empty_candidate(self.id, full.segment);
            self.cut(&mut full)?;
        }
        let segment = append.next_segment;
        // A number is never tried twice, because a failed attempt may have left a file.
        append.next_segment = segment.checked_add(1).ok_or_else(|| {
            Error::Failed(format!("disk {}: no segment numbers are left", self.id))
        })?;
        if let Err(error) = self.disk.create(segment) {
            if error.raw_os_error() == Some(libc::EIO) {
                // The sync of the folder may have failed.
                self.fail(format!("making segment {segment}: {error}"));
            }
            return Err(self.error("making a segment on", &error));
        }
        let active = Active {
            segment,
            position: 0,
            allocated: 0,
            zeroed: 0,
        };
        append.active = Some(active);
        Ok(active)
    }

    /// Allocates space ahead, because a sync is several times cheaper if it need not allocate. If
    /// there is no room for a whole step, allocates only up to `need`, the end of the record. Returns
    /// where the allocated space ends.
    fn allocate(&self, active: &Active, need: u64) -> Result<u64> {
        let step = need.max((active.allocated + self.preallocate_bytes).min(self.segment_bytes));
        for end in [step, need] {
            let len = end - active.allocated.min(end);
            let allocated = self.disk.preallocate(active.segment, active.allocated, len);
            match allocated.map_err(|e| self.error("allocating space on", &e)) {
                Ok(()) => return Ok(end),
                // A quota may leave room for this record, too.
                Err(Error::Full(_)) if end > need => {}
                Err(error) => return Err(error),
            }
        }
        Ok(need)
    }

    /// Returns true if records of `bytes` come one by one, and are small enough for many of them to
    /// use the zeros of one step. Records that come together share a sync: there is little to save.
    fn is_worth_zeros(&self, segment: u32, bytes: u64) -> bool {
        bytes <= self.zero_bytes / 4
            && self.disk.syncs_overwrites_faster()
            && self.sync_of(segment).is_lone()
    }

    /// Writes zeros from `start`, where the next record ends, into the space that is allocated
    /// ahead. Returns where they end. The sync of a record that is written over them changes
    /// nothing of the file system's own data: that saves a flush of the disk for each of these
    /// records. No record is given a place meanwhile, because the caller holds the lock.
    fn write_zeros(&self, active: &Active, start: u64) -> Result<u64> {
        let end = active.allocated.min(start + self.zero_bytes);
        let written = write_zeros(&*self.disk, active.segment, start..end);
        match written.map_err(|e| self.error("writing zeros to", &e)) {
            Ok(()) => Ok(end),
            // There may be room for the record.
            Err(Error::Full(_)) => Ok(active.zeroed),
            Err(error) => Err(error),
        }
    }

    /// Cuts off the space that was allocated ahead.
    fn cut(&self, active: &mut Active) -> Result<()> {
        let cut = self.disk.set_length(active.segment, active.position);
        cut.map_err(|e| self.error("cutting a segment of", &e))?;
        active.allocated = active.position;
        active.zeroed = active.position;
        self.measure(active.segment).map(|_| ())
    }
}

//! The journal's files: three, used in turn, so that space is overwritten and not allocated again.
//!
//! # Invariants
//! - The file of a generation is `generation` modulo three. Its header is on stable storage before
//!   its first record is written.
//! - A generation's header is written over the file of the generation three before it. By then the
//!   header of the generation before says that the old one is no longer needed.
//! - All records of a generation are on stable storage before the next one has any.
//! - Whole pages are written, so that no write reads a page first. The bytes after the last record
//!   on its page are zeros.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::JournalLimits;
use super::record::{
    FileHeader, PAGE_BYTES, RecordPosition, Seal, record_header, short_record_header,
};
use crate::disk::{Disk, write_zeros};
use crate::engine::Result;
use crate::engine::failure::Breaker;
use crate::error::Error;

/// The number of files.
pub(super) const FILES: u64 = 3;

/// The files, and the state that a writer and a sync share.
pub(super) struct Log {
    pub disk: Arc<dyn Disk>,
    /// The journal's random name.
    pub name: [u8; 16],
    limits: JournalLimits,
    synced: Mutex<Synced>,
    /// Held during a sync. The kernel reports a failed write to one of two syncs that overlap, so
    /// none may begin before the other's outcome is known.
    syncing: Mutex<()>,
}

/// The part of the current generation that is on stable storage.
#[derive(Clone, Copy, Default)]
struct Synced {
    generation: u64,
    records: u32,
}

/// The end of the journal. It belongs to the writer.
#[derive(Default)]
pub(super) struct Tail {
    pub generation: u64,
    /// The number of records of this generation.
    pub records: u32,
    /// The end of the last record, in bytes from the start of the file.
    pub end: u64,
    /// The content of the last page up to `end`.
    pub page: Vec<u8>,
    /// The length of the file, in bytes.
    pub length: u64,
}

pub(super) fn file_of(generation: u64) -> u32 {
    (generation % FILES) as u32
}

impl Log {
    pub fn new(disk: Arc<dyn Disk>, name: [u8; 16], limits: JournalLimits) -> Log {
        Log {
            disk,
            name,
            limits,
            synced: Mutex::default(),
            syncing: Mutex::default(),
        }
    }

    pub fn seal(&self, generation: u64) -> Seal {
        Seal::new(self.name, generation)
    }

    /// Makes all files, so that a node whose disk fills up can still prepare each.
    pub fn make_files(&self) -> io::Result<()> {
        (0..FILES).try_for_each(|file| self.make_file(file as u32))
    }

    fn make_file(&self, file: u32) -> io::Result<()> {
        if !self.disk.segments()?.contains(&file) {
            self.disk.create(file)?;
        }
        let length = self.disk.length(file)?;
        if length < self.step() {
            self.zero(file, length, self.step())?;
        }
        Ok(())
    }

    /// Writes the header of `generation` and syncs it. Nothing before `oldest` is needed any more.
    pub fn prepare(&self, generation: u64, oldest: u64) -> io::Result<()> {
        let header = FileHeader {
            journal: self.name,
            generation,
            oldest,
        };
        let file = file_of(generation);
        self.make_file(file)?;
        if self.disk.length(file)? > 2 * self.limits.file_bytes {
            self.disk.set_length(file, self.limits.file_bytes)?;
        }
        self.disk.write_at(file, 0, &[&header.encode()])?;
        self.disk.sync(file)
    }

    /// Begins to write to `generation`, which is prepared. The one before has `records` records.
    pub fn begin(&self, generation: u64, records: u32) -> io::Result<Tail> {
        let mut tail = Tail {
            generation,
            records: 0,
            end: PAGE_BYTES as u64,
            page: Vec::new(),
            length: self.disk.length(file_of(generation))?,
        };
        self.note_synced(generation, 0);
        // The first record reaches the disk together with the second.
        let body = records.to_be_bytes();
        let header = short_record_header(self.seal(generation), tail.next_position(0), &body);
        tail.page = [&header[..], &body].concat();
        tail.end += tail.page.len() as u64;
        tail.records = 1;
        Ok(tail)
    }

    /// Appends a record. After an error the tail is as before, and the next record takes the place
    /// of this one.
    pub fn append(&self, tail: &mut Tail, body: &[u8], breaker: &Breaker) -> Result<()> {
        let position = tail.next_position(self.synced.lock().records);
        let header = record_header(self.seal(tail.generation), position, body)?;
        let start = tail.end - tail.page.len() as u64;
        let end = tail.end + (header.len() + body.len()) as u64;
        let padded = end.next_multiple_of(PAGE_BYTES as u64);
        let fail = |e: io::Error| Error::from_io("writing to the journal", &e);
        self.grow(tail, padded).map_err(fail)?;
        let padding = &[0; PAGE_BYTES][..(padded - end) as usize];
        let parts: [&[u8]; 4] = [&tail.page, &header, body, padding];
        let file = file_of(tail.generation);
        if let Err(error) = self.disk.write_at(file, start, &parts) {
            self.wipe(tail, breaker)?;
            return Err(fail(error));
        }
        let in_page = (end % PAGE_BYTES as u64) as usize;
        tail.page = end_of(&[&tail.page, &header, body], in_page);
        tail.end = end;
        tail.records += 1;
        Ok(())
    }

    /// Makes sure that nothing of a refused record after the end is ever read.
    fn wipe(&self, tail: &Tail, breaker: &Breaker) -> Result<()> {
        let file = file_of(tail.generation);
        let zeros = &[0; PAGE_BYTES][tail.page.len()..];
        let _one_at_a_time = self.syncing.lock();
        self.disk
            .write_at(file, tail.end, &[zeros])
            .and_then(|()| self.disk.sync(file))
            .map_err(|e| breaker.trip("wiping a refused record", e))
    }

    /// Makes the file at least `needed` long. It grows with zeros that are written and not only
    /// allocated, so that later syncs need not change the file system's own data.
    fn grow(&self, tail: &mut Tail, needed: u64) -> io::Result<()> {
        if needed <= tail.length {
            return Ok(());
        }
        let grown = self.grow_to(tail, needed.next_multiple_of(self.step()));
        match grown {
            // There may be room for this record.
            Err(error) if is_full(&error) => self.grow_to(tail, needed),
            other => other,
        }
    }

    fn grow_to(&self, tail: &mut Tail, target: u64) -> io::Result<()> {
        self.zero(file_of(tail.generation), tail.length, target)?;
        tail.length = target;
        Ok(())
    }

    fn step(&self) -> u64 {
        self.limits.growth_bytes.max(PAGE_BYTES as u64)
    }

    /// Writes zeros from `start` to `end`, beyond the end of a file.
    fn zero(&self, file: u32, start: u64, end: u64) -> io::Result<()> {
        self.disk.preallocate(file, start, end - start)?;
        write_zeros(&*self.disk, file, start..end)
    }

    /// Puts the first `records` records of `generation` on stable storage.
    pub fn sync(&self, generation: u64, records: u32, breaker: &Breaker) -> Result<()> {
        let _one_at_a_time = self.syncing.lock();
        breaker.check()?;
        if self.is_synced(generation, records) {
            return Ok(());
        }
        self.disk
            .sync(file_of(generation))
            .map_err(|e| breaker.trip("syncing the journal", e))?;
        self.note_synced(generation, records);
        Ok(())
    }

    /// Notes that the first `records` records of `generation`, the current one, are on stable
    /// storage.
    pub fn note_synced(&self, generation: u64, records: u32) {
        let mut synced = self.synced.lock();
        if synced.generation < generation {
            *synced = Synced {
                generation,
                records: 0,
            };
        }
        if synced.generation == generation {
            synced.records = synced.records.max(records);
        }
    }

    /// Returns true if the first `records` records of `generation` are on stable storage.
    pub fn is_synced(&self, generation: u64, records: u32) -> bool {
        let synced = *self.synced.lock();
        // A later generation begins when all of this one is synced. The first record says nothing
        // that needs a sync.
        synced.generation > generation || synced.records >= records || records <= 1
    }
}

impl Tail {
    fn next_position(&self, synced: u32) -> RecordPosition {
        RecordPosition {
            index: self.records,
            synced,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Returns the last `len` bytes of `parts` together.
fn end_of(parts: &[&[u8]], len: usize) -> Vec<u8> {
    let mut end = Vec::with_capacity(PAGE_BYTES);
    let total: usize = parts.iter().map(|part| part.len()).sum();
    let mut skip = total - len;
    for part in parts {
        let skipped = skip.min(part.len());
        end.extend_from_slice(&part[skipped..]);
        skip -= skipped;
    }
    end
}

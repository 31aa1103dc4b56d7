//! Reading the journal after a start.

use std::io;

use super::log::{FILES, Log, Tail, file_of};
use super::memtable::Memtable;
use super::record::{
    FileHeader, PAGE_BYTES, RECORD_HEADER_BYTES, apply_changes, find_record, read_record,
};
use crate::disk::Disk;
use crate::engine::Result;
use crate::error::Error;

const ADVICE: &str =
    "restore a snapshot, or start with an empty store and let the other nodes fill it";

/// A generation as it was found.
pub(super) struct Generation {
    pub changes: Memtable,
    pub tail: Tail,
    /// The start of its file, as it is to be.
    content: Vec<u8>,
}

/// The generations that the engine below lacks.
pub(super) struct Recovered {
    /// The generation that is written to.
    pub active: Generation,
    /// The generation before it, if the engine lacks that, too.
    pub frozen: Option<Generation>,
    /// The generation after it, if that is prepared.
    pub next: Option<Generation>,
}

/// Returns the name of the journal on `disk`, if a whole header is there.
pub(super) fn name_of(disk: &dyn Disk) -> Result<Option<[u8; 16]>> {
    let headers = headers(disk)?;
    let newest = headers.iter().max_by_key(|header| header.generation);
    Ok(newest.map(|header| header.journal))
}

/// Reads what follows generation `applied`, or all that the newest header names; `None` if there is
/// no journal. Changes nothing.
///
/// # Errors
/// [`Error::Damaged`] if records are missing that were on stable storage once; [`Error::Failed`] if
/// the journal does not follow `applied`.
pub(super) fn recover(log: &Log, applied: Option<u64>) -> Result<Option<Recovered>> {
    let mut headers = headers(&*log.disk)?;
    headers.retain(|header| header.journal == log.name);
    let Some(newest) = headers.iter().max_by_key(|header| header.generation) else {
        return Ok(None);
    };
    let prepared = newest.generation;
    let first = applied.map_or(newest.oldest, |applied| applied + 1);
    if first < newest.oldest || first > prepared || prepared - newest.oldest > 1 {
        return Err(Error::Failed(format!(
            "the journal has generations {} to {prepared}, and the metadata needs {first}: it belongs to another state of the metadata. Restore both together, or restore a snapshot",
            newest.oldest
        )));
    }
    let has_header = |wanted| headers.iter().any(|header| header.generation == wanted);
    if let Some(missing) = (first..=prepared).find(|wanted| !has_header(*wanted)) {
        return Err(Error::Damaged(format!(
            "generation {missing} of the journal is missing: {ADVICE}"
        )));
    }
    check_that_none_follows(log, prepared)?;
    let mut read: Vec<Generation> = Vec::new();
    for generation in first..=prepared {
        let before = read.last().map(|before| before.tail.records);
        read.push(read_generation(log, generation, before)?);
    }
    let mut active = read.pop();
    let (mut frozen, mut next) = (read.pop(), None);
    // The newest one may only be prepared.
    if frozen.is_some() && active.as_ref().is_some_and(|last| last.tail.records == 0) {
        next = active;
        active = frozen.take();
    }
    Ok(active.map(|active| Recovered {
        active,
        frozen,
        next,
    }))
}

impl Recovered {
    /// Makes a new journal.
    pub fn new(log: &Log) -> Result<Recovered> {
        log.make_files()
            .and_then(|()| log.prepare(1, 1))
            .map_err(|e| Error::from_io("making the journal", &e))?;
        Ok(Recovered {
            active: read_generation(log, 1, None)?,
            frozen: None,
            next: None,
        })
    }

    /// Returns true if there is any change.
    pub fn has_changes(&self) -> bool {
        self.frozen.is_some() || !self.active.changes.is_empty()
    }

    /// Puts what was read on stable storage, and wipes what follows it. Records of a killed process
    /// may be in the kernel's cache alone, even if a sync that failed has left the cache clean. So
    /// they are written again before anyone sees them.
    pub fn rewrite(&mut self, log: &Log) -> Result<()> {
        let before = self.frozen.iter_mut().chain([&mut self.active]);
        for generation in before.chain(&mut self.next) {
            let file = file_of(generation.tail.generation);
            let content = std::mem::take(&mut generation.content);
            log.disk
                .write_at(file, 0, &[&content])
                .and_then(|()| log.disk.sync(file))
                .map_err(|e| Error::from_io("rewriting the journal", &e))?;
        }
        let tail = &mut self.active.tail;
        log.note_synced(tail.generation, tail.records);
        if tail.records == 0 {
            *tail = log.begin(tail.generation, 0).map_err(|e| fail(&e))?;
        }
        Ok(())
    }
}

fn fail(error: &io::Error) -> Error {
    Error::from_io("reading the journal", error)
}

fn headers(disk: &dyn Disk) -> Result<Vec<FileHeader>> {
    let mut headers = Vec::new();
    for file in disk.segments().map_err(|e| fail(&e))? {
        let length = disk.length(file).map_err(|e| fail(&e))?;
        if u64::from(file) >= FILES || length < PAGE_BYTES as u64 {
            continue;
        }
        let mut page = vec![0; PAGE_BYTES];
        disk.read_at(file, 0, &mut page).map_err(|e| fail(&e))?;
        let header = FileHeader::decode(&page)?;
        headers.extend(header.filter(|header| file_of(header.generation) == file));
    }
    Ok(headers)
}

/// Returns the content of a file, if it exists.
fn read_file(log: &Log, file: u32) -> io::Result<Option<Vec<u8>>> {
    if !log.disk.segments()?.contains(&file) {
        return Ok(None);
    }
    let mut content = vec![0; log.disk.length(file)? as usize];
    log.disk.read_at(file, 0, &mut content)?;
    Ok(Some(content))
}

/// Checks that the generation after the newest has no records. Its header was on stable storage
/// before its first record, so the header would be damaged.
fn check_that_none_follows(log: &Log, newest: u64) -> Result<()> {
    let content = read_file(log, file_of(newest + 1)).map_err(|e| fail(&e))?;
    match content.and_then(|content| find_record(&content, log.seal(newest + 1)).map(drop)) {
        Some(()) => Err(Error::Damaged(format!(
            "generation {} of the journal has records and no header: {ADVICE}",
            newest + 1
        ))),
        None => Ok(()),
    }
}

/// Reads a generation. Its end is the last record before the first that is not whole. `before` is
/// the number of records found of the generation before, if that was read.
fn read_generation(log: &Log, generation: u64, before: Option<u32>) -> Result<Generation> {
    let content = read_file(log, file_of(generation)).map_err(|e| fail(&e))?;
    let mut content = content.unwrap_or_default();
    let length = content.len();
    let seal = log.seal(generation);
    let mut changes = Memtable::default();
    let (mut records, mut end) = (0, PAGE_BYTES.min(length));
    while let Some(record) =
        read_record(&content[end..], seal).filter(|record| record.position.index == records)
    {
        if records == 0 {
            check_before(record.body, before, generation)?;
        } else {
            apply_changes(record.body, &mut changes)?;
        }
        records += 1;
        end += RECORD_HEADER_BYTES + record.body.len();
    }
    // A later record may be whole if the two were written together. But if it was written after
    // this one was on stable storage, this one is lost.
    let mut wiped = end;
    while let Some((at, later)) = find_record(&content[wiped..], seal) {
        if later.position.synced > records {
            return Err(Error::Damaged(format!(
                "record {records} of generation {generation} of the journal is damaged, and record {} follows: {ADVICE}",
                later.position.index
            )));
        }
        wiped += at + RECORD_HEADER_BYTES + later.body.len();
    }
    // One page more: the kernel's cache may hide a record there that an earlier start has wiped.
    content.truncate(wiped.next_multiple_of(PAGE_BYTES) + PAGE_BYTES);
    content[end..].fill(0);
    let tail = Tail {
        generation,
        records,
        end: end as u64,
        page: content[end - end % PAGE_BYTES..end].to_vec(),
        length: length as u64,
    };
    Ok(Generation {
        changes,
        tail,
        content,
    })
}

/// Checks the first record, which says how many records the generation before has.
fn check_before(body: &[u8], found: Option<u32>, generation: u64) -> Result<()> {
    let expected = body.try_into().map_or(u32::MAX, u32::from_be_bytes);
    match found {
        Some(found) if expected > 0 && found != expected => Err(Error::Damaged(format!(
            "generation {} of the journal has {found} whole records of {expected}: {ADVICE}",
            generation - 1
        ))),
        _ => Ok(()),
    }
}

//! The bytes of the journal's files. `docs/internals/journal.md` describes them.

use bytes::Bytes;

use super::memtable::Memtable;
use crate::checksum::crc32c_of;
use crate::engine::{MAX_KEY_BYTES, Result, Tree};
use crate::error::Error;

/// The unit of writes. The header of a file takes the first page.
pub(super) const PAGE_BYTES: usize = 4096;
/// The bytes before the body of a record.
pub(super) const RECORD_HEADER_BYTES: usize = 24;
/// The longest body of a record.
const MAX_BODY_BYTES: usize = 1 << 30;

const FILE_MAGIC: &[u8; 8] = b"ARCHJRNL";
const RECORD_MAGIC: &[u8; 4] = b"JREC";
const VERSION: u8 = 1;
const FILE_HEADER_BYTES: usize = 8 + 1 + 16 + 8 + 8;

const PUT: u8 = 0;
const DELETE: u8 = 1;

/// The header of a journal file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileHeader {
    /// The journal's random name.
    pub journal: [u8; 16],
    /// The generation whose records follow.
    pub generation: u64,
    /// The oldest generation that the engine below may lack.
    pub oldest: u64,
}

impl FileHeader {
    /// Returns the first page of a file.
    pub fn encode(&self) -> Vec<u8> {
        let mut page = Vec::with_capacity(PAGE_BYTES);
        page.extend_from_slice(FILE_MAGIC);
        page.push(VERSION);
        page.extend_from_slice(&self.journal);
        page.extend_from_slice(&self.generation.to_be_bytes());
        page.extend_from_slice(&self.oldest.to_be_bytes());
        let checksum = crc32c_of(&[&page]);
        page.extend_from_slice(&checksum.to_be_bytes());
        page.resize(PAGE_BYTES, 0);
        page
    }

    /// Returns the header of a file, or `None` if there is no whole one.
    ///
    /// # Errors
    /// [`Error::Newer`] if a later release wrote it.
    pub fn decode(page: &[u8]) -> Result<Option<FileHeader>> {
        let Some((header, rest)) = page.split_at_checked(FILE_HEADER_BYTES) else {
            return Ok(None);
        };
        let mut fields = Fields(header);
        let checksum = Fields(rest).number::<4>();
        if fields.take(8) != Some(FILE_MAGIC) || checksum != Some(u64::from(crc32c_of(&[header]))) {
            return Ok(None);
        }
        let version = fields.take(1).map_or(0, |version| version[0]);
        if version != VERSION {
            return Err(Error::Newer(format!(
                "a journal of version {version} (this release reads version {VERSION})"
            )));
        }
        let journal = fields.take(16).and_then(|name| name.try_into().ok());
        let numbers = (fields.number::<8>(), fields.number::<8>());
        Ok(match (journal, numbers) {
            (Some(journal), (Some(generation), Some(oldest))) => Some(FileHeader {
                journal,
                generation,
                oldest,
            }),
            _ => None,
        })
    }
}

/// The journal and the generation that a record belongs to. A record elsewhere is not whole, and
/// nobody can make one without the journal's random name, not even in the content of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seal(u32);

impl Seal {
    pub fn new(journal: [u8; 16], generation: u64) -> Seal {
        Seal(crc32c_of(&[&journal, &generation.to_be_bytes()]))
    }

    fn checksum(self, header: &[u8]) -> u32 {
        crc32c_of(&[&self.0.to_be_bytes(), header])
    }
}

/// The position of a record in its generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordPosition {
    /// The number of earlier records of the generation.
    pub index: u32,
    /// The number of the generation's records on stable storage when this one was written.
    pub synced: u32,
}

/// Returns the bytes before `body`.
///
/// # Errors
/// [`Error::Refused`] if the body is too long.
pub(super) fn record_header(
    seal: Seal,
    position: RecordPosition,
    body: &[u8],
) -> Result<[u8; RECORD_HEADER_BYTES]> {
    if body.len() > MAX_BODY_BYTES {
        return Err(Error::Refused(format!(
            "a transaction of {} bytes; at most {MAX_BODY_BYTES} are possible",
            body.len()
        )));
    }
    Ok(short_record_header(seal, position, body))
}

/// Returns the bytes before a body that is not too long.
pub(super) fn short_record_header(
    seal: Seal,
    position: RecordPosition,
    body: &[u8],
) -> [u8; RECORD_HEADER_BYTES] {
    let mut header = [0; RECORD_HEADER_BYTES];
    header[..4].copy_from_slice(RECORD_MAGIC);
    header[4..8].copy_from_slice(&(body.len() as u32).to_be_bytes());
    header[8..12].copy_from_slice(&position.index.to_be_bytes());
    header[12..16].copy_from_slice(&position.synced.to_be_bytes());
    header[16..20].copy_from_slice(&crc32c_of(&[body]).to_be_bytes());
    let checksum = seal.checksum(&header[..20]);
    header[20..].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// A whole record.
pub(super) struct Record<'b> {
    pub position: RecordPosition,
    pub body: &'b [u8],
}

/// Returns the record at the start of `bytes`, if a whole one under `seal` is there.
pub(super) fn read_record(bytes: &[u8], seal: Seal) -> Option<Record<'_>> {
    let (header, rest) = bytes.split_at_checked(RECORD_HEADER_BYTES)?;
    let mut fields = Fields(header);
    if fields.take(4)? != RECORD_MAGIC {
        return None;
    }
    let len = fields.number::<4>()?;
    let index = fields.number::<4>()? as u32;
    let synced = fields.number::<4>()? as u32;
    let body_checksum = fields.number::<4>()?;
    // The header first: a wrong length would make the next checksum expensive.
    if fields.number::<4>()? != u64::from(seal.checksum(&header[..20])) {
        return None;
    }
    let body = rest.get(..usize::try_from(len).ok()?)?;
    if body_checksum != u64::from(crc32c_of(&[body])) {
        return None;
    }
    let position = RecordPosition { index, synced };
    Some(Record { position, body })
}

/// Returns the first whole record under `seal` that begins in `bytes`, and where.
pub(super) fn find_record(bytes: &[u8], seal: Seal) -> Option<(usize, Record<'_>)> {
    let starts = bytes.windows(RECORD_MAGIC.len()).enumerate();
    starts
        .filter(|(_, window)| *window == RECORD_MAGIC)
        .find_map(|(at, _)| Some((at, read_record(bytes.get(at..)?, seal)?)))
}

/// Appends a change to the body of a record: a value, or a removal.
pub(super) fn push_change(body: &mut Vec<u8>, tree: Tree, key: &[u8], value: Option<&[u8]>) {
    body.push(if value.is_some() { PUT } else { DELETE });
    body.push(tree as u8);
    body.extend_from_slice(&(key.len() as u16).to_be_bytes());
    if let Some(value) = value {
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
    }
    body.extend_from_slice(key);
    body.extend_from_slice(value.unwrap_or_default());
}

/// Makes the changes of a record's body in `memtable`.
pub(super) fn apply_changes(body: &[u8], memtable: &mut Memtable) -> Result<()> {
    let mut fields = Fields(body);
    while !fields.0.is_empty() {
        let (tree, key, value) = change(&mut fields)
            .ok_or_else(|| Error::Damaged("a record of the journal has odd content".into()))?;
        let value = value.map(Bytes::copy_from_slice);
        memtable.insert(tree, Bytes::copy_from_slice(key), value);
    }
    Ok(())
}

/// A tree, a key in it, and its new value, if it was not removed.
type Change<'b> = (Tree, &'b [u8], Option<&'b [u8]>);

fn change<'b>(fields: &mut Fields<'b>) -> Option<Change<'b>> {
    let kind = fields.take(1)?[0];
    let tree = *Tree::ALL.get(usize::from(fields.take(1)?[0]))?;
    let key_len = fields.number::<2>()? as usize;
    let value_len = match kind {
        PUT => Some(fields.number::<4>()? as usize),
        DELETE => None,
        _ => return None,
    };
    if key_len == 0 || key_len > MAX_KEY_BYTES {
        return None;
    }
    let key = fields.take(key_len)?;
    let value = match value_len {
        Some(len) => Some(fields.take(len)?),
        None => None,
    };
    Some((tree, key, value))
}

/// The rest of an encoding.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn number<const BYTES: usize>(&mut self) -> Option<u64> {
        let bytes = self.take(BYTES)?;
        Some(bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }
}

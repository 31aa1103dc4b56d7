//! The disk location of a block, and the encodings of the two indexes.

use archipel_base::BlockHash;

use super::record::HEADER_BYTES;
use crate::engine::Result;
use crate::error::Error;
use crate::row::BlockRef;

const VERSION: u8 = 1;
const COMPRESSED: u8 = 1;
const ENTRY_BYTES: usize = 32;
const LOCATION_BYTES: usize = 14;
const LOCATION_ENTRY_BYTES: usize = 42;

/// The number that no disk has. The index names it for a block that rows refer to and no disk holds.
pub const NO_DISK: u16 = u16::MAX;

/// The alignment of records in segments.
pub(super) const ALIGN_BYTES: u64 = 8;

/// The disk location of a record. It sorts by disk, segment and offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DiskLocation {
    /// The disk's number.
    pub disk: u16,
    /// The segment's number. Numbers begin at 1, so segment 0 sorts before all locations of a disk.
    pub segment: u32,
    /// The offset of the record's header, in bytes.
    pub offset: u64,
}

/// A record with its disk location.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LocatedRecord {
    pub location: DiskLocation,
    /// The length of the stored bytes, after the header.
    pub stored: u32,
    /// The length of the content.
    pub len: u32,
    /// True if the stored bytes are compressed by zstd.
    pub compressed: bool,
}

/// The index entry of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub located: LocatedRecord,
    pub references: u64,
}

impl DiskLocation {
    /// Encodes the key in `Tree::Places`.
    pub(super) fn to_key(self) -> [u8; LOCATION_BYTES] {
        let mut key = [0; LOCATION_BYTES];
        key[..2].copy_from_slice(&self.disk.to_be_bytes());
        key[2..6].copy_from_slice(&self.segment.to_be_bytes());
        key[6..].copy_from_slice(&self.offset.to_be_bytes());
        key
    }

    pub(super) fn from_key(key: &[u8]) -> Result<DiskLocation> {
        let mut fields = Fields::of(key, LOCATION_BYTES, "location")?;
        Ok(DiskLocation {
            disk: u16::from_be_bytes(fields.take()),
            segment: u32::from_be_bytes(fields.take()),
            offset: u64::from_be_bytes(fields.take()),
        })
    }

    /// Returns the first location of a segment, for the bounds of scans.
    pub(super) fn first_of(disk: u16, segment: u32) -> DiskLocation {
        DiskLocation {
            disk,
            segment,
            offset: 0,
        }
    }
}

impl LocatedRecord {
    /// Returns the location of a block that no disk holds. Each block has one of its own, because the index
    /// of locations needs it.
    pub fn nowhere(block: &BlockRef) -> LocatedRecord {
        let (segment, rest) = block.hash.0.split_first_chunk().unwrap_or((&[0; 4], &[]));
        let offset = rest
            .first_chunk()
            .map_or(0, |eight| u64::from_be_bytes(*eight));
        LocatedRecord {
            location: DiskLocation {
                disk: NO_DISK,
                segment: u32::from_be_bytes(*segment) | 1,
                // Far enough from the end that no record reaches over it.
                offset: offset >> 1,
            },
            stored: 0,
            len: block.len,
            compressed: false,
        }
    }

    /// Returns the space that the record takes in its segment.
    pub fn record_bytes(&self) -> u64 {
        record_bytes(self.stored)
    }

    /// Returns the end of the record, where the next one may begin.
    pub fn end(&self) -> u64 {
        self.location.offset + self.record_bytes()
    }

    /// Encodes the value in `Tree::Places`.
    pub fn to_location_entry(self, hash: &BlockHash) -> [u8; LOCATION_ENTRY_BYTES] {
        let mut value = [0; LOCATION_ENTRY_BYTES];
        value[0] = VERSION;
        value[1] = flags(self.compressed);
        value[2..6].copy_from_slice(&self.stored.to_be_bytes());
        value[6..10].copy_from_slice(&self.len.to_be_bytes());
        value[10..].copy_from_slice(hash.as_bytes());
        value
    }

    pub fn from_location_entry(key: &[u8], value: &[u8]) -> Result<(BlockHash, LocatedRecord)> {
        let location = DiskLocation::from_key(key)?;
        let mut fields = Fields::of(value, LOCATION_ENTRY_BYTES, "location entry")?;
        let compressed = compressed(fields.take(), "location entry")?;
        let located = LocatedRecord {
            location,
            stored: u32::from_be_bytes(fields.take()),
            len: u32::from_be_bytes(fields.take()),
            compressed,
        };
        Ok((BlockHash(fields.take()), located))
    }
}

/// Returns the space that a record with `stored` bytes takes in a segment.
pub(super) fn record_bytes(stored: u32) -> u64 {
    (HEADER_BYTES as u64 + u64::from(stored)).next_multiple_of(ALIGN_BYTES)
}

impl Entry {
    /// Encodes the value in `Tree::Blocks`.
    pub fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let LocatedRecord {
            location,
            stored,
            len,
            compressed,
        } = self.located;
        let mut value = [0; ENTRY_BYTES];
        value[0] = VERSION;
        value[1] = flags(compressed);
        value[2..16].copy_from_slice(&location.to_key());
        value[16..20].copy_from_slice(&stored.to_be_bytes());
        value[20..24].copy_from_slice(&len.to_be_bytes());
        value[24..].copy_from_slice(&self.references.to_be_bytes());
        value
    }

    pub fn from_bytes(value: &[u8]) -> Result<Entry> {
        let mut fields = Fields::of(value, ENTRY_BYTES, "block entry")?;
        let compressed = compressed(fields.take(), "block entry")?;
        let location = DiskLocation::from_key(&fields.take::<LOCATION_BYTES>())?;
        let located = LocatedRecord {
            location,
            stored: u32::from_be_bytes(fields.take()),
            len: u32::from_be_bytes(fields.take()),
            compressed,
        };
        let references = u64::from_be_bytes(fields.take());
        Ok(Entry {
            located,
            references,
        })
    }
}

fn flags(compressed: bool) -> u8 {
    if compressed { COMPRESSED } else { 0 }
}

/// Decodes the first two bytes of an entry, its version and flags. Returns true if it is
/// compressed.
fn compressed([version, flags]: [u8; 2], what: &str) -> Result<bool> {
    if version > VERSION {
        return Err(Error::Newer(format!(
            "a {what} of version {version}; this release reads version {VERSION}"
        )));
    }
    if version != VERSION {
        return Err(Error::Damaged(format!("a {what} of version {version}")));
    }
    if flags & !COMPRESSED != 0 {
        return Err(Error::Damaged(format!("a {what} with flags {flags:#x}")));
    }
    Ok(flags == COMPRESSED)
}

/// A reader of fixed fields. The total length is checked first, so reading does not run out.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn of(bytes: &'a [u8], len: usize, what: &str) -> Result<Fields<'a>> {
        if bytes.len() == len {
            return Ok(Fields(bytes));
        }
        Err(Error::Damaged(format!(
            "a {what} of {} bytes, not {len}",
            bytes.len()
        )))
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        if let Some((first, rest)) = self.0.split_at_checked(N) {
            field.copy_from_slice(first);
            self.0 = rest;
        }
        field
    }
}

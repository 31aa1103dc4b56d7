//! Where a block lies, and the bytes of the two indexes.

use archipel_base::BlockHash;

use super::record::HEADER_BYTES;
use crate::engine::Result;
use crate::error::Error;

const VERSION: u8 = 1;
const COMPRESSED: u8 = 1;
const ENTRY_BYTES: usize = 32;
const PLACE_BYTES: usize = 14;
const PLACED_BYTES: usize = 42;

/// Records begin at multiples of this.
pub(super) const ALIGN_BYTES: u64 = 8;

/// Where a record begins. Sorts by disk, segment and offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The disk's number.
    pub disk: u16,
    /// The segment's number: 1 and up, so that segment 0 stands before all places of a disk.
    pub segment: u32,
    /// The offset of the record's header, in bytes.
    pub offset: u64,
}

/// A record that lies somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Located {
    pub place: Place,
    /// The length of the stored bytes, after the header.
    pub stored: u32,
    /// The length of the content.
    pub len: u32,
    /// Whether the stored bytes are zstd.
    pub compressed: bool,
}

/// What the index says of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub located: Located,
    pub references: u64,
}

impl Place {
    /// The key in `Tree::Places`.
    pub(super) fn to_key(self) -> [u8; PLACE_BYTES] {
        let mut key = [0; PLACE_BYTES];
        key[..2].copy_from_slice(&self.disk.to_be_bytes());
        key[2..6].copy_from_slice(&self.segment.to_be_bytes());
        key[6..].copy_from_slice(&self.offset.to_be_bytes());
        key
    }

    pub(super) fn from_key(key: &[u8]) -> Result<Place> {
        let mut fields = Fields::of(key, PLACE_BYTES, "place")?;
        Ok(Place {
            disk: u16::from_be_bytes(fields.take()),
            segment: u32::from_be_bytes(fields.take()),
            offset: u64::from_be_bytes(fields.take()),
        })
    }

    /// The first place of a segment, for the bounds of scans.
    pub(super) fn first_of(disk: u16, segment: u32) -> Place {
        Place {
            disk,
            segment,
            offset: 0,
        }
    }
}

impl Located {
    /// How much of the segment the record takes.
    pub fn record_bytes(&self) -> u64 {
        record_bytes(self.stored)
    }

    /// Where the record ends, and the next may begin.
    pub fn end(&self) -> u64 {
        self.place.offset + self.record_bytes()
    }

    /// The value in `Tree::Places`.
    pub fn to_placed(self, hash: &BlockHash) -> [u8; PLACED_BYTES] {
        let mut value = [0; PLACED_BYTES];
        value[0] = VERSION;
        value[1] = flags(self.compressed);
        value[2..6].copy_from_slice(&self.stored.to_be_bytes());
        value[6..10].copy_from_slice(&self.len.to_be_bytes());
        value[10..].copy_from_slice(hash.as_bytes());
        value
    }

    pub fn from_placed(key: &[u8], value: &[u8]) -> Result<(BlockHash, Located)> {
        let place = Place::from_key(key)?;
        let mut fields = Fields::of(value, PLACED_BYTES, "place entry")?;
        let compressed = compressed(fields.take(), "place entry")?;
        let located = Located {
            place,
            stored: u32::from_be_bytes(fields.take()),
            len: u32::from_be_bytes(fields.take()),
            compressed,
        };
        Ok((BlockHash(fields.take()), located))
    }
}

/// How much of a segment a record with `stored` bytes takes.
pub(super) fn record_bytes(stored: u32) -> u64 {
    (HEADER_BYTES as u64 + u64::from(stored)).next_multiple_of(ALIGN_BYTES)
}

impl Entry {
    /// The value in `Tree::Blocks`.
    pub fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let Located {
            place,
            stored,
            len,
            compressed,
        } = self.located;
        let mut value = [0; ENTRY_BYTES];
        value[0] = VERSION;
        value[1] = flags(compressed);
        value[2..16].copy_from_slice(&place.to_key());
        value[16..20].copy_from_slice(&stored.to_be_bytes());
        value[20..24].copy_from_slice(&len.to_be_bytes());
        value[24..].copy_from_slice(&self.references.to_be_bytes());
        value
    }

    pub fn from_bytes(value: &[u8]) -> Result<Entry> {
        let mut fields = Fields::of(value, ENTRY_BYTES, "block entry")?;
        let compressed = compressed(fields.take(), "block entry")?;
        let place = Place::from_key(&fields.take::<PLACE_BYTES>())?;
        let located = Located {
            place,
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

/// What the first two bytes of an entry say: its version, and flags.
fn compressed([version, flags]: [u8; 2], what: &str) -> Result<bool> {
    if version != VERSION {
        return Err(Error::Failed(format!(
            "version {version} of a {what} is not known (this release reads {VERSION})"
        )));
    }
    if flags & !COMPRESSED != 0 {
        return Err(Error::Damaged(format!("a {what} with flags {flags:#x}")));
    }
    Ok(flags == COMPRESSED)
}

/// Fixed fields, taken one after the other. The length was checked, so taking does not run out.
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

//! The bytes of a segment of values. `docs/internals/journal.md` describes them.

use std::io;

use crate::checksum::crc32c_of;
use crate::engine::MAX_KEY_BYTES;

/// The bytes before the key and the value in a segment.
pub const ENTRY_HEADER_BYTES: usize = 14;
const ENTRY_MAGIC: &[u8; 4] = b"JVAL";

/// An entry of a segment.
pub struct Entry<'b> {
    pub key: &'b [u8],
    pub value: &'b [u8],
}

impl Entry<'_> {
    /// Returns the bytes that it takes.
    pub fn bytes(&self) -> usize {
        ENTRY_HEADER_BYTES + self.key.len() + self.value.len()
    }
}

/// Appends an entry. `seal` is the segment's, so that entries of another segment or store do not
/// count.
pub fn push_entry(bytes: &mut Vec<u8>, seal: u32, key: &[u8], value: &[u8]) {
    let lengths = [
        &(key.len() as u16).to_be_bytes()[..],
        &(value.len() as u32).to_be_bytes(),
    ]
    .concat();
    // Not of the value: that has a checksum of its own, which is verified when it is read.
    let checksum = crc32c_of(&[&seal.to_be_bytes(), &lengths, key]);
    for part in [
        &ENTRY_MAGIC[..],
        &lengths,
        &checksum.to_be_bytes(),
        key,
        value,
    ] {
        bytes.extend_from_slice(part);
    }
}

/// Returns the entry at the start of `bytes`, if a whole one is there.
pub fn read_entry(bytes: &[u8], seal: u32) -> Option<Entry<'_>> {
    let (magic, rest) = bytes.split_first_chunk()?;
    let (lengths, rest) = rest.split_first_chunk::<6>()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let (key_len, value_len) = lengths.split_first_chunk()?;
    let value_len = u32::from_be_bytes(value_len.try_into().ok()?);
    let (key, rest) = rest.split_at_checked(u16::from_be_bytes(*key_len).into())?;
    if key.len() > MAX_KEY_BYTES {
        return None;
    }
    let expected = crc32c_of(&[&seal.to_be_bytes(), lengths, key]);
    if magic != ENTRY_MAGIC || u32::from_be_bytes(*checksum) != expected {
        return None;
    }
    let value = rest.get(..value_len as usize)?;
    Some(Entry { key, value })
}

/// Returns where the first entry begins in `bytes`.
pub fn find_entry(bytes: &[u8], seal: u32) -> Option<usize> {
    let starts = bytes.windows(ENTRY_MAGIC.len()).enumerate();
    starts
        .filter(|(_, window)| *window == ENTRY_MAGIC)
        .find(|(at, _)| read_entry(&bytes[*at..], seal).is_some())
        .map(|(at, _)| at)
}

/// A part of a segment.
#[derive(Default)]
pub struct Window {
    pub bytes: Vec<u8>,
    /// The offset of the first byte in the segment.
    start: u64,
    /// The next byte to look at, within `bytes`.
    pub at: usize,
}

impl Window {
    /// Returns the place of the next byte to look at in the segment.
    pub fn offset(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Returns the place of the next byte to read in the segment.
    pub fn next(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Forgets what was looked at, and reads `more` bytes.
    pub fn extend(
        &mut self,
        more: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.bytes.drain(..self.at);
        self.start += self.at as u64;
        self.at = 0;
        let length = self.bytes.len();
        self.bytes.resize(length + more, 0);
        read(&mut self.bytes[length..])
    }
}

//! Records: a header with its own checksum, and the stored bytes of one block.
//!
//! `docs/internals/blocks.md` describes the bytes.

use archipel_base::BlockHash;
use bytes::Bytes;

use super::MAX_BLOCK_BYTES;
use super::location::{DiskLocation, LocatedRecord};
use crate::checksum::crc32c;
use crate::engine::Result;
use crate::error::Error;

/// The length of a record's header.
pub(super) const HEADER_BYTES: usize = 64;
pub(super) const MAGIC: [u8; 4] = *b"\xA7Blk";
const VERSION: u8 = 1;
const COMPRESSED: u8 = 1;
const CHECKED_BYTES: usize = 60;

/// The length below which content is not worth compressing.
const MIN_COMPRESS_BYTES: usize = 512;
const SAMPLE_BYTES: usize = 4096;
const SAMPLES: usize = 3;

/// The fields of a record's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub hash: BlockHash,
    pub located: LocatedRecord,
}

impl Header {
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let located = &self.located;
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = if located.compressed { COMPRESSED } else { 0 };
        bytes[6..8].copy_from_slice(&located.location.disk.to_be_bytes());
        bytes[8..12].copy_from_slice(&located.len.to_be_bytes());
        bytes[12..16].copy_from_slice(&located.stored.to_be_bytes());
        bytes[16..48].copy_from_slice(self.hash.as_bytes());
        bytes[48..52].copy_from_slice(&located.location.segment.to_be_bytes());
        bytes[52..60].copy_from_slice(&located.location.offset.to_be_bytes());
        let checksum = crc32c(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Decodes the header at `location`. Returns `None` if the bytes are no header that was written
    /// for this location.
    pub fn from_bytes(location: DiskLocation, bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let field = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let intact =
            bytes.starts_with(&MAGIC) && crc32c(&bytes[..CHECKED_BYTES]) == field(CHECKED_BYTES);
        if !intact || bytes[4] != VERSION || bytes[5] & !COMPRESSED != 0 {
            return None;
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(&bytes[16..48]);
        let header = Header {
            hash: BlockHash(hash),
            located: LocatedRecord {
                location,
                stored: field(12),
                len: field(8),
                compressed: bytes[5] & COMPRESSED != 0,
            },
        };
        // The header names its own location. A header that lies elsewhere is therefore rejected:
        // the disk may have written it to the wrong location, or it may be part of a block's
        // content.
        let sound = header.located.is_sound() && header.to_bytes() == *bytes;
        sound.then_some(header)
    }
}

impl LocatedRecord {
    /// Returns true if the lengths are possible. They bound the memory that a reader allocates.
    pub fn is_sound(&self) -> bool {
        let len = self.len as usize;
        let fits = (1..=MAX_BLOCK_BYTES).contains(&len) && self.stored > 0;
        let smaller = self.stored < self.len;
        fits && if self.compressed {
            smaller
        } else {
            self.stored == self.len
        }
    }
}

/// Returns `content` compressed if that pays: a sample shrinks by 15 %, and the whole by 12 %.
pub(super) fn compress(content: &[u8], level: i32) -> Option<Vec<u8>> {
    if content.len() < MIN_COMPRESS_BYTES || !sample_shrinks(content) {
        return None;
    }
    // Compression to memory fails only if the buffer is too small. Then the content is stored as it
    // is.
    let compressed = zstd::bulk::compress(content, level).ok()?;
    let pays = compressed.len() * 100 <= content.len() * 88;
    pays.then_some(compressed)
}

fn sample_shrinks(content: &[u8]) -> bool {
    if content.len() <= 2 * SAMPLES * SAMPLE_BYTES {
        return true;
    }
    let step = (content.len() - SAMPLE_BYTES) / (SAMPLES - 1);
    let mut sample = Vec::with_capacity(SAMPLES * SAMPLE_BYTES);
    for number in 0..SAMPLES {
        let start = number * step;
        sample.extend_from_slice(&content[start..start + SAMPLE_BYTES]);
    }
    zstd::bulk::compress(&sample, 1).is_ok_and(|small| small.len() * 100 <= sample.len() * 85)
}

/// Decodes the content of a record and verifies it against the block's name.
pub(super) fn open(hash: &BlockHash, located: &LocatedRecord, stored: Vec<u8>) -> Result<Bytes> {
    let content = if located.compressed {
        zstd::bulk::decompress(&stored, located.len as usize)
            .map_err(|error| damaged(hash, located, &format!("not zstd: {error}")))?
    } else {
        stored
    };
    if BlockHash::of(&content) != *hash {
        return Err(damaged(
            hash,
            located,
            "the content does not match the name",
        ));
    }
    Ok(content.into())
}

pub(super) fn damaged(hash: &BlockHash, located: &LocatedRecord, why: &str) -> Error {
    let DiskLocation {
        disk,
        segment,
        offset,
    } = located.location;
    Error::Damaged(format!(
        "block {hash} on disk {disk}, segment {segment}, offset {offset}: {why}"
    ))
}

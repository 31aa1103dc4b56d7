//! The cipher of content: AES-256-GCM over segments of 64 KiB, in the STREAM construction.
//!
//! The nonce of a segment is its number, and whether it is the last one. So a segment that was
//! changed, moved, repeated or left out does not open, and neither does content whose end is
//! missing. A key seals one content only. Sealed content is 16 bytes longer for each segment; empty
//! content is one empty segment.
//!
//! Source: Hoang, Reyhanitabar, Rogaway, Vizár, "Online Authenticated-Encryption and its
//! Nonce-Reuse Misuse-Resistance" (2015).

use std::ops::Range;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};

use super::wrap::DataKey;

/// The content of a full segment, in bytes.
pub(crate) const SEGMENT_BYTES: usize = 64 << 10;

/// The bytes that sealing adds to a segment.
const TAG_BYTES: usize = 16;

/// The bytes of a full sealed segment.
const SEALED_BYTES: u64 = (SEGMENT_BYTES + TAG_BYTES) as u64;

/// Sealed content does not open: it was changed, or it belongs to another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unopened;

/// Returns the number of segments of content of this size.
fn segments(size: u64) -> u64 {
    size.div_ceil(SEGMENT_BYTES as u64).max(1)
}

/// Returns the size of sealed content, from the size of the content.
pub(crate) fn sealed_size(size: u64) -> u64 {
    size.saturating_add(segments(size).saturating_mul(TAG_BYTES as u64))
}

fn cipher(key: &DataKey) -> Option<LessSafeKey> {
    let key = UnboundKey::new(&AES_256_GCM, key.bytes()).ok()?;
    Some(LessSafeKey::new(key))
}

fn nonce(segment: u64, is_last: bool) -> Nonce {
    let mut bytes = [0; 12];
    bytes[0] = u8::from(is_last);
    bytes[4..].copy_from_slice(&segment.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Seals content from its beginning to its end.
pub(crate) struct Sealer {
    cipher: LessSafeKey,
    segment: u64,
    /// The content of the segment so far. A full segment waits until it is known not to be the
    /// last.
    held: Vec<u8>,
}

impl Sealer {
    pub fn new(key: &DataKey) -> Option<Sealer> {
        Some(Sealer {
            cipher: cipher(key)?,
            segment: 0,
            held: Vec::new(),
        })
    }

    /// Returns the bytes that wait.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes out the bytes that wait.
    pub fn take_held(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Gives up memory that the bytes that wait do not take, as far as it is more than this many
    /// bytes.
    pub fn shrink_held(&mut self, most: usize) {
        self.held.shrink_to(most);
    }

    /// Returns the memory that is there for the bytes that wait.
    #[cfg(test)]
    pub fn held_capacity(&self) -> usize {
        self.held.capacity()
    }

    /// Appends content, and returns the segments that are full and not the last.
    pub fn push(&mut self, mut content: &[u8]) -> Result<Vec<u8>, Unopened> {
        let mut sealed = Vec::new();
        while !content.is_empty() {
            if self.held.len() == SEGMENT_BYTES {
                self.seal(&mut sealed, false)?;
            }
            let room = SEGMENT_BYTES - self.held.len();
            let (now, later) = content.split_at(room.min(content.len()));
            self.held.extend_from_slice(now);
            content = later;
        }
        Ok(sealed)
    }

    /// Returns the last segment.
    pub fn finish(mut self) -> Result<Vec<u8>, Unopened> {
        let mut sealed = Vec::new();
        self.seal(&mut sealed, true)?;
        Ok(sealed)
    }

    fn seal(&mut self, to: &mut Vec<u8>, is_last: bool) -> Result<(), Unopened> {
        let nonce = nonce(self.segment, is_last);
        let sealed = self
            .cipher
            .seal_in_place_separate_tag(nonce, Aad::empty(), &mut self.held);
        let tag = sealed.map_err(|_| Unopened)?;
        to.reserve_exact(self.held.len() + TAG_BYTES);
        to.extend_from_slice(&self.held);
        to.extend_from_slice(tag.as_ref());
        self.held.clear();
        self.segment += 1;
        Ok(())
    }
}

/// Opens the segments that a range of content touches.
#[derive(Clone)]
pub(crate) struct Opener {
    cipher: LessSafeKey,
    /// The next segment, and the number of all.
    segment: u64,
    segments: u64,
    /// The sealed bytes of the last segment.
    last_bytes: usize,
    /// The content of the next segment that is before the range.
    skip: usize,
    /// The content of the range that is still to come.
    left: u64,
    /// The sealed bytes of the next segment so far.
    held: Vec<u8>,
}

impl Opener {
    /// Returns an opener of a range of content of this size, and the range of the sealed bytes that
    /// it needs.
    pub fn new(key: &DataKey, size: u64, range: &Range<u64>) -> Option<(Opener, Range<u64>)> {
        let range = range.start.min(size)..range.end.min(size);
        let left = range.end.saturating_sub(range.start);
        let (all, segment_bytes) = (segments(size), SEGMENT_BYTES as u64);
        let first = range.start / segment_bytes;
        let opener = Opener {
            cipher: cipher(key)?,
            segment: first,
            segments: all,
            last_bytes: (size - (all - 1) * segment_bytes) as usize + TAG_BYTES,
            skip: (range.start % segment_bytes) as usize,
            left,
            held: Vec::new(),
        };
        let behind = range.end.div_ceil(segment_bytes);
        let sealed = first.saturating_mul(SEALED_BYTES)
            ..behind.saturating_mul(SEALED_BYTES).min(sealed_size(size));
        Some((opener, if left == 0 { 0..0 } else { sealed }))
    }

    /// Returns the sealed bytes that the next segment still lacks. Pieces of this size are copied
    /// once.
    pub fn lacks(&self) -> usize {
        let wanted = match self.segment + 1 == self.segments {
            true => self.last_bytes,
            false => SEALED_BYTES as usize,
        };
        wanted - self.held.len()
    }

    /// Returns the sealed bytes that are lacking up to the end of this many segments, or more if
    /// there are fewer.
    pub fn lacks_for(&self, segments: usize) -> usize {
        self.lacks() + segments.saturating_sub(1) * SEALED_BYTES as usize
    }

    /// Returns the content of the segments that this many more sealed bytes complete, in bytes. So
    /// much memory is taken by the result of [`push`](Opener::push) for them.
    pub fn opens(&self, more: usize) -> usize {
        let sealed = (self.held.len() + more) as u64;
        let before_last = self.segments.saturating_sub(self.segment + 1);
        let full = (sealed / SEALED_BYTES).min(before_last);
        let rest = sealed - full * SEALED_BYTES;
        let last = match full == before_last && rest >= self.last_bytes as u64 {
            true => self.last_bytes - TAG_BYTES,
            false => 0,
        };
        full as usize * SEGMENT_BYTES + last
    }

    /// Appends sealed bytes, and returns the content of the range that they complete. Nothing that
    /// does not open is returned.
    pub fn push(&mut self, mut sealed: &[u8]) -> Result<Vec<u8>, Unopened> {
        let mut content = Vec::with_capacity(self.opens(sealed.len()));
        while let Some((now, later)) = sealed.split_at_checked(self.lacks())
            && !now.is_empty()
        {
            self.open(now, &mut content)?;
            sealed = later;
        }
        if !sealed.is_empty() {
            let lacks = self.lacks();
            self.held.reserve_exact(lacks);
            self.held.extend_from_slice(sealed);
        }
        Ok(content)
    }

    /// Opens the next segment behind the content. Its sealed bytes are those that are held, and
    /// `rest`.
    fn open(&mut self, rest: &[u8], content: &mut Vec<u8>) -> Result<(), Unopened> {
        if self.segment >= self.segments {
            return Err(Unopened);
        }
        // The tag stays out of the content, which then takes a power of two of memory, mostly. An
        // allocation with 16 bytes more would be a quarter larger.
        let (rest, end) = rest.split_at(rest.len().saturating_sub(TAG_BYTES));
        self.held.extend_from_slice(end);
        let split = self.held.split_last_chunk::<TAG_BYTES>();
        let (first, tag) = split.ok_or(Unopened)?;
        let (tag, begin) = (Tag::from(*tag), content.len());
        content.extend_from_slice(first);
        content.extend_from_slice(rest);
        self.held.clear();
        let nonce = nonce(self.segment, self.segment + 1 == self.segments);
        let sealed = content.get_mut(begin..).unwrap_or_default();
        let opened = self
            .cipher
            .open_in_place_separate_tag(nonce, Aad::empty(), tag, sealed, 0..);
        let length = opened.map_err(|_| Unopened)?.len();
        let skip = self.skip.min(length);
        let wanted = (length - skip).min(self.left.try_into().unwrap_or(usize::MAX));
        content.truncate(begin + skip + wanted);
        content.drain(begin..begin + skip);
        self.left -= wanted as u64;
        self.skip = 0;
        self.segment += 1;
        Ok(())
    }

    /// Checks that the whole range was opened.
    pub fn finish(&self) -> Result<(), Unopened> {
        match self.left == 0 && self.held.is_empty() {
            true => Ok(()),
            false => Err(Unopened),
        }
    }
}

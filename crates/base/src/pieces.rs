//! Pieces of a block that can be verified one by one, before the rest of the block has arrived.
//!
//! BLAKE3 hashes a tree whose leaves are chunks of 1 KiB. The pieces of a block are subtrees of it,
//! so that the hash values of the pieces (32 bytes each), merged along the tree, give the block's
//! hash. A reader that knows the hash and the length first verifies these values and then each
//! piece against its own value. The first pieces are small, so that the first bytes of a block are
//! available early; later pieces have 64 KiB.
//!
//! # Invariants
//! - The block's length alone determines its pieces.
//! - A piece that [`Pieces::check`] accepted is the content at that offset of the block with that
//!   hash.

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

use crate::hash::BlockHash;

/// The length of the first piece and of the second. Later lengths double.
pub const FIRST_PIECE_BYTES: usize = 4 << 10;
/// The limit of a piece's length.
pub const MAX_PIECE_BYTES: usize = 64 << 10;
const VALUE_BYTES: usize = size_of::<ChainingValue>();

/// Returns the maximum length of a piece that begins at `offset`.
fn most(offset: usize) -> usize {
    offset.clamp(FIRST_PIECE_BYTES, MAX_PIECE_BYTES)
}

/// Returns the lengths of the pieces of a block of `len` bytes, in order: one for a short block,
/// none for an empty one.
pub fn lengths(len: usize) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut left = vec![len];
    let mut offset = 0;
    // The walk is depth first, left before right. The stack holds the subtrees to the right of
    // `offset`.
    while let Some(subtree) = left.pop().filter(|subtree| *subtree > 0) {
        if subtree <= most(offset) {
            lengths.push(subtree);
            offset += subtree;
        } else {
            let first = left_subtree_len(subtree as u64) as usize;
            left.extend([subtree - first, first]);
        }
    }
    lengths
}

/// Returns the concatenated hash values of the pieces of `content`. Returns nothing for a single
/// piece, whose hash is the block's.
pub fn values(content: &[u8]) -> Vec<u8> {
    let lengths = lengths(content.len());
    if lengths.len() < 2 {
        return Vec::new();
    }
    let mut values = Vec::with_capacity(lengths.len() * VALUE_BYTES);
    let mut offset = 0;
    for len in lengths {
        values.extend_from_slice(&value(offset, &content[offset..offset + len]));
        offset += len;
    }
    values
}

fn value(offset: usize, piece: &[u8]) -> ChainingValue {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(offset as u64).update(piece);
    hasher.finalize_non_root()
}

/// The pieces of a block that have not arrived yet.
pub struct Pieces {
    /// The length and the hash value of each piece, the last piece first.
    left: Vec<(usize, ChainingValue)>,
    /// The offset of the next piece.
    offset: usize,
}

impl Pieces {
    /// Returns the pieces of the block with this hash and length, or `None` if `values` are not
    /// their [`values`].
    pub fn of(hash: &BlockHash, len: usize, values: &[u8]) -> Option<Pieces> {
        let lengths = lengths(len);
        let (values, rest) = values.as_chunks::<VALUE_BYTES>();
        if lengths.len() < 2 || lengths.len() != values.len() || !rest.is_empty() {
            return None;
        }
        let mut from = values.iter();
        let first = left_subtree_len(len as u64) as usize;
        let left = merged(0, first, &mut from)?;
        let right = merged(first, len - first, &mut from)?;
        if merge_subtrees_root(&left, &right, Mode::Hash) != *hash.as_bytes() {
            return None;
        }
        let left = lengths.into_iter().zip(values.iter().copied()).rev();
        Some(Pieces {
            left: left.collect(),
            offset: 0,
        })
    }

    /// Skips the pieces that end at or before `offset`. Returns the offset of the next piece.
    pub fn skip_to(&mut self, offset: usize) -> usize {
        while let Some((len, _)) = self.left.last().copied()
            && self.offset + len <= offset
        {
            self.left.pop();
            self.offset += len;
        }
        self.offset
    }

    /// Returns the length of the next piece, or `None` after the last.
    pub fn next_len(&self) -> Option<usize> {
        self.left.last().map(|(len, _)| *len)
    }

    /// Returns true and advances if `piece` is the next piece.
    pub fn check(&mut self, piece: &[u8]) -> bool {
        let Some((len, wanted)) = self.left.last() else {
            return false;
        };
        if piece.len() != *len || value(self.offset, piece) != *wanted {
            return false;
        }
        self.offset += len;
        self.left.pop();
        true
    }
}

/// Returns the value of the subtree at `offset`, computed from the values of its pieces.
fn merged<'a>(
    offset: usize,
    len: usize,
    values: &mut impl Iterator<Item = &'a ChainingValue>,
) -> Option<ChainingValue> {
    if len <= most(offset) {
        return values.next().copied();
    }
    let first = left_subtree_len(len as u64) as usize;
    let left = merged(offset, first, values)?;
    let right = merged(offset + first, len - first, values)?;
    Some(merge_subtrees_non_root(&left, &right, Mode::Hash))
}

#[cfg(test)]
mod tests;

//! Compares the references that payloads make with those that the index of blocks counts, in memory
//! that does not depend on the number of blocks.
//!
//! The first pass keeps sums for each [range](Ranges) of hashes: payloads add, the index subtracts. Sums
//! that come to zero show that all counts of the range are equal: hashes are random, so the sums of
//! different multisets of hashes are equal with a probability of about 2⁻¹²⁸. Ranges that differ are read
//! again and compared hash by hash, in as many passes as memory needs.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use archipel_base::BlockHash;

use super::codec::{self, StoredPayload};
use super::reader;
use crate::engine::{Direction, Flow, ReadTxn, Result, Tree};
use crate::error::Error;

/// The number of ranges: one for each value of a hash's first two bytes.
const RANGES: usize = 1 << 16;

/// Sums that are zero if payloads and index agree about the blocks of a range.
#[derive(Clone, Copy, Default)]
struct Range {
    /// The number of mentions and of blocks in the index: the most hashes that the range can have.
    hashes: u64,
    references: u64,
    sum: u128,
    /// The index has a block without references.
    has_unused: bool,
}

impl Range {
    fn differs(&self) -> bool {
        self.references != 0 || self.sum != 0 || self.has_unused
    }
}

/// The sums of all ranges: 4 MiB.
pub(super) struct Ranges(Vec<Range>);

impl Ranges {
    /// Creates sums of nothing.
    pub(super) fn new() -> Ranges {
        Ranges(vec![Range::default(); RANGES])
    }

    /// Adds a reference that a payload makes.
    pub(super) fn add_mention(&mut self, hash: &BlockHash) {
        let range = self.of(hash);
        range.hashes += 1;
        range.references = range.references.wrapping_add(1);
        range.sum = range.sum.wrapping_add(term(hash));
    }

    /// Subtracts the references that the index counts for a block.
    pub(super) fn subtract_counted(&mut self, hash: &BlockHash, references: u64) {
        let range = self.of(hash);
        range.hashes += 1;
        range.has_unused |= references == 0;
        range.references = range.references.wrapping_sub(references);
        let counted = term(hash).wrapping_mul(u128::from(references));
        range.sum = range.sum.wrapping_sub(counted);
    }

    /// Returns the parts that differ, in ascending order. Each part is a run of ranges with at most
    /// `limit` hashes, or a single range.
    pub(super) fn differing(&self, limit: u64) -> Vec<RangeInclusive<u16>> {
        let mut parts: Vec<(RangeInclusive<u16>, u64)> = Vec::new();
        for (number, range) in (0u16..=u16::MAX).zip(&self.0) {
            if !range.differs() {
                continue;
            }
            // Ranges between two others of a part are read, too, and count.
            let joined = parts.last().map(|(part, hashes)| {
                let between = usize::from(*part.end()) + 1..=usize::from(number);
                let more = self.0.get(between).unwrap_or_default();
                let more: u64 = more.iter().map(|range| range.hashes).sum();
                (*part.start(), hashes + more)
            });
            match joined {
                Some((start, hashes)) if hashes <= limit => {
                    parts.pop();
                    parts.push((start..=number, hashes));
                }
                _ => parts.push((number..=number, range.hashes)),
            }
        }
        parts.into_iter().map(|(part, _)| part).collect()
    }

    fn of(&mut self, hash: &BlockHash) -> &mut Range {
        // A number of two bytes is below the length, which is 65,536.
        &mut self.0[usize::from(range_of(hash))]
    }
}

/// A block whose counts differ, or that nothing refers to.
pub(super) struct Difference {
    pub hash: BlockHash,
    /// The number of references that payloads make.
    pub wanted: u64,
    /// The number that the index counts; `None` if it lacks the block.
    pub counted: Option<u64>,
}

/// Compares all hashes of a part and calls `tell` for each difference, in ascending order.
pub(super) fn compare(
    txn: &dyn ReadTxn,
    part: &RangeInclusive<u16>,
    tell: &mut dyn FnMut(Difference),
) -> Result<()> {
    let mut wanted = mentions(txn, part)?;
    let mut differences = BTreeMap::new();
    crate::blocks::scan_references(txn, part, &mut |key, entry| {
        let (hash, counted) = match entry {
            // The first pass has reported it.
            Err(Error::Damaged(_)) => {
                if let Ok(hash) = <[u8; 32]>::try_from(key) {
                    wanted.remove(&BlockHash(hash));
                }
                return Ok(Flow::Continue);
            }
            entry => entry?,
        };
        let wanted = wanted.remove(&hash).unwrap_or(0);
        if wanted != counted || wanted == 0 {
            differences.insert(hash, (wanted, Some(counted)));
        }
        Ok(Flow::Continue)
    })?;
    differences.extend(
        wanted
            .into_iter()
            .map(|(hash, times)| (hash, (times, None))),
    );
    for (hash, (wanted, counted)) in differences {
        tell(Difference {
            hash,
            wanted,
            counted,
        });
    }
    Ok(())
}

/// Counts how often payloads mention the blocks of a part. Passes over damaged rows and payloads: the first
/// pass has reported them.
fn mentions(txn: &dyn ReadTxn, part: &RangeInclusive<u16>) -> Result<BTreeMap<BlockHash, u64>> {
    let mut found = BTreeMap::new();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    txn.scan(Tree::Rows, all, Direction::Ascending, &mut |key, value| {
        let payload = match codec::decode_metadata(key, value) {
            Ok(row) if row.payload == StoredPayload::Apart => {
                reader::stored_payload(txn, key, row.stamp)
            }
            Ok(_) | Err(Error::Damaged(_)) => return Ok(Flow::Continue),
            Err(error) => return Err(error),
        };
        let payload = match payload {
            Ok(payload) => payload,
            Err(Error::Damaged(_)) => return Ok(Flow::Continue),
            Err(error) => return Err(error),
        };
        for block in payload.blocks() {
            if part.contains(&range_of(&block.hash)) {
                *found.entry(block.hash).or_default() += 1;
            }
        }
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

/// Returns the number of the range that a hash is in.
fn range_of(hash: &BlockHash) -> u16 {
    let [first, second, ..] = *hash.as_bytes();
    u16::from_be_bytes([first, second])
}

/// Returns what one reference to a block adds to the sum: the last half of its hash.
fn term(hash: &BlockHash) -> u128 {
    let (_, half) = hash.as_bytes().split_at(16);
    u128::from_be_bytes(half.try_into().unwrap_or_default())
}

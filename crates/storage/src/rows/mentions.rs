//! From blocks back to the rows that refer to them. The index only counts references, so this reads bodies: it
//! is for the few blocks that are damaged or missing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use archipel_base::{BlockHash, PartitionId};

use super::codec;
use super::reader::{PrefixRange, RowReader};
use crate::engine::{Direction, Flow, KeyRange, Result, Tree};
use crate::error::Error;
use crate::row::{BlockRef, RowKey};

/// How many rows are named for each block.
const MAX_ROWS: usize = 8;

/// A block, and rows that refer to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mention {
    /// The block.
    pub block: BlockRef,
    /// How often bodies mention it: its references.
    pub times: u64,
    /// The first eight of the rows.
    pub rows: Vec<RowKey>,
}

impl RowReader<'_> {
    /// The rows that refer to the blocks of `wanted`: of one partition, or of all. A body that cannot be
    /// decoded is passed over; [`verify`](Self::verify) tells of it.
    pub fn mentions(
        &self,
        partition: Option<PartitionId>,
        wanted: &BTreeSet<BlockHash>,
    ) -> Result<BTreeMap<BlockHash, Mention>> {
        self.mentions_of(partition, wanted, &mut |_| Ok(()))
    }

    /// The same of all partitions, if all bodies can be decoded.
    pub(crate) fn all_mentions(
        &self,
        wanted: &BTreeSet<BlockHash>,
    ) -> Result<BTreeMap<BlockHash, Mention>> {
        self.mentions_of(None, wanted, &mut Err)
    }

    fn mentions_of(
        &self,
        partition: Option<PartitionId>,
        wanted: &BTreeSet<BlockHash>,
        on_damaged: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<BTreeMap<BlockHash, Mention>> {
        let range = partition.map(|one| PrefixRange::new(one, &[], Bound::Unbounded));
        let everything: KeyRange<'_> = (Bound::Unbounded, Bound::Unbounded);
        let bounds = range.as_ref().map_or(everything, PrefixRange::bounds);
        let mut found = BTreeMap::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            let blocks = match codec::decode_blocks(value) {
                Ok(blocks) => blocks,
                Err(error) => {
                    on_damaged(error)?;
                    Vec::new()
                }
            };
            for block in blocks.iter().filter(|block| wanted.contains(&block.hash)) {
                add(&mut found, key, block)?;
            }
            Ok(Flow::Continue)
        };
        self.txn()
            .scan(Tree::Bodies, bounds, Direction::Ascending, &mut visit)?;
        Ok(found)
    }

    /// How many references the index counts of a block; 0 if it does not have it.
    pub fn references(&self, hash: &BlockHash) -> Result<u64> {
        crate::blocks::references(self.txn(), hash)
    }
}

fn add(found: &mut BTreeMap<BlockHash, Mention>, key: &[u8], block: &BlockRef) -> Result<()> {
    let mention = found.entry(block.hash).or_insert_with(|| Mention {
        block: *block,
        times: 0,
        rows: Vec::new(),
    });
    mention.times += 1;
    if mention.rows.len() < MAX_ROWS {
        let row = codec::row_of_key(key)?;
        if mention.rows.last() != Some(&row) {
            mention.rows.push(row);
        }
    }
    Ok(())
}

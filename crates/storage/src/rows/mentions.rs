//! A search from blocks back to the rows that refer to them. The index only counts references, so
//! the search reads payloads. It is meant for the few blocks that are damaged or missing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use archipel_base::{BlockHash, PartitionId};

use super::codec;
use super::reader::{PrefixRange, RowReader};
use crate::engine::{Direction, Flow, KeyRange, Result, Tree};
use crate::error::Error;
use crate::row::{BlockRef, Payload, RowKey};

/// The largest number of rows that are named for each block.
const MAX_ROWS: usize = 8;

/// A block, and rows that refer to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mention {
    /// The block.
    pub block: BlockRef,
    /// The number of mentions in payloads, which is the number of references.
    pub times: u64,
    /// Eight of the rows at most, in their order. They are in as many partitions as possible: each tells of
    /// other replicas that may have the block.
    pub rows: Vec<RowKey>,
}

impl RowReader<'_> {
    /// Returns the rows that refer to the blocks of `wanted`, in one partition or in all. Skips
    /// damaged payloads; [`verify`](Self::verify) reports them.
    pub fn mentions(
        &self,
        partition: Option<PartitionId>,
        wanted: &BTreeSet<BlockHash>,
    ) -> Result<BTreeMap<BlockHash, Mention>> {
        self.mentions_of(partition, wanted, &mut |_| Ok(()))
    }

    /// Returns the same for all partitions. Fails if any payload is damaged.
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
            if codec::is_inline(value) {
                return Ok(Flow::Continue);
            }
            let payload = match codec::decode_payload(key, value) {
                Err(error @ Error::Damaged(_)) => {
                    on_damaged(error)?;
                    Payload::Empty
                }
                payload => payload?.1,
            };
            for block in payload
                .blocks()
                .iter()
                .filter(|block| wanted.contains(&block.hash))
            {
                add(&mut found, key, block)?;
            }
            Ok(Flow::Continue)
        };
        self.txn()
            .scan(Tree::Payloads, bounds, Direction::Ascending, &mut visit)?;
        Ok(found)
    }

    /// Returns the number of references that the index counts for a block; 0 if the index lacks the
    /// block.
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
    let row = codec::row_of_key(key)?;
    if mention.rows.last() != Some(&row) && has_room(&mut mention.rows, row.partition) {
        mention.rows.push(row);
    }
    Ok(())
}

/// Makes room for a row of this partition, which is the last one so far, if there are rows enough already: a
/// partition that has several of them gives up its last one. Returns true if there is room.
fn has_room(rows: &mut Vec<RowKey>, partition: PartitionId) -> bool {
    if rows.len() < MAX_ROWS {
        return true;
    }
    if rows.last().is_some_and(|last| last.partition == partition) {
        return false;
    }
    let is_second = |two: &[RowKey]| matches!(two, [a, b] if a.partition == b.partition);
    let surplus = rows.windows(2).rposition(is_second);
    surplus.map(|before| rows.remove(before + 1)).is_some()
}

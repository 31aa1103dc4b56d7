//! Looks for damage in one partition: rows, payloads, and blocks that this node should hold.

use std::ops::Bound;

use archipel_base::{BlockHash, PartitionId};

use super::codec::{self, StoredPayload};
use super::reader::{self, PrefixRange, RowReader};
use crate::blocks::Blocks;
use crate::engine::{Direction, Flow, Result, Tree};
use crate::error::Error;
use crate::row::RowKey;

/// The damage of one partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// Rows that are damaged, or whose payload is damaged or missing.
    pub damaged: Vec<RowKey>,
    /// Blocks that payloads refer to and that no usable disk holds, in ascending order.
    pub missing: Vec<BlockHash>,
    /// The bytes that were read: all of the partition's rows and payloads.
    pub bytes: u64,
}

impl RowReader<'_> {
    /// Reads all rows and payloads of a partition, and looks up the blocks that they refer to. Does
    /// not read the blocks.
    pub fn check(&self, partition: PartitionId, blocks: &Blocks) -> Result<Checked> {
        let range = PrefixRange::new(partition, &[], Bound::Unbounded);
        let (txn, mut checked) = (self.txn(), Checked::default());
        let bounds = range.bounds();
        txn.scan(
            Tree::Rows,
            bounds,
            Direction::Ascending,
            &mut |key, value| {
                checked.bytes += value.len() as u64;
                let payload = codec::decode_metadata(key, value).and_then(|row| {
                    if row.payload != StoredPayload::Apart {
                        return Ok(None);
                    }
                    let payload = reader::stored_bytes(txn, key)?;
                    checked.bytes += payload.len() as u64;
                    codec::decode_payload_of(key, row.stamp, &payload).map(Some)
                });
                match payload {
                    Ok(payload) => {
                        for block in payload.iter().flat_map(|payload| payload.blocks()) {
                            if !blocks.is_held(txn, &block.hash)? {
                                checked.missing.push(block.hash);
                            }
                        }
                    }
                    Err(Error::Damaged(_)) => checked.damaged.push(codec::row_of_key(key)?),
                    Err(error) => return Err(error),
                }
                Ok(Flow::Continue)
            },
        )?;
        checked.missing.sort_unstable();
        checked.missing.dedup();
        Ok(checked)
    }
}

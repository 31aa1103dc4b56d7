//! Looking up a block on each node: does it have a good copy, and which of its rows refer to the
//! block? And a row: has a node lost one of its blocks?

use std::collections::BTreeSet;
use std::sync::Arc;

use archipel_base::{BlockHash, NodeId, Stamp, boxed};
use archipel_storage as storage;
use archipel_storage::rows::Mention;
use archipel_storage::{RowKey, RowReader};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::upkeep::Upkeep;

/// A node's copy of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum BlockCopy {
    /// The node needs none: none of its rows refers to the block.
    #[default]
    #[serde(rename = "u")]
    Unneeded,
    /// It was read and is good.
    #[serde(rename = "g")]
    Good,
    /// It is damaged.
    #[serde(rename = "d")]
    Damaged,
    /// Rows refer to it, and it is not there.
    #[serde(rename = "m")]
    Missing,
    /// It could not be read: its disk fails, for example.
    #[serde(rename = "f")]
    Unreadable,
}

/// A node's report on a block.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BlockReport {
    /// Its copy.
    #[serde(rename = "c")]
    pub copy: BlockCopy,
    /// The bytes of the content before compression, if a row refers to it.
    #[serde(rename = "l")]
    pub bytes: Option<u32>,
    /// The references that the index counts.
    #[serde(rename = "n")]
    pub references: u64,
    /// Eight of the rows that refer to it at most, in as many partitions as possible.
    #[serde(rename = "r")]
    pub rows: Vec<RowKey>,
}

impl Upkeep {
    /// Looks a block up. This reads the payloads of all rows of the node.
    pub(super) async fn look_up_block(
        self: &Arc<Upkeep>,
        hash: BlockHash,
    ) -> Result<BlockReport, Error> {
        let find = move |rows: &RowReader<'_>| {
            let mention = rows.mentions(None, &BTreeSet::from([hash]))?.remove(&hash);
            let references = match rows.references(&hash) {
                // The entry of the index is damaged, so nothing is counted.
                Err(storage::Error::Damaged(_)) => 0,
                references => references?,
            };
            Ok((mention, references))
        };
        let (mention, references) = self.store().read(find).await?;
        let Some(Mention { block, rows, .. }) = mention else {
            return Ok(BlockReport {
                references,
                ..BlockReport::default()
            });
        };
        let store = self.store();
        let _pin = store.pin(&[block]);
        let copy = match store.read_block(&block).await {
            Ok(_) => BlockCopy::Good,
            Err(storage::Error::Damaged(_)) => BlockCopy::Damaged,
            Err(storage::Error::NoBlock(_)) => BlockCopy::Missing,
            Err(_) => BlockCopy::Unreadable,
        };
        Ok(BlockReport {
            copy,
            bytes: Some(block.len),
            references,
            rows,
        })
    }

    /// Returns true if this node holds a row under this stamp and has lost one of its blocks.
    pub(super) async fn has_lost(&self, row: &RowKey, stamp: Stamp) -> Result<bool, Error> {
        let store = self.store();
        let held = store.pin_payload(row).await?;
        let Some((held, _pin)) = held.filter(|(held, _)| held.stamp == stamp) else {
            return Ok(false);
        };
        let payload = held.value.map(|value| value.payload).unwrap_or_default();
        // Those that are not in the index come first: they need no reading. If it is damaged, the
        // reading tells.
        let here = store.missing_blocks(payload.blocks().to_vec()).await;
        let missing = here.unwrap_or_default();
        for block in missing.iter().chain(payload.blocks()) {
            // A disk that fails may still have it.
            if let Err(storage::Error::Damaged(_) | storage::Error::NoBlock(_)) =
                store.read_block(block).await
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Asks all nodes of the layout what they know of a block, by node. A node that does not answer has
    /// its reason.
    #[boxed]
    pub async fn look_up_block_everywhere(
        self: &Arc<Upkeep>,
        hash: BlockHash,
    ) -> Vec<(NodeId, Result<BlockReport, String>)> {
        let asked = self
            .storing_nodes()
            .into_iter()
            .map(|node| async move { (node, self.ask_for_block(node, hash).await) });
        futures_util::future::join_all(asked).await
    }
}

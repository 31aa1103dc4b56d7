//! Correction of reference counts that are too low or too high.

use std::collections::BTreeSet;

use archipel_base::BlockHash;

use super::RowTxn;
use crate::engine::{Edit, Result, Tree};
use crate::error::Error;
use crate::row::{BlockRef, Payload, RowKey};
use crate::rows::codec;

impl RowTxn<'_> {
    /// Raises the reference counts of `blocks` to the number of mentions in payloads, and returns how
    /// many references were missing. Use it for blocks that are uploaded and pinned again after the
    /// index had lost them. Reads all payloads.
    pub fn restore_references(&mut self, blocks: &[BlockRef]) -> Result<u64> {
        let wanted = blocks.iter().map(|block| block.hash).collect();
        let mentions = self.reader().mentions(None, &wanted)?;
        let mut restored = 0;
        for (hash, mention) in mentions {
            let known = crate::blocks::references(&self.overlay, &hash)?;
            for _ in known..mention.times {
                let done = self.references.retain(&mut self.overlay, &mention.block);
                self.keep_failure(done)?;
                restored += 1;
            }
        }
        Ok(restored)
    }

    /// Rewrites the payload of a row if it is damaged. Returns true if it was. `payload` must be of the
    /// same version as the row.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the row itself is damaged, because its promise is unknown.
    pub fn restore_payload(&mut self, key: &RowKey, payload: &Payload) -> Result<bool> {
        match self.row(key) {
            Err(Error::Damaged(_)) => {}
            whole => return whole.map(|_| false),
        }
        let stamp = self.metadata(key)?.unwrap_or_default().stamp;
        let key = codec::row_key(key)?;
        let done = match codec::encode_payload(&key, stamp, payload) {
            Some(bytes) => self.overlay.put(Tree::Payloads, &key, &bytes),
            None => Err(Error::Refused("an empty payload is not stored".into())),
        };
        self.keep_failure(done).map(|()| true)
    }

    /// Lowers the reference counts of `blocks` to the number of mentions in payloads, and returns how
    /// many references were too many. Otherwise the blocks would stay forever. Reads all payloads.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a payload is damaged, because it may mention the blocks.
    pub fn release_surplus(&mut self, blocks: &[BlockHash]) -> Result<u64> {
        let wanted: BTreeSet<BlockHash> = blocks.iter().copied().collect();
        let mentions = self.reader().all_mentions(&wanted)?;
        let mut released = 0;
        for hash in wanted {
            let known = crate::blocks::references(&self.overlay, &hash)?;
            let times = mentions.get(&hash).map_or(0, |mention| mention.times);
            for _ in times..known {
                let block = BlockRef { hash, len: 0 };
                let done = self.references.release(&mut self.overlay, &block);
                self.keep_failure(done)?;
                released += 1;
            }
        }
        Ok(released)
    }
}

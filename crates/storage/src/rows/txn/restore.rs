//! References that the index lost, and those that nobody makes.

use std::collections::BTreeSet;

use archipel_base::BlockHash;

use super::RowTxn;
use crate::engine::{Edit, Result, Tree};
use crate::error::Error;
use crate::row::{BlockRef, Body, RowKey};
use crate::rows::codec;

impl RowTxn<'_> {
    /// Makes the index refer to blocks as often as bodies mention them, where it does so less often: for blocks
    /// that are here again (uploaded, and held) after the index had lost them. Reads all bodies. Gives how many
    /// references were missing.
    pub fn restore_references(&mut self, blocks: &[BlockRef]) -> Result<u64> {
        let wanted = blocks.iter().map(|block| block.hash).collect();
        let mentions = self.reader().mentions(None, &wanted)?;
        let mut restored = 0;
        for (hash, mention) in mentions {
            let known = crate::blocks::references(&self.overlay, &hash)?;
            for _ in known..mention.times {
                let done = self.references.retain(&mut self.overlay, &mention.block);
                self.note(done)?;
                restored += 1;
            }
        }
        self.gained |= restored > 0;
        Ok(restored)
    }

    /// Writes the body of a row anew if it is damaged; `body` is of the same version as the row. Tells whether it was.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the row itself is: what it promised is not known.
    pub fn restore_body(&mut self, key: &RowKey, body: &Body) -> Result<bool> {
        if !matches!(self.row(key), Err(Error::Damaged(_))) {
            return Ok(false);
        }
        self.head(key)?;
        let done = match codec::encode_body(body) {
            Some(bytes) => self
                .overlay
                .put(Tree::Bodies, &codec::row_key(key)?, &bytes),
            None => Err(Error::Refused("an empty body stands nowhere".into())),
        };
        self.note(done).map(|()| true)
    }

    /// Makes the index refer to blocks as often as bodies mention them, where it does so more often: they would stay for
    /// ever. Reads all bodies. Gives how many references were too many.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a body is: it may mention them.
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
                self.note(done)?;
                released += 1;
            }
        }
        Ok(released)
    }
}

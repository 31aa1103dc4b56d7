//! References that the index lost.

use super::RowTxn;
use crate::engine::Result;
use crate::row::BlockRef;

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
}

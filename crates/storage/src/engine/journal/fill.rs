//! Filling an empty engine with the entries of another. They pass by the journal: nobody reads them before all are
//! on stable storage.

use super::Journaled;
use super::batch::Batch;
use crate::engine::convert::{Copied, EVERYTHING};
use crate::engine::{Direction, Flow, ReadTxn, Result, Tree};

impl Journaled {
    /// Copies all entries of `source` to the engine below and to segments, neither of which has any.
    /// They are on stable storage when this returns. Nothing else may be written meanwhile. Calls
    /// `progress` after each transaction.
    pub(in crate::engine) fn fill(
        &self,
        source: &dyn ReadTxn,
        progress: &mut dyn FnMut(Copied),
    ) -> Result<Copied> {
        let mut batch = Batch::new(&self.core, None);
        let mut copied = Copied::default();
        for tree in Tree::ALL {
            let upwards = Direction::Ascending;
            source.scan(tree, EVERYTHING, upwards, &mut |key, value| {
                copied.entries += 1;
                copied.bytes += (key.len() + value.len()) as u64;
                if batch.append(tree, key, value)? {
                    progress(copied);
                }
                Ok(Flow::Continue)
            })?;
        }
        batch.finish(None)?;
        progress(copied);
        Ok(copied)
    }
}

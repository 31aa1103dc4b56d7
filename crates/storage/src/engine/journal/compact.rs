//! Compaction: moving what is live out of segments of values that are mostly dead.

use std::sync::atomic::Ordering;

use super::Core;
use super::batch::Batch;
use super::values::SEPARATED;
use crate::engine::Result;
use crate::error::Error;

impl Core {
    /// Frees the space of dead values. A failure is repeated after the next checkpoint.
    pub(super) fn free_space(&self) {
        let _one_at_a_time = self.checkpointing.lock();
        if let Err(error) = self.empty_segments() {
            if matches!(error, Error::Failed(_)) {
                self.note_trouble(&error);
            } else {
                tracing::warn!(%error, "dead values keep their space; the next checkpoint tries to free it again");
            }
        }
    }

    fn empty_segments(&self) -> Result<()> {
        self.values.remove_empty();
        loop {
            self.breaker.check()?;
            let work = self.work.lock();
            if work.closed {
                return Ok(());
            }
            // A checkpoint that is due goes first, unless there is far too much.
            let times = if work.is_due() { 2 } else { 1 };
            drop(work);
            let Some(segment) = self.values.to_empty(times) else {
                return Ok(());
            };
            match self.empty_segment(segment) {
                Err(Error::Damaged(why)) => self.values.pass_over(segment, &why),
                other => other?,
            }
        }
    }

    /// Moves what is live in a segment to others.
    fn empty_segment(&self, segment: u32) -> Result<()> {
        let mut batch = Batch::new(self, Some(segment));
        self.values.visit(segment, &mut |location, key, value| {
            let stored = batch.stored(key)?;
            let current = stored.and_then(|stored| self.values.location(key, &stored));
            if current == Some(location) {
                self.moved.fetch_add(value.len() as u64, Ordering::Relaxed);
                batch.change(SEPARATED, key, Some(value))?;
            }
            Ok(())
        })?;
        batch.finish(None)?;
        let table = self.values.table();
        let left = table.segments.get(&segment);
        if left.is_some_and(|left| left.live > 0) {
            self.values.pass_over(segment, "entries in it are damaged");
        }
        self.values.remove_empty();
        Ok(())
    }
}

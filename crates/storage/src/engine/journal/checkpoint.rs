//! Checkpoints: a thread that brings frozen changes to the engine below, in sorted batches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::batch::Batch;
use super::memtable::Memtable;
use super::open::Link;
use super::{Core, Work};
use crate::engine::Result;
use crate::error::Error;

/// The wait after a checkpoint for which there was no room.
const RETRY: Duration = Duration::from_secs(1);

impl Core {
    /// Runs checkpoints until the journal is closed. Writers learn of a panic.
    pub(super) fn work_until_closed(&self) {
        if catch_unwind(AssertUnwindSafe(|| self.work())).is_err() {
            self.note_trouble(&Error::Failed("a panic: restart".into()));
        }
    }

    fn work(&self) {
        while self.wait_for_work() {
            if self.checkpoint().is_err() {
                let mut work = self.work.lock();
                if !work.closed {
                    self.wake.wait_for(&mut work, RETRY);
                }
                continue;
            }
            self.free_space();
        }
    }

    /// Waits until there is something to do. Returns false if the journal is closed.
    fn wait_for_work(&self) -> bool {
        let mut work = self.work.lock();
        while !work.closed && !work.is_due() {
            let end = self.state.read().end;
            let waited = self.wake.wait_for(&mut work, self.limits.idle);
            if waited.timed_out() && self.state.read().end == end {
                // An idle node keeps nothing in memory, and starts with nothing to read.
                MutexGuard::unlocked(&mut work, || {
                    // A failure that matters meets the next writer.
                    let _ = self.freeze(&mut self.tail.lock());
                    self.free_space();
                });
            }
        }
        !work.closed
    }

    /// Brings the frozen changes, if there are any, to the engine below, and prepares the next
    /// file.
    pub(super) fn checkpoint(&self) -> Result<()> {
        let _one_at_a_time = self.checkpointing.lock();
        self.apply_frozen()
            .and_then(|()| self.prepare_next())
            .inspect_err(|error| self.note_trouble(error))
    }

    fn apply_frozen(&self) -> Result<()> {
        let frozen = self.work.lock().frozen;
        let (Some(generation), Some(changes)) = (frozen, self.state.read().frozen.clone()) else {
            return Ok(());
        };
        self.apply(generation, &changes)?;
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        // Dropped after the lock, which readers need.
        let _frozen = self.state.write().frozen.take();
        self.update(|work| work.frozen = None);
        Ok(())
    }

    /// Prepares the file after the current one. The engine below has all before the current one.
    pub(super) fn prepare_next(&self) -> Result<()> {
        let work = self.work.lock();
        let (active, prepared) = (work.active, work.prepared);
        if work.frozen.is_some() || prepared > active {
            return Ok(());
        }
        drop(work);
        self.log
            .prepare(active + 1, active)
            .map_err(|e| Error::from_io("preparing a file of the journal", &e))?;
        self.update(|work| work.prepared = active + 1);
        Ok(())
    }

    /// Updates what is to be done, and wakes writers that wait.
    fn update(&self, update: impl FnOnce(&mut Work)) {
        let mut work = self.work.lock();
        update(&mut work);
        work.trouble = None;
        self.done.notify_all();
    }

    pub(super) fn note_trouble(&self, error: &Error) {
        let before = self.work.lock().trouble.replace(error.clone());
        if matches!(error, Error::Failed(_)) {
            self.breaker.trip("a checkpoint", error);
        } else if before.is_none() {
            tracing::warn!(%error, "a checkpoint of the journal failed; it is repeated each second");
        }
        self.done.notify_all();
    }

    /// Makes the changes of `generation` in the engine below, durably. Readers still see them in
    /// memory, so it does not matter that several transactions make them.
    pub(super) fn apply(&self, generation: u64, changes: &Memtable) -> Result<()> {
        let mut batch = Batch::new(self, None);
        let mut progress = self.progress.lock();
        if progress.0 != generation {
            *progress = (generation, 0);
        }
        // A try that failed half way has made some of them. Made again, their values would take room
        // twice.
        for (at, (tree, key, value)) in changes.iter().enumerate().skip(progress.1) {
            if batch.change(tree, key, value.map(|value| &value[..]))? {
                progress.1 = at + 1;
                self.rest();
            }
        }
        batch.finish(Some(Link {
            journal: self.log.name,
            applied: generation,
        }))
    }

    /// Rests between two transactions of a checkpoint. Otherwise each flush of the journal would stand behind a large
    /// one. It does not if the next checkpoint is due, nor when the journal is closed.
    fn rest(&self) {
        let is_late = self.state.read().active.bytes() >= self.limits.memory_bytes;
        let mut work = self.work.lock();
        if self.has_thread && !is_late && !work.closed {
            self.wake.wait_for(&mut work, self.limits.rest);
        }
    }
}

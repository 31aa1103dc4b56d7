//! The thread of a sweep: it pauses between batches, and ends early if the node stops.
//!
//! A sweep that ends early is not forgotten. The store then does not mark itself as closed well, so the
//! next start sweeps again from the first segment. Segments that are swept already cost it no more than
//! a walk through their part of the index.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Blocks;
use super::sweep::Sweep;
use super::walk::Batch;
use crate::engine::Result;
use crate::error::Error;

/// The pause between two batches. It leaves the disk to others for most of the time.
const PAUSE: Duration = Duration::from_millis(10);

/// The sweep of a process.
#[derive(Default)]
pub(super) struct Sweeper {
    progress: Arc<Progress>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Progress {
    /// True if dead space of an earlier process may be left.
    is_due: AtomicBool,
    segments_left: AtomicU64,
    stopped: Mutex<bool>,
    stop: Condvar,
}

impl Progress {
    fn record(&self, sweep: &Sweep) {
        let left = sweep.segments_left() as u64;
        self.segments_left.store(left, Ordering::Relaxed);
    }

    /// Ends a sweep that has no more to do.
    fn end(&self, sweep: &Sweep) {
        self.record(sweep);
        let freed_bytes = sweep.freed_bytes();
        if sweep.is_complete() {
            self.is_due.store(false, Ordering::SeqCst);
            tracing::info!(freed_bytes, "freed the dead space that the last run left");
        } else {
            tracing::warn!(
                freed_bytes,
                "not all dead space that the last run left could be freed; the next start tries again"
            );
        }
    }

    /// Waits for a moment. Returns false if the sweep must stop.
    fn pause(&self) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.stop.wait_for(&mut stopped, PAUSE);
        }
        !*stopped
    }
}

impl Sweeper {
    /// Returns true if nothing is left of the dead space of earlier processes, as far as is known.
    pub fn is_done(&self) -> bool {
        !self.progress.is_due.load(Ordering::SeqCst)
    }

    /// Returns the number of segments that are not swept yet.
    pub fn segments_left(&self) -> u64 {
        self.progress.segments_left.load(Ordering::Relaxed)
    }

    /// Ends the sweep after the current batch, and waits for that. It goes on at the next start.
    pub fn stop(&self) {
        self.ask_to_stop();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the sweep panicked; the next start tries again");
        }
    }

    /// Tells the sweep to end after the current batch.
    pub fn ask_to_stop(&self) {
        *self.progress.stopped.lock() = true;
        self.progress.stop.notify_all();
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.ask_to_stop();
    }
}

impl Blocks {
    /// Frees the dead space that the last process left: in the background, or at once if the pool has
    /// no threads.
    pub(super) fn start_sweep(self: &Arc<Blocks>) -> Result<()> {
        let mut sweep = Sweep::new(self, Batch::default());
        if sweep.is_complete() {
            return Ok(());
        }
        let segments = sweep.segments_left();
        tracing::info!(segments, "looking for dead space that the last run left");
        let progress = self.sweeper.progress.clone();
        progress.is_due.store(true, Ordering::SeqCst);
        progress.record(&sweep);
        if self.pool.is_inline() {
            while sweep.step(self) {}
            progress.end(&sweep);
            return Ok(());
        }
        let blocks = Arc::downgrade(self);
        let thread = std::thread::Builder::new()
            .name("storage-sweep".into())
            .spawn(move || run(&blocks, &progress, sweep))
            .map_err(|e| Error::from_io("starting a storage thread", &e))?;
        *self.sweeper.thread.lock() = Some(thread);
        Ok(())
    }
}

/// Runs a sweep to its end, or until it is told to stop. Keeps the blocks open only during a batch.
fn run(blocks: &Weak<Blocks>, progress: &Progress, mut sweep: Sweep) {
    while progress.pause() {
        let Some(blocks) = blocks.upgrade() else {
            return;
        };
        let more = sweep.step(&blocks);
        progress.record(&sweep);
        if !more {
            return progress.end(&sweep);
        }
    }
    tracing::info!(
        freed_bytes = sweep.freed_bytes(),
        segments = sweep.segments_left(),
        "stopped freeing the dead space that an earlier run left; the next start goes on"
    );
}

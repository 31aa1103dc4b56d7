//! The thread of the garbage collection after an unclean start: it pauses between batches, and ends
//! early if the node stops.
//!
//! A collection that ends early is not forgotten. The store then does not mark itself as closed well, so the
//! next start begins again with the first segment. Segments that are done already cost it no more than
//! a walk through their part of the index.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Blocks;
use super::startup_gc::StartupGc;
use super::walk::Batch;
use crate::engine::Result;
use crate::error::Error;

/// The pause between two batches. It leaves the disk to others for most of the time.
const PAUSE: Duration = Duration::from_millis(10);

/// The garbage collection after an unclean start, as a process runs it.
#[derive(Default)]
pub(super) struct StartupGcThread {
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
    fn record(&self, gc: &StartupGc) {
        let left = gc.segments_left() as u64;
        self.segments_left.store(left, Ordering::Relaxed);
    }

    /// Ends a collection that has no more to do.
    fn end(&self, gc: &StartupGc) {
        self.record(gc);
        let freed_bytes = gc.freed_bytes();
        if gc.is_complete() {
            self.is_due.store(false, Ordering::SeqCst);
            tracing::info!(freed_bytes, "freed the dead space that the last run left");
        } else {
            tracing::warn!(
                freed_bytes,
                "not all dead space that the last run left could be freed; the next start tries again"
            );
        }
    }

    /// Waits for a moment. Returns false if the collection must stop.
    fn pause(&self) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.stop.wait_for(&mut stopped, PAUSE);
        }
        !*stopped
    }
}

impl StartupGcThread {
    /// Returns true if nothing is left of the dead space of earlier processes, as far as is known.
    pub fn is_done(&self) -> bool {
        !self.progress.is_due.load(Ordering::SeqCst)
    }

    /// Returns the number of segments that are not done yet.
    pub fn segments_left(&self) -> u64 {
        self.progress.segments_left.load(Ordering::Relaxed)
    }

    /// Ends the collection after the current batch, and waits for that. It goes on at the next start.
    pub fn stop(&self) {
        self.ask_to_stop();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(
                "the thread that frees dead space panicked; the next start tries again"
            );
        }
    }

    /// Tells the collection to end after the current batch.
    pub fn ask_to_stop(&self) {
        *self.progress.stopped.lock() = true;
        self.progress.stop.notify_all();
    }
}

impl Drop for StartupGcThread {
    fn drop(&mut self) {
        self.ask_to_stop();
    }
}

impl Blocks {
    /// Frees the dead space that the last process left: in the background, or at once if the pool has
    /// no threads.
    pub(super) fn begin_startup_gc(self: &Arc<Blocks>) -> Result<()> {
        let mut gc = StartupGc::new(self, Batch::default());
        if gc.is_complete() {
            return Ok(());
        }
        let segments = gc.segments_left();
        tracing::info!(segments, "looking for dead space that the last run left");
        let progress = self.startup_gc.progress.clone();
        progress.is_due.store(true, Ordering::SeqCst);
        progress.record(&gc);
        if self.pool.is_inline() {
            while gc.step(self) {}
            progress.end(&gc);
            return Ok(());
        }
        let blocks = Arc::downgrade(self);
        let thread = std::thread::Builder::new()
            .name("storage-startup-gc".into())
            .spawn(move || run(&blocks, &progress, gc))
            .map_err(|e| Error::from_io("starting a storage thread", &e))?;
        *self.startup_gc.thread.lock() = Some(thread);
        Ok(())
    }
}

/// Runs a collection to its end, or until it is told to stop. Keeps the blocks open only during a batch.
fn run(blocks: &Weak<Blocks>, progress: &Progress, mut gc: StartupGc) {
    while progress.pause() {
        let Some(blocks) = blocks.upgrade() else {
            return;
        };
        let more = gc.step(&blocks);
        progress.record(&gc);
        if !more {
            return progress.end(&gc);
        }
    }
    tracing::info!(
        freed_bytes = gc.freed_bytes(),
        segments = gc.segments_left(),
        "stopped freeing the dead space that an earlier run left; the next start goes on"
    );
}

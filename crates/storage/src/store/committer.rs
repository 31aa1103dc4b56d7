//! The committer: a thread that runs all waiting transactions as one batch.
//!
//! While it commits, further transactions gather. Under load each commit therefore serves more
//! transactions (group commit).
//!
//! The queue has no limit of its own. A caller holds the memory of its transaction in any case, and
//! callers are limited where requests come in. A limit here could even block for ever: the turn may come
//! to a caller that is not polled, because its task waits for a later transaction.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::batch::Core;
use super::job::Job;
use crate::engine::Result;
use crate::error::Error;

/// The queue of transactions, and the thread that runs them.
pub(crate) struct Committer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    core: Arc<Core>,
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Box<dyn Job>>,
    closed: bool,
    /// True while the thread sleeps. A wake-up is a system call even if nobody sleeps, so it is
    /// skipped then.
    is_asleep: bool,
}

impl Committer {
    /// Starts the committer thread.
    pub fn start(core: Arc<Core>) -> Result<Committer> {
        let committer = Committer::inline(core);
        let shared = committer.shared.clone();
        let thread = std::thread::Builder::new()
            .name("committer".into())
            .spawn(move || shared.work())
            .map_err(|e| Error::from_io("starting the committer", &e))?;
        *committer.thread.lock() = Some(thread);
        Ok(committer)
    }

    /// Makes a committer without a thread. [`run_waiting`](Committer::run_waiting) does the work.
    pub fn inline(core: Arc<Core>) -> Committer {
        Committer {
            shared: Arc::new(Shared {
                core,
                queue: Mutex::default(),
                wake: Condvar::new(),
            }),
            thread: Mutex::default(),
        }
    }

    /// Queues a transaction.
    pub fn submit(&self, job: Box<dyn Job>) {
        let mut queue = self.shared.queue.lock();
        if queue.closed {
            drop(queue);
            job.finish(Err(Error::Failed("the store is closed".into())));
            return;
        }
        queue.jobs.push_back(job);
        let is_asleep = queue.is_asleep;
        drop(queue);
        if is_asleep {
            self.shared.wake.notify_one();
        }
    }

    /// Runs the queued transactions in the calling thread.
    pub fn run_waiting(&self) {
        while !self.shared.queue.lock().jobs.is_empty() {
            self.shared.run_batch();
        }
        self.shared.core.sync_if_due();
    }

    /// Returns the number of transactions that wait to be run.
    pub fn waiting(&self) -> usize {
        self.shared.queue.lock().jobs.len()
    }

    /// Refuses further transactions. Transactions that wait are still run.
    pub fn close(&self) {
        self.shared.queue.lock().closed = true;
        self.shared.wake.notify_one();
    }

    /// Returns the thread, to be joined after [`close`](Committer::close).
    pub fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().take()
    }
}

/// Closes the queue without joining the thread, because the thread may be the one that drops the
/// last handle.
impl Drop for Committer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn work(&self) {
        while self.wait() {
            self.run_batch();
            self.core.sync_if_due();
        }
    }

    fn run_batch(&self) {
        if self.queue.lock().jobs.is_empty() {
            return;
        }
        let run = || self.core.run(&mut || self.queue.lock().jobs.pop_front());
        // Panics of closures are caught one by one, so this panic is a defect below them. Callers
        // of this batch learn that it ended without an answer, and later calls are refused.
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            let why = "the committer panicked".into();
            self.core.note_failure(&Error::Failed(why));
        }
    }

    /// Waits for work, or until a sync is due. Returns false if the queue is closed and empty.
    fn wait(&self) -> bool {
        let mut queue = self.queue.lock();
        while queue.jobs.is_empty() {
            if queue.closed {
                return false;
            }
            queue.is_asleep = true;
            if !self.core.awaits_sync() {
                self.wake.wait(&mut queue);
                queue.is_asleep = false;
                continue;
            }
            let interval = self.core.limits.sync_interval;
            let waited = self.wake.wait_for(&mut queue, interval);
            queue.is_asleep = false;
            if waited.timed_out() {
                return true;
            }
        }
        true
    }
}

//! The committer: a thread that takes all transactions that wait as one batch.
//!
//! While it commits, further transactions gather; so the more come at once, the fewer commits
//! each of them costs.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::batch::Core;
use super::job::Job;
use super::options::{Limits, Transact};
use crate::engine::Result;
use crate::error::Error;

/// The unit in which waiting bytes are counted, so that a semaphore's 32 bits reach far enough.
const WEIGHT_UNIT_BYTES: usize = 1024;

/// Transactions on their way to the committer.
pub(crate) struct Committer {
    places: Arc<Semaphore>,
    weights: Arc<Semaphore>,
    weight_units: u32,
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
    /// Whether the thread waits to be woken: waking nobody is a system call, too.
    waits: bool,
}

impl Committer {
    /// Starts the thread.
    pub fn start(core: Arc<Core>) -> Result<Committer> {
        let committer = Committer::inline(core);
        let shared = committer.shared.clone();
        let thread = std::thread::Builder::new()
            .name("committer".into())
            .spawn(move || shared.work())
            .map_err(|e| Error::from_io("starting the committer", &e))?;
        *committer.thread() = Some(thread);
        Ok(committer)
    }

    /// Without a thread: [`run_waiting`](Committer::run_waiting) does the work.
    pub fn inline(core: Arc<Core>) -> Committer {
        let Limits {
            waiting_transactions,
            waiting_bytes,
            ..
        } = core.limits;
        let units = units_of(waiting_bytes).max(1);
        Committer {
            places: Arc::new(Semaphore::new(waiting_transactions.max(1))),
            weights: Arc::new(Semaphore::new(units as usize)),
            weight_units: units,
            shared: Arc::new(Shared {
                core,
                queue: Mutex::default(),
                wake: Condvar::new(),
            }),
            thread: Mutex::default(),
        }
    }

    /// Waits until there is room for one more transaction.
    pub async fn room(&self, transact: &Transact) -> Vec<OwnedSemaphorePermit> {
        let weight = units_of(transact.weight_bytes).min(self.weight_units);
        // The semaphores are never closed, so there is no error.
        let place = self.places.clone().acquire_owned().await.ok();
        let weight = self.weights.clone().acquire_many_owned(weight).await.ok();
        place.into_iter().chain(weight).collect()
    }

    /// Queues a transaction that has room.
    pub fn submit(&self, job: Box<dyn Job>) {
        let mut queue = self.shared.lock();
        if queue.closed {
            drop(queue);
            job.finish(Err(Error::Failed("the store is closed".into())));
            return;
        }
        queue.jobs.push_back(job);
        let waits = queue.waits;
        drop(queue);
        if waits {
            self.shared.wake.notify_one();
        }
    }

    /// Runs what is queued in the caller.
    pub fn run_waiting(&self) {
        while !self.shared.lock().jobs.is_empty() {
            self.shared.run_batch();
        }
        self.shared.core.sync_if_due();
    }

    /// Transactions that wait to be run.
    pub fn waiting(&self) -> usize {
        self.shared.lock().jobs.len()
    }

    /// Takes no more transactions; what waits is still run.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_one();
    }

    /// The thread, to be waited for after [`close`](Committer::close).
    pub fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread().take()
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread ends by itself: it may be the one that drops the last handle.
impl Drop for Committer {
    fn drop(&mut self) {
        self.close();
    }
}

fn units_of(bytes: usize) -> u32 {
    let most = Semaphore::MAX_PERMITS.min(u32::MAX as usize);
    bytes.div_ceil(WEIGHT_UNIT_BYTES).min(most) as u32
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while self.wait() {
            self.run_batch();
            self.core.sync_if_due();
        }
    }

    fn run_batch(&self) {
        if self.lock().jobs.is_empty() {
            return;
        }
        let run = || self.core.run(&mut || self.lock().jobs.pop_front());
        // Closures are caught one by one; this is a defect below them. Those who wait for this
        // batch learn that it ended without an answer, and later ones are refused.
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            let why = "the committer panicked".into();
            self.core.note(&Error::Failed(why));
        }
    }

    /// Waits for work, or until a sync is due; `false` if there is no more and never will be.
    fn wait(&self) -> bool {
        let mut queue = self.lock();
        while queue.jobs.is_empty() {
            if queue.closed {
                return false;
            }
            queue.waits = true;
            if !self.core.awaits_sync() {
                queue = self
                    .wake
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                queue.waits = false;
                continue;
            }
            let interval = self.core.limits.sync_interval;
            let (woken, waited) = self
                .wake
                .wait_timeout(queue, interval)
                .unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.waits = false;
            if waited.timed_out() {
                return true;
            }
        }
        true
    }
}

//! Threads for blocking work, and the bound on memory for content.
//!
//! # Invariants
//! - Calls of engines and disks run here, never on an async thread; but for short reads of what is in memory (`store::place`).
//! - At most `threads + queue` jobs are admitted at once; further callers wait in the order in
//!   which they came.
//! - Deferred jobs have threads of their own and never wait for an engine's write transaction.
//!   Thus a sync, which the holder of that transaction may wait for, always gets to run.
//! - A panic in a job is that job's error; the thread goes on.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};

mod memory;
mod stage;

use crate::disk::Scratch;
use crate::engine::Result;
use crate::error::Error;
use memory::Memory;

pub use memory::Reservation;
pub use stage::{Outgoing, Staged};

/// How large a pool is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolOptions {
    /// Threads for jobs that are waited for; deferred ones get half as many more (3 to 8).
    pub threads: usize,
    /// Jobs that may wait for a thread; callers beyond that wait for room.
    pub queue: usize,
    /// Bytes of memory for content that may be in use at once.
    pub buffer_bytes: usize,
    /// How many of them may be held while clients are waited for.
    pub holdable_bytes: usize,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            threads: 8,
            queue: 64,
            buffer_bytes: 72 << 20,
            holdable_bytes: 56 << 20,
        }
    }
}

/// A fixed number of threads with a bounded queue, or none at all: see [`Pool::inline`].
///
/// Clones are the same pool. The threads end when the last clone is dropped and the work is done.
#[derive(Clone)]
pub struct Pool {
    workers: Option<Arc<Workers>>,
    memory: Memory,
    scratch: Option<Arc<Scratch>>,
}

type Job = Box<dyn FnOnce() + Send>;

struct Workers {
    room: Arc<Semaphore>,
    shared: Arc<Shared>,
    deferred: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
    /// Threads that wait to be woken: waking nobody is a system call, too.
    waiting: usize,
}

impl Pool {
    /// Starts the threads.
    pub fn start(options: PoolOptions) -> Result<Pool> {
        let threads = options.threads.max(1);
        let workers = Arc::new(Workers {
            room: Arc::new(Semaphore::new(threads + options.queue)),
            shared: Arc::default(),
            deferred: Arc::default(),
        });
        workers.shared.start("storage", threads)?;
        workers
            .deferred
            .start("storage-later", (threads / 2).clamp(3, 8))?;
        Ok(Pool {
            workers: Some(workers),
            memory: Memory::new(options.buffer_bytes, options.holdable_bytes),
            scratch: None,
        })
    }

    /// The same pool, with scratch files for content that finds no memory. Without them it stays
    /// in memory that is not counted.
    pub fn with_scratch(self, scratch: Scratch) -> Pool {
        Pool {
            scratch: Some(Arc::new(scratch)),
            ..self
        }
    }

    /// A pool without threads: a job runs in the caller, at once. For simulation in one thread,
    /// where nothing may depend on a scheduler. Its memory for content is not bounded.
    pub fn inline() -> Pool {
        Pool {
            workers: None,
            memory: Memory::unbounded(),
            scratch: None,
        }
    }

    /// Runs `job` on a thread and waits for it. A job that was admitted runs to its end even if
    /// nobody waits for it any more.
    pub fn run<R, F>(&self, job: F) -> impl Future<Output = Result<R>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce() -> Result<R> + Send + 'static,
    {
        let workers = self.workers.clone();
        async move {
            let Some(workers) = workers else {
                return guarded(job);
            };
            let permit = workers.room.clone().acquire_owned().await;
            let (answer, answered) = oneshot::channel();
            workers.shared.push(Box::new(move || {
                let result = guarded(job);
                drop(permit);
                // An error means that the caller went away: nobody wants to know.
                let _ = answer.send(result);
            }));
            answered
                .await
                .unwrap_or_else(|_| Err(Error::Failed("the storage threads ended".into())))
        }
    }

    /// Queues `job` without waiting for room. The caller sees to it that only a bounded number of
    /// its jobs is queued at once, and that they do not wait for an engine's write transaction.
    pub fn defer(&self, job: impl FnOnce() + Send + 'static) {
        let guarded_job = move || {
            // The panic was reported by the panic hook; the thread must go on.
            let _ = catch_unwind(AssertUnwindSafe(job));
        };
        match &self.workers {
            Some(workers) => workers.deferred.push(Box::new(guarded_job)),
            None => guarded_job(),
        }
    }

    /// Waits for `bytes` of the memory for content. More than there is counts as all of it.
    ///
    /// Who has it must not wait for a client: that takes [`try_hold`](Pool::try_hold) or
    /// [`outgoing`](Pool::outgoing).
    pub async fn reserve(&self, bytes: usize) -> Reservation {
        self.memory.reserve(bytes).await
    }

    /// Takes `bytes` of the memory for content, to be kept for any time; `None` if there is not enough.
    pub fn try_hold(&self, bytes: usize) -> Option<Reservation> {
        self.memory.try_hold(bytes)
    }

    /// Begins a block that a client sends, at its pace.
    pub fn stage(&self) -> Staged {
        Staged::new(self.clone())
    }

    /// Takes over a range of a block whose bytes were reserved, to be handed to a client at its
    /// pace. What is beyond the block's end is cut off.
    ///
    /// # Errors
    /// What the scratch file's disk says.
    pub async fn outgoing(&self, block: Bytes, range: Range<usize>) -> Result<Outgoing> {
        let end = range.end.min(block.len());
        Outgoing::new(self.clone(), block, range.start.min(end)..end).await
    }

    fn keep(&self, content: Bytes) -> std::result::Result<Bytes, Bytes> {
        self.memory.keep(content)
    }

    /// Whether more than half of the memory that may be held is.
    pub fn is_short(&self) -> bool {
        self.memory.is_short()
    }

    /// Bytes of the memory for content that nobody has; `None` if it is not bounded.
    pub fn free_buffer_bytes(&self) -> Option<usize> {
        self.memory.free_bytes()
    }
}

/// Runs a job; a panic in it is an error of its own.
pub(crate) fn guarded<R>(job: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(job))
        .unwrap_or_else(|_| Err(Error::Failed("a storage job panicked".into())))
}

impl Shared {
    fn start(self: &Arc<Shared>, name: &str, threads: usize) -> Result<()> {
        for number in 0..threads {
            let shared = self.clone();
            std::thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || shared.work())
                .map_err(|e| Error::from_io("starting a storage thread", &e))?;
        }
        Ok(())
    }

    fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn push(&self, job: Job) {
        let mut queue = self.lock();
        queue.jobs.push_back(job);
        let waiting = queue.waiting;
        drop(queue);
        if waiting > 0 {
            self.wake.notify_one();
        }
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue.waiting += 1;
            queue = self.wake.wait(queue).unwrap_or_else(|e| e.into_inner());
            queue.waiting -= 1;
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.close();
        self.deferred.close();
    }
}

#[cfg(test)]
mod tests;

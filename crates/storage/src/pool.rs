//! Threads for blocking work, and the limit of memory for content.
//!
//! # Invariants
//! - Calls of engines and disks run here, never on an async thread, except short reads of data in
//!   memory (`store::read_path`).
//! - At most `threads + queue` jobs are admitted at once. Further callers wait in order of arrival.
//! - Deferred jobs have threads of their own and never wait for an engine's write transaction. A
//!   sync can therefore always run, even if the holder of that transaction waits for it.
//! - A panic in a job is an error of that job. The thread continues.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

mod memory;
mod stage;

use crate::disk::Scratch;
use crate::engine::Result;
use crate::error::Error;
use memory::Memory;

pub use memory::Reservation;
pub use stage::{Outgoing, Staged};

/// The most jobs on scratch files at once.
const PARKING_JOBS: usize = 2;

/// The size of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolOptions {
    /// The number of threads for ordinary jobs. Deferred jobs get half as many more (3 to 8).
    pub threads: usize,
    /// The number of jobs that may wait for a thread. Further callers wait for room.
    pub queue: usize,
    /// The memory for content that may be in use at once, in bytes.
    pub buffer_bytes: usize,
    /// The part of it that may be held while a client is slow.
    pub holdable_bytes: usize,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            threads: 8,
            queue: 64,
            // With the memory for ciphers it is 72 MiB.
            buffer_bytes: 68 << 20,
            holdable_bytes: 52 << 20,
        }
    }
}

/// The slowness of a store without threads, for simulation.
pub trait Pace: Send + Sync {
    /// Runs a job a while later, also if its caller goes away.
    fn later(&self, work: Work, job: Box<dyn FnOnce() + Send>);
}

/// The kind of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// It reads, or writes blocks.
    Job,
    /// It commits all transactions that wait.
    Commit,
}

/// A fixed number of threads with a bounded queue, or no threads at all (see [`Pool::inline`]).
///
/// Clones share the same pool. The threads end when the last clone is dropped and the work is done.
#[derive(Clone)]
pub struct Pool {
    workers: Option<Arc<Workers>>,
    pace: Option<Arc<dyn Pace>>,
    memory: Memory,
    scratch: Option<Arc<Scratch>>,
    /// Bounds the jobs on scratch files, so that clients that stall never fill the queue.
    parking: Arc<Semaphore>,
    /// Bounds the jobs that read blocks, so that thousands of clients that ask for much do not fill
    /// the queue.
    reading: Arc<Semaphore>,
}

type Job = Box<dyn FnOnce() + Send>;

/// A kind of work that may hang with a file system, so that one job of it at most is under way.
pub(crate) struct Single(Arc<Semaphore>);

impl Default for Single {
    fn default() -> Single {
        Single(Arc::new(Semaphore::new(1)))
    }
}

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
    /// The number of threads that sleep. A wake-up is a system call even if nobody sleeps, so it is
    /// skipped then.
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
            pace: None,
            memory: Memory::new(options.buffer_bytes, options.holdable_bytes),
            scratch: None,
            parking: Arc::new(Semaphore::new(PARKING_JOBS)),
            reading: Arc::new(Semaphore::new(threads)),
        })
    }

    /// Adds scratch files for content that finds no memory. Without them such content stays in
    /// memory that is not counted.
    pub fn with_scratch(self, scratch: Scratch) -> Pool {
        Pool {
            scratch: Some(Arc::new(scratch)),
            ..self
        }
    }

    /// Makes a pool without threads: a job runs in the caller, at once. It is for simulation in one
    /// thread, where nothing may depend on a scheduler. Its memory for content is unlimited.
    pub fn inline() -> Pool {
        Pool {
            workers: None,
            pace: None,
            memory: Memory::unbounded(),
            scratch: None,
            parking: Arc::new(Semaphore::new(PARKING_JOBS)),
            reading: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        }
    }

    /// Makes a pool without threads whose jobs run when `pace` lets them. Deferred jobs run at once,
    /// because others may wait for them without an end of their own.
    pub fn paced(pace: Arc<dyn Pace>) -> Pool {
        Pool {
            pace: Some(pace),
            ..Pool::inline()
        }
    }

    /// Returns true if the pool has no threads: jobs run in their callers.
    pub fn is_inline(&self) -> bool {
        self.workers.is_none()
    }

    /// Runs `job` on a thread and waits for it. A job that was admitted runs to its end even if its
    /// caller goes away.
    pub fn run<R, F>(&self, job: F) -> impl Future<Output = Result<R>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce() -> Result<R> + Send + 'static,
    {
        let (workers, pace) = (self.workers.clone(), self.pace.clone());
        async move {
            let permit = match &workers {
                Some(workers) => workers.room.clone().acquire_owned().await.ok(),
                None => None,
            };
            let (answer, answered) = oneshot::channel();
            let job = move || {
                let result = guarded(job);
                drop(permit);
                // An error means that the caller went away, so nobody needs the answer.
                let _ = answer.send(result);
            };
            match (workers, pace) {
                (Some(workers), _) => workers.shared.push(Box::new(job)),
                (None, Some(pace)) => pace.later(Work::Job, Box::new(job)),
                (None, None) => job(),
            }
            answered
                .await
                .unwrap_or_else(|_| Err(Error::Failed("the storage threads have ended".into())))
        }
    }

    /// Runs `job` as [`run`](Pool::run) does, once no other job of `single` is under way. While one
    /// hangs, later callers wait, and leave no job behind when they give up.
    pub(crate) async fn run_single<R, F>(&self, single: &Single, job: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce() -> Result<R> + Send + 'static,
    {
        self.run_in(&single.0, job).await
    }

    /// Runs a job that reads a block. As many of them are admitted at once as there are threads: a
    /// short job waits for no more of them.
    pub(crate) async fn run_read<R, F>(&self, job: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce() -> Result<R> + Send + 'static,
    {
        self.run_in(&self.reading, job).await
    }

    /// Runs `job` once it has one of the `places`, which it keeps until its end.
    async fn run_in<R, F>(&self, places: &Arc<Semaphore>, job: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce() -> Result<R> + Send + 'static,
    {
        // The semaphore is never closed.
        let place = places.clone().acquire_owned().await.ok();
        let job = move || {
            let done = job();
            drop(place);
            done
        };
        self.run(job).await
    }

    /// Runs a job on a scratch file. Only a few of them run at once.
    async fn run_parking<R, F>(&self, job: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce() -> Result<R> + Send + 'static,
    {
        // The semaphore is never closed.
        let _place = self.parking.acquire().await.ok();
        self.run(job).await
    }

    /// Queues `job` without waiting for room. The caller must bound the number of its queued jobs,
    /// and these must not wait for an engine's write transaction.
    pub fn defer(&self, job: impl FnOnce() + Send + 'static) {
        let guarded_job = move || {
            // The panic hook has reported the panic. The thread must continue.
            let _ = catch_unwind(AssertUnwindSafe(job));
        };
        match &self.workers {
            Some(workers) => workers.deferred.push(Box::new(guarded_job)),
            None => guarded_job(),
        }
    }

    /// Runs a commit in the calling thread: at once, or when the [pace](Pace) lets it.
    pub(crate) fn commit_inline(&self, commit: impl FnOnce() + Send + 'static) {
        match &self.pace {
            Some(pace) => pace.later(Work::Commit, Box::new(commit)),
            None => commit(),
        }
    }

    /// Waits for `bytes` of the memory for content. A request for more than exists gets all of it.
    ///
    /// The holder of the reservation must not wait for a client. For that, use
    /// [`try_hold`](Pool::try_hold) or [`outgoing`](Pool::outgoing).
    pub async fn reserve(&self, bytes: usize) -> Reservation {
        self.memory.reserve(bytes).await
    }

    /// Waits for `bytes` of the memory for ciphers, which plain content cannot use up. A request for more
    /// than exists gets all of it.
    ///
    /// The holder of the reservation must not wait for a client. It may wait for disks, for other nodes
    /// and for [`reserve`](Pool::reserve).
    pub async fn reserve_for_cipher(&self, bytes: usize) -> Reservation {
        self.memory.reserve_for_cipher(bytes).await
    }

    /// Takes `bytes` of the memory for content, for any length of time; `None` if there is not
    /// enough.
    pub fn try_hold(&self, bytes: usize) -> Option<Reservation> {
        self.memory.try_hold(bytes)
    }

    /// Starts a block that a client sends at its own pace.
    pub fn stage(&self) -> Staged {
        Staged::new(self.clone())
    }

    /// Takes a range of a block with reserved bytes, to be sent to a client at the client's pace.
    /// The range is cut at the end of the block.
    ///
    /// # Errors
    /// The error of the scratch file's disk.
    pub async fn outgoing(&self, block: Bytes, range: Range<usize>) -> Result<Outgoing> {
        let end = range.end.min(block.len());
        Outgoing::new(self.clone(), block, range.start.min(end)..end).await
    }

    fn keep(&self, content: Bytes) -> std::result::Result<Bytes, Bytes> {
        self.memory.keep(content)
    }

    /// Returns the free bytes of the memory for content; `None` if it is unlimited.
    pub fn free_buffer_bytes(&self) -> Option<usize> {
        self.memory.free_bytes()
    }
}

/// Runs a job. A panic in it becomes an error.
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
        self.queue.lock().closed = true;
        self.wake.notify_all();
    }

    fn push(&self, job: Job) {
        let mut queue = self.queue.lock();
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
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue.waiting += 1;
            self.wake.wait(&mut queue);
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

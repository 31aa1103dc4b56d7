//! A journal before an engine: a commit is one record and one flush.
//!
//! A commit appends its changes to a file and, if it is durable, syncs that file. The changes then
//! stand in memory, in order, above the engine. A thread brings them to the engine in large sorted
//! batches, which write a page once where commits would write it many times. After an unclean end
//! the journal is read, and the engine gets what it lacks. `docs/internals/journal.md` describes the
//! files.
//!
//! - [`record`]: the bytes
//! - [`log`]: the files: appending, syncing, using them in turn
//! - [`memtable`]: changes in memory, and the merged view of several layers
//! - [`txn`]: reading and writing
//! - [`values`]: long values, in files of their own
//! - [`checkpoint`], [`batch`]: bringing changes to the engine
//! - [`compact`]: freeing the space of dead values
//! - [`fill`]: copying all entries of another engine
//! - [`open`], [`recover`]: opening; reading the journal after a start
//!
//! # Invariants
//! - Readers see a commit after it is as durable as was asked.
//! - Readers see the changes of the current generation, above the frozen ones, above the engine. A
//!   key's last change hides all below it. So it does not matter which part of the frozen
//!   changes the engine has already, and reading the journal twice does no harm.
//! - The engine below has all changes of a generation, durably, before the journal frees its file.

mod batch;
mod checkpoint;
mod compact;
mod fill;
mod log;
mod memtable;
mod open;
mod record;
mod recover;
mod txn;
mod values;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use self::log::{Log, Tail};
use self::memtable::Memtable;
use self::txn::Transaction;
use self::values::Values;
use super::failure::Breaker;
use super::{Engine, JournalStatus, ReadTxn, Result, WriteTxn};
use crate::disk::Disk;
use crate::error::Error;

/// The key of the journal's link in the engine below. Nobody sees it through the journal.
const LINK_KEY: &[u8] = b"\0journal";

/// The sizes of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalLimits {
    /// The estimated memory of changes at which a checkpoint begins, in bytes. At twice that
    /// size writers wait for the checkpoint before.
    pub memory_bytes: usize,
    /// The size of the transactions of a checkpoint, in bytes of keys and values, with one page for
    /// each change: keys in no order are each on a page of their own.
    pub batch_bytes: usize,
    /// The pause between two transactions of a checkpoint, in which the journal has the disk for itself.
    pub rest: Duration,
    /// The length of a file at which a checkpoint begins, in bytes: a key that is written again and
    /// again takes room in the file and none in memory.
    pub file_bytes: u64,
    /// The step by which the journal's files grow, in bytes.
    pub growth_bytes: u64,
    /// The length from which a segment of values gets no more, in bytes.
    pub segment_bytes: u64,
    /// The time without commits after which a checkpoint begins, however little there is.
    pub idle: Duration,
}

impl Default for JournalLimits {
    fn default() -> JournalLimits {
        JournalLimits {
            memory_bytes: 16 << 20,
            batch_bytes: 4 << 20,
            rest: Duration::from_millis(40),
            file_bytes: 32 << 20,
            growth_bytes: 1 << 20,
            segment_bytes: 32 << 20,
            idle: Duration::from_secs(10),
        }
    }
}

/// An engine with a journal before it.
pub struct Journaled {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the handle and the thread share.
struct Core {
    below: Arc<dyn Engine>,
    log: Log,
    values: Values,
    limits: JournalLimits,
    breaker: Breaker,
    state: RwLock<State>,
    /// The end of the journal, and the lock of the one writer.
    tail: Mutex<Tail>,
    work: Mutex<Work>,
    /// Held during a checkpoint and while space is freed.
    checkpointing: Mutex<()>,
    /// The generation of the last checkpoint, and how many of its changes the engine has.
    progress: Mutex<(u64, usize)>,
    /// Wakes the thread.
    wake: Condvar,
    /// Wakes writers that wait for a checkpoint.
    done: Condvar,
    checkpoints: AtomicU64,
    waits: AtomicU64,
    /// The bytes of live values that were moved.
    moved: AtomicU64,
    has_thread: bool,
}

/// The changes that readers see above the engine.
#[derive(Clone, Default)]
struct State {
    /// The generation, and how many records it had after the last commit.
    end: (u64, u32),
    /// The changes of the current generation.
    active: Arc<Memtable>,
    /// The changes of the generation before, until the engine has them.
    frozen: Option<Arc<Memtable>>,
}

/// The work of the thread.
#[derive(Default)]
struct Work {
    /// The generation that is written to.
    active: u64,
    /// The generation that is frozen.
    frozen: Option<u64>,
    /// The newest generation whose file is prepared.
    prepared: u64,
    /// The error of the last checkpoint, if it failed.
    trouble: Option<Error>,
    closed: bool,
}

impl Work {
    /// Returns true if the thread has something to do.
    fn is_due(&self) -> bool {
        self.frozen.is_some() || self.prepared <= self.active
    }
}

impl Journaled {
    /// Opens the journal on `disk` before `below`, or makes a new one. Brings to the engine what it
    /// lacks after an unclean end. `name` is the name of a new journal, at random.
    ///
    /// # Errors
    /// `Failed` if the journal and the engine do not belong together; `Damaged` if records are
    /// missing.
    pub fn open(
        below: Arc<dyn Engine>,
        disk: Arc<dyn Disk>,
        name: [u8; 16],
        limits: JournalLimits,
    ) -> Result<Journaled> {
        let mut core = Core::open(below, disk, name, limits)?;
        core.has_thread = true;
        let core = Arc::new(core);
        let worker = core.clone();
        let thread = std::thread::Builder::new()
            .name("checkpoints".into())
            .spawn(move || worker.work_until_closed())
            .map_err(|e| Error::from_io("starting the thread of checkpoints", &e))?;
        Ok(Journaled {
            core,
            thread: Some(thread),
        })
    }

    /// Opens a journal without a thread: the writer that finds too much in memory runs the
    /// checkpoint itself. For copies, tests and simulation.
    ///
    /// # Errors
    /// As [`Journaled::open`].
    pub fn without_thread(
        below: Arc<dyn Engine>,
        disk: Arc<dyn Disk>,
        name: [u8; 16],
        limits: JournalLimits,
    ) -> Result<Journaled> {
        Ok(Journaled {
            core: Arc::new(Core::open(below, disk, name, limits)?),
            thread: None,
        })
    }
}

impl Core {
    /// Freezes the current changes if the next file is ready and there is anything to freeze. Call
    /// it under the writer's lock.
    fn freeze(&self, tail: &mut Tail) -> Result<bool> {
        let next = tail.generation + 1;
        let mut work = self.work.lock();
        if work.is_due() || tail.records <= 1 {
            return Ok(false);
        }
        self.log
            .sync(tail.generation, tail.records, &self.breaker)?;
        let begun = self.log.begin(next, tail.records);
        *tail = begun.map_err(|e| Error::from_io("beginning a file of the journal", &e))?;
        let mut state = self.state.write();
        state.frozen = Some(std::mem::take(&mut state.active));
        state.end = (next, tail.records);
        work.frozen = Some(next - 1);
        work.active = next;
        self.wake.notify_one();
        Ok(true)
    }

    /// Waits while too much waits for a checkpoint.
    fn wait_for_room(&self) -> Result<MutexGuard<'_, Tail>> {
        let mut has_waited = false;
        loop {
            let mut tail = self.tail.lock();
            self.breaker.check()?;
            if !self.is_over(2, &tail) || self.freeze(&mut tail)? {
                return Ok(tail);
            }
            drop(tail);
            if !std::mem::replace(&mut has_waited, true) {
                self.waits.fetch_add(1, Ordering::Relaxed);
            }
            if !self.has_thread {
                self.checkpoint()?;
                self.free_space();
                continue;
            }
            let mut work = self.work.lock();
            if let Some(trouble) = &work.trouble {
                return Err(trouble.clone());
            }
            if work.is_due() {
                self.done.wait(&mut work);
            }
        }
    }

    /// Returns true if there is `times` as much in memory or in the file as when a checkpoint
    /// begins.
    fn is_over(&self, times: u64, tail: &Tail) -> bool {
        let memory = self.state.read().active.bytes() as u64;
        memory >= times * self.limits.memory_bytes as u64
            || tail.end >= times * self.limits.file_bytes
    }

    /// Appends a record. Only lack of space leaves the journal as it was.
    fn append(&self, tail: &mut Tail, body: &[u8]) -> Result<()> {
        match self.log.append(tail, body, &self.breaker) {
            // The next file may be longer than this one.
            Err(Error::Full(_)) if self.freeze(tail)? => self.log.append(tail, body, &self.breaker),
            other => other,
        }
        .map_err(|error| match error {
            Error::Io(text) => self.breaker.trip("writing to the journal", text),
            other => other,
        })
    }

    /// Brings everything to the engine below.
    fn close(&self) -> Result<()> {
        self.breaker.check()?;
        self.checkpoint()?;
        self.freeze(&mut self.tail.lock())?;
        self.checkpoint()
    }

    /// Syncs what has been committed by now.
    fn sync(&self) -> Result<()> {
        let (generation, records) = self.state.read().end;
        self.log.sync(generation, records, &self.breaker)
    }
}

impl Engine for Journaled {
    fn read(&self) -> Result<Box<dyn ReadTxn + '_>> {
        Ok(Box::new(self.core.view()?))
    }

    fn write(&self) -> Result<Box<dyn WriteTxn + '_>> {
        let tail = self.core.wait_for_room()?;
        Ok(Box::new(Transaction::new(&self.core, tail)?))
    }

    fn sync(&self) -> Result<()> {
        self.core.sync()
    }

    fn copy_to(&self, source: &dyn ReadTxn, folder: &Path) -> Result<()> {
        self.core.below.copy_to(source, folder)
    }

    fn size_bytes(&self) -> Result<u64> {
        self.core.below.size_bytes()
    }

    fn journal(&self) -> Option<JournalStatus> {
        let state = self.core.state.read().clone();
        let frozen = state.frozen.map_or(0, |frozen| frozen.bytes());
        let (value_bytes, live_value_bytes) = self.core.values.totals();
        Some(JournalStatus {
            checkpoints: self.core.checkpoints.load(Ordering::Relaxed),
            waits: self.core.waits.load(Ordering::Relaxed),
            memory_bytes: (state.active.bytes() + frozen) as u64,
            value_bytes,
            live_value_bytes,
            moved_value_bytes: self.core.moved.load(Ordering::Relaxed),
        })
    }

    fn is_nearly_full(&self, more_bytes: u64) -> bool {
        let waiting = self.journal().unwrap_or_default().memory_bytes;
        self.core.below.is_nearly_full(more_bytes + waiting)
    }

    fn reads_in_place(&self) -> bool {
        self.core.below.reads_in_place()
    }

    fn trim_resident(&self, limit_bytes: u64) -> Result<u64> {
        self.core.below.trim_resident(limit_bytes)
    }
}

/// Brings everything to the engine below, so that the next start has nothing to read.
impl Drop for Journaled {
    fn drop(&mut self) {
        self.core.work.lock().closed = true;
        self.core.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is reported already.
            let _ = thread.join();
        }
        if let Err(error) = self.core.close() {
            tracing::warn!(%error, "closing the journal: the next start reads it");
        }
    }
}

//! The store: one node's durable state behind one handle.
//!
//! A transaction is a closure over [`RowTxn`]. The committer runs all waiting closures as one batch
//! with one commit (`batch`). A read is a closure over [`RowReader`] and runs on the pool.
//!
//! # Invariants
//! - An answer leaves only after the commit that it depends on.
//! - A closure that fails or panics changes nothing and does not affect the other closures of its
//!   batch.
//! - After a commit with an unknown outcome the store is read-only.

mod batch;
mod boot;
mod committer;
mod job;
mod ledger;
mod migrate;
mod options;
mod read_path;
mod rebuild;
mod wait;

use std::path::Path;
use std::sync::Arc;

use archipel_base::{Id, Stamp, Writer};
use bytes::Bytes;
use futures_util::future::join_all;

pub use batch::Counters;
pub use boot::FORMAT;
pub use options::{FreeSpace, Growth, Limits, StoreOptions, Threads, Transact};
pub use rebuild::Rebuilt;

use crate::blocks::{BlockAppender, BlockOptions, Blocks, Pin};
use crate::engine::{JournalStatus, Result};
use crate::error::Error;
use crate::pool::{Pool, Single, guarded};
use crate::row::{BlockRef, Row, RowKey};
use crate::rows::{Report, RowReader, RowTxn};
use batch::Core;
use boot::{Boot, Purpose};
use committer::Committer;
use job::Call;
use read_path::ReadPath;

/// The number of threads that read ahead at once: the threads of a [`Pool`] of the usual size.
const READ_AHEAD_THREADS: usize = 8;

/// One node's durable state. Clones share the same store.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    committer: Committer,
    pool: Pool,
    threads: Threads,
    read_path: ReadPath,
    boot: Boot,
    /// Questions about the state of the store.
    asking: Single,
}

/// The state of a store.
#[derive(Clone, Debug)]
pub struct Status {
    /// The store's identity.
    pub identity: Id,
    /// The number of this run of the store: 1 is the first.
    pub boot: u64,
    /// The reason why the store takes no more writes, if it takes none.
    pub read_only: Option<String>,
    /// True if the metadata disk has room for transactions that grow.
    pub has_room: bool,
    /// The size of the metadata engine in bytes.
    pub metadata_bytes: u64,
    /// Free bytes on the metadata engine's disk, if known.
    pub metadata_free_bytes: Option<u64>,
    /// The number of transactions that wait.
    pub waiting: usize,
}

impl Store {
    /// Opens a store, or makes a new one. Blocks the thread: do not call it on an async thread.
    ///
    /// # Errors
    /// [`Error::Refused`] if the store has a format that this release cannot read, or if the store or a disk belongs to another
    /// node.
    pub fn open(options: StoreOptions) -> Result<Store> {
        let boot = boot::begin(&options, Purpose::Serve)?;
        let blocks = Blocks::open(
            options.engine.clone(),
            options.disks,
            BlockOptions {
                owner: boot.identity,
                ..options.blocks
            },
            options.pool.clone(),
            boot.start,
        )?;
        let core = Arc::new(Core::new(
            options.engine,
            blocks,
            options.clock,
            options.metadata_space,
            options.limits,
        ));
        let committer = match options.threads {
            Threads::Own => Committer::start(core.clone())?,
            Threads::Inline => Committer::inline(core.clone()),
        };
        Ok(Store(Arc::new(Inner {
            core,
            committer,
            pool: options.pool,
            threads: options.threads,
            read_path: ReadPath::default(),
            boot,
            asking: Single::default(),
        })))
    }

    /// Runs `closure` in a transaction. Returns once its changes are committed as durably as `how`
    /// asks (a `Durability` or a [`Transact`]). A queued closure runs even if its caller goes away.
    ///
    /// The closure must not call the store.
    ///
    /// # Errors
    /// The closure's own error; [`Error::Refused`] if it panics; [`Error::Full`] if it may grow and
    /// there is no room; the error of the commit if the commit fails. In that case nothing has
    /// changed, except after [`Error::Failed`], when the outcome is unknown.
    pub async fn transact<T, F>(&self, how: impl Into<Transact>, closure: F) -> Result<T>
    where
        F: FnOnce(&mut RowTxn<'_>) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let how = how.into();
        let (call, answer) = Call::new(how, closure);
        self.0.committer.submit(Box::new(call));
        if self.0.threads == Threads::Inline {
            let inner = self.0.clone();
            let commit = move || inner.committer.run_waiting();
            self.0.pool.commit_inline(commit);
        }
        answer
            .await
            .unwrap_or_else(|_| Err(Error::Failed("the committer ended".into())))
    }

    /// Runs `closure` on a consistent view of the committed data.
    pub async fn read<T, F>(&self, closure: F) -> Result<T>
    where
        F: FnOnce(&RowReader<'_>) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let inner = self.0.clone();
        let job = move || {
            let _watched = inner.read_path.watch();
            inner.core.read(closure)
        };
        self.0.pool.run(job).await
    }

    /// Runs a closure that reads only a few rows. It may run in the calling thread, which saves
    /// waking another one (`read_path`).
    pub async fn look_up<T, F>(&self, closure: F) -> Result<T>
    where
        F: FnOnce(&RowReader<'_>) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        if self.0.core.engine.reads_in_place()
            && let Some(_in_place) = self.0.read_path.try_in_place()
        {
            return guarded(|| self.0.core.read(closure));
        }
        self.read(closure).await
    }

    /// Reads `items` ahead if the store is cold. Call it before a read of many items; `closure`
    /// reads one of them. A read of a cold store is likely to wait for the disk again and again.
    /// Many threads read at once here, so that the pages are in memory afterwards.
    pub async fn warm<T, F>(&self, items: impl Iterator<Item = T>, closure: F)
    where
        T: Clone + Send + 'static,
        F: Fn(&RowReader<'_>, &T) -> Result<()> + Copy + Send + 'static,
    {
        if self.0.threads == Threads::Inline || !self.0.read_path.is_cold() {
            return;
        }
        let items: Vec<T> = items.collect();
        let some = items.chunks(items.len().div_ceil(READ_AHEAD_THREADS).max(1));
        let jobs = some.map(|items| {
            let items = items.to_vec();
            self.read(move |rows| items.iter().try_for_each(|item| closure(rows, item)))
        });
        // If a read fails here, the caller's own read reports the error.
        let _ = join_all(jobs).await;
    }

    /// Starts an upload of blocks.
    pub fn appender(&self) -> BlockAppender {
        self.blocks().appender()
    }

    /// Keeps blocks readable. Pin first, then check that the row still refers to them.
    pub fn pin(&self, blocks: &[BlockRef]) -> Pin {
        self.blocks().pin(blocks)
    }

    /// Returns the content of a block, verified.
    pub async fn read_block(&self, block: &BlockRef) -> Result<Bytes> {
        self.blocks().read(block).await
    }

    /// Returns the blocks that are missing on this node, each once.
    pub async fn missing_blocks(&self, blocks: Vec<BlockRef>) -> Result<Vec<BlockRef>> {
        let here = self.blocks().clone();
        self.0.pool.run(move || here.missing(&blocks)).await
    }

    /// Returns a row and a pin that keeps the blocks of its payload readable.
    pub async fn pin_payload(&self, key: &RowKey) -> Result<Option<(Row, Pin)>> {
        let mut row = self.row(key).await?;
        loop {
            let Some(found) = row else {
                return Ok(None);
            };
            let blocks = blocks_of(&found);
            let pin = self.pin(blocks);
            // A block cannot be freed if a committed row refers to it after it was pinned.
            if blocks.is_empty() {
                return Ok(Some((found, pin)));
            }
            let again = self.row(key).await?;
            if again.as_ref().is_some_and(|row| blocks_of(row) == blocks) {
                return Ok(again.map(|row| (row, pin)));
            }
            row = again;
        }
    }

    async fn row(&self, key: &RowKey) -> Result<Option<Row>> {
        let key = key.clone();
        self.read(move |rows| rows.row(&key)).await
    }

    /// Makes all `Buffered` commits durable. The committer also does this at intervals.
    pub async fn sync(&self) -> Result<()> {
        self.0.core.sync().await
    }

    /// Returns the number of this run of the store: 1 is the first, and each opening counts.
    pub fn boot(&self) -> u64 {
        self.0.boot.number
    }

    /// Returns the store's identity, which was made when the store was first opened.
    pub fn identity(&self) -> Id {
        self.0.boot.identity
    }

    /// Returns the writer of stamps for this boot.
    pub fn writer(&self) -> Writer {
        Writer::new(self.0.boot.token, self.boot())
    }

    /// Returns the highest stamp of any row. A clock that has seen it issues higher stamps, even if
    /// the time of day was set back.
    pub async fn highest_stamp(&self) -> Result<Option<Stamp>> {
        self.read(|rows| rows.highest_stamp()).await
    }

    /// Returns the state of the store. It asks the file system of the metadata. The next call waits
    /// while that hangs, so give it a time limit.
    pub async fn status(&self) -> Result<Status> {
        let this = self.clone();
        let status = move || this.status_blocking();
        self.0.pool.run_single(&self.0.asking, status).await
    }

    /// Returns what [`status`](Store::status) does, on a thread that may wait.
    pub fn status_blocking(&self) -> Result<Status> {
        let (boot, core) = (&self.0.boot, &self.0.core);
        Ok(Status {
            identity: boot.identity,
            boot: boot.number,
            read_only: core.failed().map(|error| error.to_string()),
            has_room: core.has_room(),
            metadata_bytes: core.engine.size_bytes()?,
            metadata_free_bytes: core.free_space().transpose()?,
            waiting: self.0.committer.waiting(),
        })
    }

    /// Returns the store's counts since it was opened.
    pub fn counters(&self) -> &Counters {
        &self.0.core.counters
    }

    /// Returns the figures of the metadata engine's journal, if it has one.
    pub fn journal(&self) -> Option<JournalStatus> {
        self.0.core.engine.journal()
    }

    /// Returns the blocks, for operations on blocks alone: status, scrubbing, draining.
    pub fn blocks(&self) -> &Arc<Blocks> {
        &self.0.core.blocks
    }

    /// Recomputes all derived data and compares it with the stored data. It reads everything, so it
    /// is for tests and offline use.
    pub async fn verify(&self) -> Result<Report> {
        self.read(|rows| rows.verify()).await
    }

    /// Copies the committed metadata to a new folder after a sync. The blocks that the copy refers
    /// to may be freed later.
    pub async fn snapshot_to(&self, folder: &Path) -> Result<()> {
        self.sync().await?;
        let (core, folder) = (self.0.core.clone(), folder.to_owned());
        let copy = move || core.engine.snapshot_to(&folder);
        self.0.pool.run(copy).await
    }

    /// Closes the store. Waiting transactions are still committed and everything is synced. The
    /// next opening then knows that it has nothing to recover, unless dead space of an earlier run is
    /// still being freed, or an upload goes on: then it frees what is left. Later transactions are refused.
    pub async fn close(&self) -> Result<()> {
        let inner = &self.0;
        inner.committer.close();
        if inner.threads == Threads::Inline {
            inner.committer.run_waiting();
        }
        if let Some(thread) = inner.committer.take_thread() {
            let joined = inner.pool.run(move || {
                thread
                    .join()
                    .map_err(|_| Error::Failed("the committer panicked".into()))
            });
            joined.await?;
        }
        self.sync().await?;
        self.blocks().close().await?;
        let (engine, boot) = (inner.core.engine.clone(), inner.boot.number);
        let startup_gc_is_done = self.blocks().startup_gc_is_done();
        let end = move || boot::end(&engine, boot, startup_gc_is_done);
        inner.pool.run(end).await
    }
}

fn blocks_of(row: &Row) -> &[BlockRef] {
    row.value
        .as_ref()
        .map_or(&[], |value| value.payload.blocks())
}

#[cfg(test)]
pub(crate) mod tests;

//! The store: one node's durable state behind one handle.
//!
//! Transactions are closures over [`RowTxn`]; the committer runs all that wait as one batch, with
//! one commit (`batch`). Reads are closures over [`RowReader`] and run on the pool.
//!
//! # Invariants
//! - An answer leaves only after the commit that it rests on.
//! - A closure that fails or panics changes nothing, and harms no other of its batch.
//! - After a failed commit of unknown outcome the store only reads.

mod batch;
mod boot;
mod committer;
mod job;
mod ledger;
mod options;
mod place;
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

use crate::blocks::{BlockOptions, Blocks, Pin, Upload};
use crate::engine::Result;
use crate::error::Error;
use crate::pool::{Pool, guarded};
use crate::row::{BlockRef, Row, RowKey};
use crate::rows::{Report, RowReader, RowTxn};
use batch::Core;
use boot::{Boot, Purpose};
use committer::Committer;
use job::Call;
use place::Place;

/// How many threads read ahead at once: those of a [`Pool`] of the usual size.
const WARMERS: usize = 8;

/// One node's durable state. Clones are the same store.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    committer: Committer,
    pool: Pool,
    threads: Threads,
    place: Place,
    boot: Boot,
}

/// How a store is.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its identity.
    pub identity: Id,
    /// Which run of the store this is: 1 is the first.
    pub boot: u64,
    /// Why it takes no more writes, if so.
    pub read_only: Option<String>,
    /// Whether the metadata disk has room for transactions that grow.
    pub has_room: bool,
    /// Bytes of the metadata engine.
    pub metadata_bytes: u64,
    /// Free bytes on the metadata engine's disk, if known.
    pub metadata_free_bytes: Option<u64>,
    /// Transactions that wait.
    pub waiting: usize,
}

impl Store {
    /// Opens a store, or makes one. Blocks: not to be called on an async thread.
    ///
    /// # Errors
    /// [`Error::Refused`] if the format is newer, or the store or a disk is another's.
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
            place: Place::default(),
            boot,
        })))
    }

    /// Runs `closure` in a transaction and answers once its changes are committed as durably as
    /// asked (`durability`, or a [`Transact`]). Once queued it is run, even if the caller goes away.
    ///
    /// The closure must not call the store.
    ///
    /// # Errors
    /// What the closure says; [`Error::Refused`] if it panics; [`Error::Full`] if it may grow and
    /// there is no room. If the commit fails, that error: nothing has changed then, except that
    /// it is not known after [`Error::Failed`].
    pub async fn transact<T, F>(&self, how: impl Into<Transact>, closure: F) -> Result<T>
    where
        F: FnOnce(&mut RowTxn<'_>) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let how = how.into();
        let room = self.0.committer.room(&how).await;
        let (call, answer) = Call::new(how, closure, room);
        self.0.committer.submit(Box::new(call));
        if self.0.threads == Threads::Inline {
            self.0.committer.run_waiting();
        }
        answer
            .await
            .unwrap_or_else(|_| Err(Error::Failed("the committer ended".into())))
    }

    /// Runs `closure` on a consistent view of what is committed.
    pub async fn read<T, F>(&self, closure: F) -> Result<T>
    where
        F: FnOnce(&RowReader<'_>) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let inner = self.0.clone();
        let job = move || {
            let _watched = inner.place.watch();
            inner.core.read(closure)
        };
        match self.0.threads {
            Threads::Own => self.0.pool.run(job).await,
            Threads::Inline => job(),
        }
    }

    /// The same for a closure that reads a few rows: it may run where it is called, which saves waking a thread (`place`).
    pub async fn look_up<T, F>(&self, closure: F) -> Result<T>
    where
        F: FnOnce(&RowReader<'_>) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        if self.0.core.engine.reads_in_place()
            && let Some(_turn) = self.0.place.here()
        {
            return guarded(|| self.0.core.read(closure));
        }
        self.read(closure).await
    }

    /// To be called before a read of many `items`, with what reads one of them: if such a read is likely to wait for the disk again and
    /// again, it is done ahead, by many threads at once, for what that brings into memory.
    pub async fn warm<T, F>(&self, items: impl Iterator<Item = T>, closure: F)
    where
        T: Clone + Send + 'static,
        F: Fn(&RowReader<'_>, &T) -> Result<()> + Copy + Send + 'static,
    {
        if self.0.threads == Threads::Inline || !self.0.place.is_cold() {
            return;
        }
        let items: Vec<T> = items.collect();
        let some = items.chunks(items.len().div_ceil(WARMERS).max(1));
        let jobs = some.map(|items| {
            let items = items.to_vec();
            self.read(move |rows| items.iter().try_for_each(|item| closure(rows, item)))
        });
        // If one fails, the read itself will say so.
        let _ = join_all(jobs).await;
    }

    /// Begins to write blocks.
    pub fn upload(&self) -> Upload {
        self.blocks().upload()
    }

    /// Keeps blocks readable. Pin first, then look whether the row still refers to them.
    pub fn pin(&self, blocks: &[BlockRef]) -> Pin {
        self.blocks().pin(blocks)
    }

    /// The content of a block, verified.
    pub async fn read_block(&self, block: &BlockRef) -> Result<Bytes> {
        self.blocks().read(block).await
    }

    /// Those of `blocks` that are not here, each once.
    pub async fn missing_blocks(&self, blocks: Vec<BlockRef>) -> Result<Vec<BlockRef>> {
        let here = self.blocks().clone();
        self.0.pool.run(move || here.missing(&blocks)).await
    }

    /// A row, and a pin under which the blocks of its body stay readable.
    pub async fn pin_body(&self, key: &RowKey) -> Result<Option<(Row, Pin)>> {
        let mut row = self.row(key).await?;
        loop {
            let Some(found) = row else {
                return Ok(None);
            };
            let blocks = blocks_of(&found);
            let pin = self.pin(blocks);
            // What a committed row refers to after it was pinned cannot go.
            let again = match blocks.is_empty() {
                true => return Ok(Some((found, pin))),
                false => self.row(key).await?,
            };
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

    /// Makes all that was committed `Buffered` durable. Happens by itself every now and then.
    pub async fn sync(&self) -> Result<()> {
        self.0.core.sync().await
    }

    /// Which run of the store this is: 1 is the first, and each opening counts.
    pub fn boot(&self) -> u64 {
        self.0.boot.number
    }

    /// The store's identity, made when it was opened for the first time.
    pub fn identity(&self) -> Id {
        self.0.boot.identity
    }

    /// The writer of stamps for this boot.
    pub fn writer(&self) -> Writer {
        Writer::new(self.0.boot.token, self.boot())
    }

    /// The highest stamp of a row: a clock that has seen it issues higher ones, even if the time
    /// was set back.
    pub async fn highest_stamp(&self) -> Result<Option<Stamp>> {
        self.read(|rows| rows.highest_stamp()).await
    }

    /// How the store is.
    pub async fn status(&self) -> Result<Status> {
        let inner = self.0.clone();
        let status = move || {
            let core = &inner.core;
            Ok(Status {
                identity: inner.boot.identity,
                boot: inner.boot.number,
                read_only: core.failed().map(|error| error.to_string()),
                has_room: core.has_room(),
                metadata_bytes: core.engine.size_bytes()?,
                metadata_free_bytes: core.free_space().transpose()?,
                waiting: inner.committer.waiting(),
            })
        };
        self.0.pool.run(status).await
    }

    /// What was counted since the store was opened.
    pub fn counters(&self) -> &Counters {
        &self.0.core.counters
    }

    /// The blocks, for what concerns them alone: status, scrubbing, draining.
    pub fn blocks(&self) -> &Arc<Blocks> {
        &self.0.core.blocks
    }

    /// Recomputes all that is derived and compares. Reads everything: for tests and offline use.
    pub async fn verify(&self) -> Result<Report> {
        self.read(|rows| rows.verify()).await
    }

    /// Copies the metadata, as it is committed and durable now, to a new folder; the blocks that it refers to may go later.
    pub async fn snapshot_to(&self, folder: &Path) -> Result<()> {
        self.sync().await?;
        let (core, folder) = (self.0.core.clone(), folder.to_owned());
        let copy = move || core.engine.snapshot_to(&folder);
        self.0.pool.run(copy).await
    }

    /// Ends the store: what waits is still committed, everything is synced, and the next opening
    /// knows that there is nothing to recover. Later transactions are refused.
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
        inner.pool.run(move || boot::end(&engine, boot)).await
    }
}

fn blocks_of(row: &Row) -> &[BlockRef] {
    row.value.as_ref().map_or(&[], |value| value.body.blocks())
}

#[cfg(test)]
pub(crate) mod tests;

//! One batch: many transactions, one engine transaction, one commit.
//!
//! # Invariants
//! - No answer leaves before the commit that it depends on, not even an error. An error may result
//!   from a change that an earlier transaction of the same batch made.
//! - A batch with a transaction that asked for `Fsync` is one durable commit. So no reader sees that
//!   transaction before it is durable, although the batch may have buffered ones, too.
//! - The blocks of a batch are on stable storage before the batch is committed, buffered or not. An
//!   uploader syncs its blocks first, so the committer seldom has to. The committer syncs the
//!   blocks of broken-off uploads and of read repair.
//! - The references of a batch are kept until the batch is durable. Then the blocks that it
//!   released may be freed.
//! - After [`Error::Failed`] nothing more is committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::clock::WallClock;

use super::job::Job;
use super::ledger::Ledger;
use super::options::{FreeSpace, Growth, Limits};
use super::wait::block_on;
use crate::blocks::{Blocks, Change};
use crate::engine::{Durability, Engine, Result, WriteTxn};
use crate::error::Error;
use crate::rows::{RowReader, RowTxn, TxnContext};

/// The store's counts since it was opened.
#[derive(Debug, Default)]
pub struct Counters {
    /// Engine commits.
    pub commits: AtomicU64,
    /// Engine commits that went to stable storage.
    pub durable_commits: AtomicU64,
    /// Syncs of the engine outside of commits.
    pub syncs: AtomicU64,
    /// Transactions whose changes were committed.
    pub transactions: AtomicU64,
    /// Transactions that failed, were refused, or changed nothing.
    pub without_effect: AtomicU64,
    /// The number of failures that undid changes of transactions that had succeeded.
    pub undone: AtomicU64,
    /// Transactions that wiped rows.
    pub wiping: AtomicU64,
    /// Reads.
    pub reads: AtomicU64,
}

impl Counters {
    fn era(&self) -> u64 {
        self.undone.load(Ordering::Relaxed) + self.wiping.load(Ordering::Relaxed)
    }
}

pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// The state shared by the store's handles and the committer. It runs and commits batches.
pub(crate) struct Core {
    pub engine: Arc<dyn Engine>,
    pub blocks: Arc<Blocks>,
    pub clock: Arc<dyn WallClock>,
    pub space: Option<FreeSpace>,
    pub limits: Limits,
    pub counters: Counters,
    ledger: Ledger,
}

/// A batch while it is being run.
#[derive(Default)]
struct Batch {
    jobs: Vec<Box<dyn Job>>,
    references: Vec<Change>,
    /// Changes of transactions without effect. They are dropped after the engine's transaction has
    /// ended.
    unused: Vec<Change>,
    bytes: usize,
    durable: bool,
    /// The number of transactions with changes.
    effective: u64,
}

impl Core {
    pub fn new(
        engine: Arc<dyn Engine>,
        blocks: Arc<Blocks>,
        clock: Arc<dyn WallClock>,
        space: Option<FreeSpace>,
        limits: Limits,
    ) -> Core {
        Core {
            engine,
            blocks,
            clock,
            space,
            limits,
            counters: Counters::default(),
            ledger: Ledger::default(),
        }
    }

    /// Returns the error that made the store read-only, if there is one.
    pub fn failed(&self) -> Option<Error> {
        self.ledger.failed()
    }

    /// Runs a closure on a consistent view of the committed data.
    pub fn read<T>(&self, closure: impl FnOnce(&RowReader<'_>) -> Result<T>) -> Result<T> {
        count(&self.counters.reads, 1);
        let txn = self.engine.read()?;
        closure(&RowReader::new(&*txn))
    }

    /// Runs the jobs that `next` returns, until there are no more or the batch is full, and commits
    /// the batch.
    pub fn run(&self, next: &mut dyn FnMut() -> Option<Box<dyn Job>>) {
        let mut batch = Batch::default();
        let outcome = self.run_and_commit(&mut batch, next);
        match &outcome {
            Ok(()) => count(&self.counters.transactions, batch.effective),
            Err(error) => {
                count(&self.counters.undone, 1);
                self.note_failure(error);
            }
        }
        for job in batch.jobs.drain(..) {
            job.finish(outcome.clone());
        }
    }

    /// Runs and commits one batch. After an error nothing of the batch has happened. After
    /// [`Error::Failed`] it is unknown if it happened.
    fn run_and_commit(
        &self,
        batch: &mut Batch,
        next: &mut dyn FnMut() -> Option<Box<dyn Job>>,
    ) -> Result<()> {
        batch.jobs.extend(next());
        if let Some(error) = self.failed() {
            return Err(error);
        }
        let room = self.has_room();
        let mut txn = self.engine.write()?;
        // The first job was taken before the engine's transaction began, so that no transaction is
        // opened without a job.
        let mut index = 0;
        while index < batch.jobs.len() {
            self.run_job(batch, index, &mut *txn, room)?;
            index += 1;
            let full =
                index >= self.limits.batch_transactions || batch.bytes >= self.limits.batch_bytes;
            if !full {
                batch.jobs.extend(next());
            }
        }
        self.commit(batch, txn)
    }

    fn run_job(
        &self,
        batch: &mut Batch,
        index: usize,
        txn: &mut dyn WriteTxn,
        room: bool,
    ) -> Result<()> {
        let job = &mut batch.jobs[index];
        let durable = job.transact().durability == Durability::Fsync;
        batch.durable |= durable;
        if !room && job.transact().growth == Growth::Grows {
            job.refuse(Error::Full(
                "the metadata disk, or the map of LMDB (metadata_map_size), is below its reserve"
                    .into(),
            ));
            return Ok(());
        }
        let below: &dyn WriteTxn = txn;
        let context = TxnContext {
            may_grow: room,
            era: self.counters.era(),
        };
        let mut rows = RowTxn::new(below, self.blocks.change(), context);
        let mut succeeded = job.run(&mut rows);
        let done = rows.finish();
        if let Some(error) = done.broken.filter(|_| succeeded) {
            job.refuse(error);
            count(&self.counters.undone, 1);
            succeeded = false;
        }
        if !succeeded || done.changes.is_empty() {
            batch.unused.push(done.references);
            count(&self.counters.without_effect, 1);
            return Ok(());
        }
        if done.wiped {
            count(&self.counters.wiping, 1);
        }
        batch.bytes += done.changes.bytes();
        batch.effective += 1;
        batch.references.push(done.references);
        // An error here spoils the engine's transaction, and with it the whole batch.
        done.changes.apply(txn)
    }

    fn commit(&self, batch: &mut Batch, txn: Box<dyn WriteTxn + '_>) -> Result<()> {
        if batch.effective == 0 {
            drop(txn);
            // The answers may depend on an earlier buffered commit.
            return if batch.durable {
                block_on(self.sync())
            } else {
                Ok(())
            };
        }
        if let Err(error) = batch.references.iter().try_for_each(Change::sync) {
            drop(txn);
            // The disk is marked failed and reports it. The engine is intact, and nothing has
            // happened.
            return Err(Error::Io(format!("syncing blocks: {error}")));
        }
        let durability = if batch.durable {
            Durability::Fsync
        } else {
            Durability::Buffered
        };
        let outcome = txn.commit(durability);
        let references = std::mem::take(&mut batch.references);
        if let Err(error) = outcome {
            self.not_committed(references, &error);
            return Err(error);
        }
        self.committed(references, durability);
        Ok(())
    }

    fn committed(&self, references: Vec<Change>, durability: Durability) {
        count(&self.counters.commits, 1);
        if durability == Durability::Buffered {
            let now = self.clock.now_millis();
            return self.ledger.buffered(references, now);
        }
        count(&self.counters.durable_commits, 1);
        self.ledger.durable(references);
    }

    fn not_committed(&self, references: Vec<Change>, error: &Error) {
        if matches!(error, Error::Failed(_)) {
            references.into_iter().for_each(Change::abandon);
        } else {
            tracing::warn!(%error, "a commit was undone");
        }
    }

    /// Makes the store read-only if `error` is [`Error::Failed`].
    pub fn note_failure(&self, error: &Error) {
        if matches!(error, Error::Failed(_)) {
            self.ledger.fail(error);
        }
    }

    /// Makes all commits durable. The sync needs a thread of the pool, so no thread of the pool may
    /// wait for it. The future may be dropped at any time.
    pub async fn sync(&self) -> Result<()> {
        if let Some(error) = self.failed() {
            return Err(error);
        }
        let Some(last) = self.ledger.due() else {
            return Ok(());
        };
        let (engine, pool) = (self.engine.clone(), self.blocks.pool());
        let synced = match pool.is_inline() {
            // A committer without a thread waits for this in the thread that would run the job.
            true => engine.sync(),
            false => pool.run(move || engine.sync()).await,
        };
        self.ledger.postpone_sync(self.clock.now_millis());
        match &synced {
            Ok(()) => {
                count(&self.counters.syncs, 1);
                self.ledger.synced(last);
            }
            Err(error) => self.note_failure(error),
        }
        synced
    }

    /// Returns true if a buffered commit waits for a sync.
    pub fn awaits_sync(&self) -> bool {
        self.ledger.waiting_since().is_some()
    }

    /// Syncs if a commit has waited for the sync interval. If the clock jumps, the sync comes
    /// early.
    pub fn sync_if_due(&self) {
        let Some(since) = self.ledger.waiting_since() else {
            return;
        };
        let waited = self.clock.now_millis().checked_sub(since);
        let interval = self.limits.sync_interval.as_millis() as u64;
        if waited.is_none_or(|waited| waited >= interval)
            && let Err(error) = block_on(self.sync())
        {
            tracing::warn!(%error, "syncing buffered commits");
        }
    }

    /// Returns true if the metadata disk and the engine have room for transactions that grow.
    pub fn has_room(&self) -> bool {
        let reserve = self.limits.metadata_reserve_bytes;
        if self.engine.is_nearly_full(0) {
            return false;
        }
        match self.free_space() {
            Some(Ok(free)) => free >= reserve,
            Some(Err(error)) => {
                // An unknown amount of free space is no reason to refuse. The engine itself reports
                // when it is full.
                tracing::warn!(%error, "reading the free space of the metadata disk");
                true
            }
            None => true,
        }
    }

    /// Returns the number of free bytes on the metadata disk.
    pub fn free_space(&self) -> Option<Result<u64>> {
        self.space.as_ref().map(|space| space())
    }
}

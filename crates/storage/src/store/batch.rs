//! One batch: many transactions, one engine transaction, one commit.
//!
//! # Invariants
//! - No answer leaves before the commit that it rests on, not even an error: it may be the
//!   consequence of what an earlier transaction of the same batch changed.
//! - The references of a batch are kept until it is durable; then what they released may be freed.
//! - After [`Error::Failed`] nothing is committed any more.

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
use crate::rows::{Around, RowReader, RowTxn};

/// What the store has counted since it was opened.
#[derive(Debug, Default)]
pub struct Counters {
    /// Engine commits.
    pub commits: AtomicU64,
    /// Those of them that went to stable storage.
    pub durable_commits: AtomicU64,
    /// Syncs of the engine besides commits.
    pub syncs: AtomicU64,
    /// Transactions whose changes were committed.
    pub transactions: AtomicU64,
    /// Transactions that failed, were refused or changed nothing.
    pub without_effect: AtomicU64,
    /// How often changes of transactions that had succeeded were undone by a failure.
    pub undone: AtomicU64,
    /// Transactions that forgot rows.
    pub forgetting: AtomicU64,
    /// Reads.
    pub reads: AtomicU64,
}

impl Counters {
    fn era(&self) -> u64 {
        self.undone.load(Ordering::Relaxed) + self.forgetting.load(Ordering::Relaxed)
    }
}

pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Commits batches.
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
    /// Of transactions without effect: dropped after the engine's transaction has ended.
    unused: Vec<Change>,
    bytes: usize,
    durable: bool,
    /// Whether a buffered transaction refers to blocks that nobody may have synced.
    loose_blocks: bool,
    /// Transactions with changes.
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

    /// Why the store takes no more writes, if so.
    pub fn failed(&self) -> Option<Error> {
        self.ledger.failed()
    }

    /// Runs a closure on a consistent view of what is committed.
    pub fn read<T>(&self, closure: impl FnOnce(&RowReader<'_>) -> Result<T>) -> Result<T> {
        count(&self.counters.reads, 1);
        let txn = self.engine.read()?;
        closure(&RowReader::new(&*txn))
    }

    /// Runs what `next` gives, until there is no more or the batch is full, and commits it.
    pub fn run(&self, next: &mut dyn FnMut() -> Option<Box<dyn Job>>) {
        let mut batch = Batch::default();
        let outcome = self.run_and_commit(&mut batch, next);
        match &outcome {
            Ok(()) => count(&self.counters.transactions, batch.effective),
            Err(error) => {
                count(&self.counters.undone, 1);
                self.note(error);
            }
        }
        for job in batch.jobs.drain(..) {
            job.finish(outcome.clone());
        }
    }

    /// After an error nothing of the batch has happened, or (if `Failed`) it is not known.
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
        // The first job was taken before the engine's transaction began: nobody waits for nothing.
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
            job.refuse(Error::Full("the metadata disk is below its reserve".into()));
            return Ok(());
        }
        let below: &dyn WriteTxn = txn;
        let around = Around {
            may_grow: room,
            era: self.counters.era(),
        };
        let mut rows = RowTxn::new(below, self.blocks.change(), around);
        let mut good = job.run(&mut rows);
        let done = rows.finish();
        if let Some(error) = done.broken.filter(|_| good) {
            job.refuse(error);
            count(&self.counters.undone, 1);
            good = false;
        }
        if !good || done.changes.is_empty() {
            batch.unused.push(done.references);
            count(&self.counters.without_effect, 1);
            return Ok(());
        }
        if done.forgot {
            count(&self.counters.forgetting, 1);
        }
        batch.bytes += done.changes.bytes();
        batch.effective += 1;
        batch.loose_blocks |= !durable && done.gained;
        batch.references.push(done.references);
        // An error here spoils the engine's transaction, and so the whole batch.
        done.changes.apply(txn)
    }

    fn commit(&self, batch: &mut Batch, txn: Box<dyn WriteTxn + '_>) -> Result<()> {
        if batch.effective == 0 {
            drop(txn);
            // What the answers rest on may still be a buffered commit.
            return match batch.durable {
                true => block_on(self.sync()),
                false => Ok(()),
            };
        }
        let loose = batch.loose_blocks || self.ledger.due().is_some_and(|due| due.blocks);
        let durability = match batch.durable && !loose {
            true => Durability::Fsync,
            false => Durability::Buffered,
        };
        let outcome = txn.commit(durability);
        let references = std::mem::take(&mut batch.references);
        if let Err(error) = outcome {
            self.not_committed(references, &error);
            return Err(error);
        }
        self.committed(references, durability, batch.loose_blocks);
        match batch.durable && loose {
            // Blocks first. Not before the commit: whoever syncs them may wait for the engine.
            true => block_on(self.sync()).map_err(|error| match error {
                Error::Failed(_) => error,
                // Committed, and not known to be durable: the same as a failed commit.
                error => Error::Failed(error.to_string()),
            }),
            false => Ok(()),
        }
    }

    fn committed(&self, references: Vec<Change>, durability: Durability, loose_blocks: bool) {
        count(&self.counters.commits, 1);
        if durability == Durability::Buffered {
            let now = self.clock.now_millis();
            return self.ledger.buffered(references, loose_blocks, now);
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

    /// After a failure the store only reads.
    pub fn note(&self, error: &Error) {
        if matches!(error, Error::Failed(_)) {
            self.ledger.fail(error);
        }
    }

    /// Puts the blocks of buffered transactions on stable storage, before the index that names
    /// them gets there. If a disk fails at that, it says so itself, and what was on it is lost
    /// with or without the index: commits go on.
    async fn sync_blocks(&self) {
        if let Err(error) = self.blocks.sync().await {
            tracing::warn!(%error, "syncing blocks of buffered transactions");
        }
    }

    /// Makes all that was committed durable. Not to be waited for on a thread of the pool, which
    /// it needs. May be dropped at any time.
    pub async fn sync(&self) -> Result<()> {
        if let Some(error) = self.failed() {
            return Err(error);
        }
        let Some(due) = self.ledger.due() else {
            return Ok(());
        };
        if due.blocks {
            self.sync_blocks().await;
            self.ledger.blocks_synced(due.number);
        }
        let engine = self.engine.clone();
        let synced = self.blocks.pool().run(move || engine.sync()).await;
        self.ledger.put_off(self.clock.now_millis());
        match &synced {
            Ok(()) => {
                count(&self.counters.syncs, 1);
                self.ledger.synced(due.number);
            }
            Err(error) => self.note(error),
        }
        synced
    }

    /// Whether a buffered commit waits for a sync.
    pub fn awaits_sync(&self) -> bool {
        self.ledger.waits_since().is_some()
    }

    /// Syncs if something has waited for that long enough. The clock may jump: then early.
    pub fn sync_if_due(&self) {
        let Some(since) = self.ledger.waits_since() else {
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

    /// Whether the metadata disk has room for transactions that grow.
    pub fn has_room(&self) -> bool {
        match self.free_space() {
            Some(Ok(free)) => free >= self.limits.metadata_reserve_bytes,
            Some(Err(error)) => {
                // Not knowing is no reason to refuse: the engine itself says when it is full.
                tracing::warn!(%error, "asking for free space");
                true
            }
            None => true,
        }
    }

    /// Free bytes on the metadata disk.
    pub fn free_space(&self) -> Option<Result<u64>> {
        self.space.as_ref().map(|space| space())
    }
}

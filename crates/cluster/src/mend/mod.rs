//! Mending: a block that is damaged or missing here is fetched from another replica and written anew.
//!
//! Reads, scrubs and verifications note what they find; a background task takes it from there. A block's
//! rows are looked up first, as they tell the partition, and so who else holds it.
//!
//! # Invariants
//! - What is written is verified against the block's name, and durable before the index names it.
//! - The queue is bounded and in memory: after a restart the next read or scrub finds again what is damaged.
//!
//! | module | what it holds |
//! |---|---|
//! | `queue` | what waits: pure |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::{BlockHash, PartitionId};
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::rows::Mention;
use archipel_storage::{RowReader, RowTxn};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::Notify;

use crate::blocks::BlockStream;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::inner::Inner;

mod queue;
#[cfg(test)]
mod tests;

use queue::Queue;
pub use queue::Trouble;

/// How many blocks one round takes on: their rows are looked up together.
const ROUND: usize = 256;
/// How many are fetched at once.
const FETCHES: usize = 2;
/// How often the queue is looked at when nothing new comes.
const INTERVAL: Duration = Duration::from_secs(10);
/// How many blocks that cannot be mended are told one by one.
const MAX_TOLD: usize = 20;

/// The work of mending, and what came of it.
#[derive(Default)]
pub(crate) struct Mend {
    queue: Mutex<Queue>,
    wake: Notify,
    one_round: tokio::sync::Mutex<()>,
    mended: AtomicU64,
    failed: AtomicU64,
}

/// How mending goes on this node, since its start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mending {
    /// Blocks that are damaged or missing, and wait.
    pub waiting: u64,
    /// Blocks that were replaced by a good copy.
    pub mended: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// How many of those that wait could not be mended yet.
    pub stuck: u64,
    /// The first of them.
    pub troubles: Vec<Trouble>,
}

/// What one round did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mended {
    /// Blocks replaced by a good copy.
    pub mended: u64,
    /// Blocks that turned out to be whole, or to be needed by nobody.
    pub settled: u64,
    /// Blocks that no replica could give.
    pub failed: u64,
}

/// What became of a block.
enum Outcome {
    Mended,
    Settled,
}

impl Mend {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a block that is damaged or missing here; `partition` holds a row that refers to it, if that is known.
    pub fn note(&self, hash: BlockHash, partition: Option<PartitionId>) {
        if self.queue().note(hash, partition) {
            self.wake.notify_one();
        }
    }

    /// Notes what a read of a block of `partition` found, if it is a matter of mending.
    pub fn note_read(&self, hash: BlockHash, partition: PartitionId, error: &storage::Error) {
        if matches!(
            error,
            storage::Error::Damaged(_) | storage::Error::NoBlock(_)
        ) {
            self.note(hash, Some(partition));
        }
    }
}

impl Cluster {
    /// Mends what was found, as it is found, until it is dropped. Run it in a task of its own.
    pub async fn mend_forever(&self) {
        loop {
            let _ = tokio::time::timeout(INTERVAL, self.0.mend.wake.notified()).await;
            if let Err(error) = self.mend_round().await {
                tracing::warn!(%error, "damaged blocks cannot be looked after");
            }
        }
    }

    /// Goes once through what is due now.
    pub async fn mend_round(&self) -> Result<Mended, Error> {
        let mend = &self.0.mend;
        let _one = mend.one_round.lock().await;
        for hash in self.store().blocks().damaged() {
            mend.queue().note(hash, None);
        }
        let mut total = Mended::default();
        let due = mend.queue().due(self.now_ms(), ROUND);
        if due.is_empty() {
            return Ok(total);
        }
        let (mentions, unneeded) = self.0.find_rows(&due).await?;
        for hash in unneeded {
            mend.queue().settle(&hash);
            total.settled += 1;
        }
        let mut jobs = stream::iter(mentions.into_values())
            .map(|mention| async move { (self.0.mend_block(&mention).await, mention) })
            .buffer_unordered(FETCHES);
        while let Some((outcome, mention)) = jobs.next().await {
            self.0.note_outcome(outcome, mention, &mut total);
        }
        Ok(total)
    }

    /// Has everything that waits tried again at once.
    pub fn hurry_mending(&self) {
        self.0.mend.queue().hurry();
        self.0.mend.wake.notify_one();
    }

    /// How mending goes.
    pub fn mending(&self) -> Mending {
        let mend = &self.0.mend;
        let queue = mend.queue();
        let (troubles, stuck) = queue.troubles(MAX_TOLD);
        Mending {
            waiting: queue.len() as u64,
            mended: mend.mended.load(Ordering::Relaxed),
            failed: mend.failed.load(Ordering::Relaxed),
            stuck: stuck as u64,
            troubles,
        }
    }
}

impl Inner {
    /// The rows of the blocks that are due, and the blocks that no row refers to.
    async fn find_rows(
        &self,
        due: &[(BlockHash, Option<PartitionId>)],
    ) -> Result<(BTreeMap<BlockHash, Mention>, Vec<BlockHash>), Error> {
        let mut places: BTreeMap<PartitionId, BTreeSet<BlockHash>> = BTreeMap::new();
        for (hash, partition) in due {
            if let Some(partition) = partition {
                places.entry(*partition).or_default().insert(*hash);
            }
        }
        let all: BTreeSet<BlockHash> = due.iter().map(|(hash, _)| *hash).collect();
        // What is merely not here, and not mentioned where it was looked for, is nobody's: a row was replaced.
        let is_searched = |(hash, partition): &&(BlockHash, Option<PartitionId>)| {
            partition.is_none() || self.store().blocks().is_damaged(hash)
        };
        let searched: BTreeSet<_> = due.iter().filter(is_searched).map(|due| due.0).collect();
        let find = move |rows: &RowReader<'_>| {
            let mut found = BTreeMap::new();
            for (partition, wanted) in places {
                found.append(&mut rows.mentions(Some(partition), &wanted)?);
            }
            let left = searched.into_iter().filter(|h| !found.contains_key(h));
            let left: BTreeSet<BlockHash> = left.collect();
            if !left.is_empty() {
                found.append(&mut rows.mentions(None, &left)?);
            }
            let unneeded = all.into_iter().filter(|h| !found.contains_key(h));
            let unneeded: Vec<BlockHash> = unneeded.collect();
            Ok((found, unneeded))
        };
        Ok(self.store().read(find).await?)
    }

    /// Replaces a block by a good copy, if it needs one.
    async fn mend_block(self: &Arc<Inner>, mention: &Mention) -> Result<Outcome, Error> {
        let block = mention.block;
        let store = self.store();
        let _pin = store.pin(&[block]);
        let lacks_references = self.lacks_references(mention).await?;
        let content = match store.read_block(&block).await {
            Ok(_) if !lacks_references && !store.blocks().is_damaged(&block.hash) => {
                return Ok(Outcome::Settled);
            }
            // Only the record's header is damaged: the content is good.
            Ok(content) => content,
            Err(storage::Error::Damaged(_) | storage::Error::NoBlock(_)) => {
                self.fetch_from_others(mention).await?
            }
            Err(error) => return Err(error.into()),
        };
        let upload = store.upload();
        upload.append(content).await?;
        upload.sync().await?;
        if lacks_references {
            let restore = move |txn: &mut RowTxn<'_>| txn.restore_references(&[block]);
            store.transact(Durability::Fsync, restore).await?;
        }
        store.read_block(&block).await?;
        Ok(Outcome::Mended)
    }

    /// Whether the index counts fewer references than rows make.
    async fn lacks_references(&self, mention: &Mention) -> Result<bool, Error> {
        let (hash, wanted) = (mention.block.hash, mention.times);
        let count = move |rows: &RowReader<'_>| Ok(rows.references(&hash)? < wanted);
        Ok(self.store().read(count).await?)
    }

    /// The content of a block from another replica of one of its rows' partitions.
    async fn fetch_from_others(self: &Arc<Inner>, mention: &Mention) -> Result<Bytes, Error> {
        let mut partitions: Vec<_> = mention.rows.iter().map(|row| row.partition).collect();
        partitions.dedup();
        let mut why = Error::Unavailable("no row refers to it".into());
        for partition in partitions {
            let mut stream = BlockStream::new(self.clone(), partition, vec![mention.block], false);
            match stream.next().await {
                Some(Ok(content)) => return Ok(content),
                Some(Err(error)) => why = error,
                None => {}
            }
        }
        Err(why)
    }

    fn note_outcome(&self, outcome: Result<Outcome, Error>, mention: Mention, total: &mut Mended) {
        let hash = mention.block.hash;
        match outcome {
            Ok(Outcome::Mended) => {
                tracing::info!(%hash, "a damaged block was replaced by a good copy");
                self.mend.mended.fetch_add(1, Ordering::Relaxed);
                self.mend.queue().settle(&hash);
                total.mended += 1;
            }
            Ok(Outcome::Settled) => {
                self.mend.queue().settle(&hash);
                total.settled += 1;
            }
            Err(error) => {
                self.mend.failed.fetch_add(1, Ordering::Relaxed);
                total.failed += 1;
                let rows = mention.rows.iter();
                let rows = rows.map(|row| format!("{}/{}", row.partition, row.key.escape_ascii()));
                let trouble = Trouble {
                    hash,
                    why: error.to_string(),
                    rows: rows.collect(),
                };
                tracing::error!(%hash, %error, rows = ?trouble.rows, "a damaged block cannot be mended yet");
                self.mend
                    .queue()
                    .fail(trouble, self.options.wall.now_millis());
            }
        }
    }
}

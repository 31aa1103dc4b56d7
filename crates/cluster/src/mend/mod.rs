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
//! | `block` | mending one block |
//! | `row` | mending a row whose body is damaged |
//! | `everywhere` | the same of all nodes |
//! | `scrub`, `pace` | reading everything now and then; when and how fast: pure |

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::{BlockHash, PartitionId};
use archipel_storage as storage;
use archipel_storage::RowKey;
use futures_util::StreamExt;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::cluster::Cluster;
use crate::error::Error;

mod block;
mod everywhere;
mod pace;
mod queue;
mod row;
mod scrub;
#[cfg(test)]
mod tests;

pub use everywhere::{Behind, Care};
use queue::Queue;
pub use queue::Trouble;
use scrub::Scrub;
pub use scrub::Scrubbing;

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
    scrub: Scrub,
    /// Rows that are being mended.
    rows: Mutex<BTreeSet<RowKey>>,
    mended: AtomicU64,
    failed: AtomicU64,
}

/// How mending goes on this node, since its start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mending {
    /// Blocks that are damaged or missing, and wait.
    pub waiting: u64,
    /// Blocks, and bodies of rows, that were replaced by a good copy.
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

    fn rows(&self) -> MutexGuard<'_, BTreeSet<RowKey>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Notes blocks that are damaged or missing here.
    pub(crate) fn note_damaged(&self, blocks: impl IntoIterator<Item = BlockHash>) {
        blocks
            .into_iter()
            .for_each(|hash| self.0.mend.note(hash, None));
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

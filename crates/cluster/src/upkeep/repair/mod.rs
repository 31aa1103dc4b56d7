//! Repair: a block that is damaged or missing here is fetched from another replica and written
//! again.
//!
//! Reads, scrubs and verifications note what they find. A background task repairs it. It first
//! looks up the block's rows, because they tell the partition, and so which other nodes hold the
//! block.
//!
//! # Invariants
//! - New content is verified against the block's name, and durable before the index names it.
//! - The queue is bounded and in memory. After a restart the next read or scrub finds the damage
//!   again.
//! - A scrub continues only when everything that it found has room in the queue, or when no waiting
//!   block could be repaired. So if it has ended and no block waits, nothing that it found is still
//!   missing.
//!
//! | module | what it holds |
//! |---|---|
//! | `queue` | the blocks that wait: pure |
//! | `block` | repairs one block |
//! | `row` | repairs a row whose payload is damaged |
//! | `everywhere` | maintenance of all nodes |
//! | `look_up` | what each node knows of a block |
//! | `scrub`, `pace` | reads everything from time to time; when and how fast: pure |

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archipel_base::{BlockHash, PartitionId, boxed};
use archipel_storage as storage;
use archipel_storage::RowKey;
use futures_util::StreamExt;
use futures_util::stream;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::error::Error;
use crate::upkeep::Upkeep;

mod block;
mod everywhere;
mod look_up;
mod pace;
mod queue;
mod row;
mod scrub;
#[cfg(test)]
mod tests;

pub use everywhere::{DiskSpace, Lagging, MaintenanceStatus};
pub use look_up::{BlockCopy, BlockReport};
pub use queue::Trouble;
use queue::{Noted, Queue};
use scrub::Scrub;
pub use scrub::ScrubStatus;

/// The number of blocks that are fetched at once.
const FETCHES: usize = 2;
/// The time between two looks at the queue when nothing new comes.
const INTERVAL: Duration = Duration::from_secs(10);
/// The most blocks that are listed one by one because they cannot be repaired.
const MAX_TOLD: usize = 20;

/// The state of repairs on this node.
#[derive(Default)]
pub(crate) struct Repair {
    queue: Mutex<Queue>,
    wake: Notify,
    one_round: tokio::sync::Mutex<()>,
    scrub: Scrub,
    /// The rows that are being repaired.
    rows: Mutex<BTreeSet<RowKey>>,
    repaired: AtomicU64,
    failed: AtomicU64,
}

/// The progress of repairs on a node since its start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RepairStatus {
    /// Blocks that are damaged or missing, and wait.
    pub waiting: u64,
    /// Blocks, and payloads of rows, that were replaced by a good copy.
    #[serde(rename = "mended")]
    pub repaired: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// The number of waiting blocks that could not be repaired yet.
    pub stuck: u64,
    /// The first of these blocks.
    pub troubles: Vec<Trouble>,
}

/// The results of one round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RepairRound {
    /// Blocks that were replaced by a good copy.
    pub repaired: u64,
    /// Blocks that turned out to be whole, or that no row needs.
    pub settled: u64,
    /// Blocks that no replica could give.
    pub failed: u64,
}

/// The result for one block.
enum Outcome {
    RepairRound,
    Settled,
}

impl Repair {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn rows(&self) -> MutexGuard<'_, BTreeSet<RowKey>> {
        self.rows.lock()
    }

    /// Notes a block that is damaged or missing here. `partition` holds a row that refers to it, if
    /// that is known.
    pub fn note(&self, hash: BlockHash, partition: Option<PartitionId>) {
        if self.queue().note(hash, partition) == Noted::New {
            self.wake.notify_one();
        }
    }

    /// Notes blocks that are damaged or missing here. `partition` holds rows that refer to them, if that
    /// is known. Returns true if all of them have room, or if waiting would make no room.
    pub fn note_all(&self, blocks: &[BlockHash], partition: Option<PartitionId>) -> bool {
        let mut queue = self.queue();
        let noted = blocks.iter().map(|hash| queue.note(*hash, partition));
        let left = noted.filter(|noted| *noted == Noted::NoRoom).count();
        let moves = queue.moves();
        drop(queue);
        self.wake.notify_one();
        if left > 0 && !moves {
            tracing::error!(
                left,
                "damaged blocks are passed over: no waiting block could be repaired"
            );
        }
        left == 0 || !moves
    }

    /// Notes a failed read of a block of `partition`, if a repair may help.
    pub fn note_read(&self, hash: BlockHash, partition: PartitionId, error: &storage::Error) {
        if matches!(
            error,
            storage::Error::Damaged(_) | storage::Error::NoBlock(_)
        ) {
            self.note(hash, Some(partition));
        }
    }
}

impl Upkeep {
    /// Repairs blocks as they are found, until the future is dropped. Run it in a task of its own.
    #[boxed]
    pub async fn run_repair(self: &Arc<Upkeep>) {
        loop {
            let _ = tokio::time::timeout(INTERVAL, self.repair.wake.notified()).await;
            if let Err(error) = self.repair_round().await {
                tracing::warn!(%error, "damaged blocks cannot be repaired now");
            }
        }
    }

    /// Runs one repair round over the blocks that are due now.
    #[boxed]
    pub async fn repair_round(self: &Arc<Upkeep>) -> Result<RepairRound, Error> {
        let repair = &self.repair;
        let _one = repair.one_round.lock().await;
        for hash in self.store().blocks().damaged() {
            repair.queue().note(hash, None);
        }
        let mut total = RepairRound::default();
        let due = repair.queue().due(self.now_ms());
        if due.is_empty() {
            return Ok(total);
        }
        let found = match self.find_rows(&due).await {
            Ok(found) => found,
            Err(error) => {
                self.note_not_found(&due, &error);
                return Err(error);
            }
        };
        for hash in found.unneeded {
            repair.queue().settle(&hash);
            total.settled += 1;
        }
        self.note_unknown(found.unknown, &mut total);
        let mut jobs = stream::iter(found.mentions.into_values())
            .map(|mention| async move { (self.repair_block(&mention).await, mention) })
            .buffer_unordered(FETCHES);
        while let Some((outcome, mention)) = jobs.next().await {
            self.note_outcome(outcome, mention, &mut total);
        }
        Ok(total)
    }

    /// Notes that the rows of blocks cannot be looked up. Otherwise these blocks would seem to be
    /// on their way for as long as that lasts. Until many look-ups in a row have failed, the blocks
    /// still wait for their first attempt: otherwise a scrub would pass over all further damage.
    fn note_not_found(&self, due: &[(BlockHash, Option<PartitionId>)], error: &Error) {
        let (now_ms, mut queue) = (self.now_ms(), self.repair.queue());
        for (hash, _) in due {
            let trouble = Trouble {
                hash: *hash,
                why: format!("its rows cannot be looked up: {error}"),
                rows: Vec::new(),
            };
            queue.delay(trouble, now_ms);
        }
        let failed = due.len() as u64;
        self.repair.failed.fetch_add(failed, Ordering::Relaxed);
    }

    /// Makes all waiting repairs due at once.
    pub fn retry_repairs(&self) {
        self.repair.queue().hurry();
        self.repair.wake.notify_one();
    }

    /// Notes blocks that are damaged or missing here.
    pub(crate) fn note_damaged(&self, blocks: impl IntoIterator<Item = BlockHash>) {
        let blocks: Vec<BlockHash> = blocks.into_iter().collect();
        if !self.repair.note_all(&blocks, None) {
            tracing::warn!("more blocks are damaged than can wait: a scrub finds the rest");
        }
    }

    /// Limits how many damaged blocks may wait at once, and empties the queue. For tests.
    pub fn limit_repairs(&self, blocks: usize) {
        *self.repair.queue() = Queue::with_limit(blocks);
    }

    /// Returns the progress of repairs.
    pub fn repair_status(&self) -> RepairStatus {
        let repair = &self.repair;
        let queue = repair.queue();
        let (troubles, stuck) = queue.troubles(MAX_TOLD);
        RepairStatus {
            waiting: queue.len() as u64,
            repaired: repair.repaired.load(Ordering::Relaxed),
            failed: repair.failed.load(Ordering::Relaxed),
            stuck: stuck as u64,
            troubles,
        }
    }
}

//! The blocks that wait for a repair, and their failures. Pure: time is an argument.

use std::collections::BTreeMap;

use archipel_base::{BlockHash, PartitionId};
use archipel_storage::RowKey;
use serde::{Deserialize, Serialize};

/// The most blocks that wait, unless a limit is set. One pass over the payloads of rows looks up
/// all blocks that are due, so the repair of a lost disk takes one pass for each full queue.
pub(crate) const MAX_CASES: usize = 50_000;

/// The wait of a block after a failed repair. It doubles with each further failure.
const FIRST_WAIT_MS: u64 = 30_000;
const LONGEST_WAIT_MS: u64 = 3_600_000;

/// The look-ups of a block's rows that may fail in a row. With one more, that counts as a failed repair:
/// a scrub must not wait for room for as long as it lasts.
const MAX_DELAYS: u32 = 20;

/// The blocks that wait.
pub(crate) struct Queue {
    cases: BTreeMap<BlockHash, Case>,
    limit: usize,
}

/// The result of noting a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Noted {
    /// The block waits now.
    New,
    /// The block waited already.
    Known,
    /// There is no room: the block has to be found again.
    NoRoom,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue::with_limit(MAX_CASES)
    }
}

/// A block that waits.
#[derive(Clone, Default)]
struct Case {
    /// A partition with a row that refers to it, if the finder knew one.
    partition: Option<PartitionId>,
    failures: u32,
    /// Look-ups that failed since the last failure.
    delays: u32,
    due_ms: u64,
    trouble: Option<Trouble>,
}

/// A block that could not be repaired.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trouble {
    /// The block.
    pub hash: BlockHash,
    /// The reason.
    pub why: String,
    /// Some of the rows that refer to the block.
    pub rows: Vec<RowKey>,
}

impl Queue {
    /// Creates an empty queue for at most `limit` blocks.
    pub fn with_limit(limit: usize) -> Queue {
        Queue {
            cases: BTreeMap::new(),
            limit,
        }
    }

    /// Notes that a block was found damaged or missing.
    pub fn note(&mut self, hash: BlockHash, partition: Option<PartitionId>) -> Noted {
        if let Some(case) = self.cases.get_mut(&hash) {
            case.partition = partition.or(case.partition);
            return Noted::Known;
        }
        if self.cases.len() >= self.limit {
            return Noted::NoRoom;
        }
        let case = Case {
            partition,
            ..Case::default()
        };
        self.cases.insert(hash, case);
        Noted::New
    }

    /// Returns true if there will be room soon, because some blocks wait for their first attempt.
    pub fn moves(&self) -> bool {
        self.cases.values().any(|case| case.failures == 0)
    }

    /// Returns the blocks that are due now.
    pub fn due(&self, now_ms: u64) -> Vec<(BlockHash, Option<PartitionId>)> {
        let due = self.cases.iter().filter(|(_, case)| {
            // A clock that was set back far delays nothing.
            case.due_ms <= now_ms || case.due_ms - now_ms > LONGEST_WAIT_MS
        });
        due.map(|(hash, case)| (*hash, case.partition)).collect()
    }

    /// Removes a block that is whole, or that no row needs.
    pub fn settle(&mut self, hash: &BlockHash) {
        self.cases.remove(hash);
    }

    /// Notes that a block could not be repaired. It is tried again later.
    pub fn fail(&mut self, trouble: Trouble, now_ms: u64) {
        if let Some(case) = self.cases.get_mut(&trouble.hash) {
            let wait = FIRST_WAIT_MS.saturating_mul(1 << case.failures.min(16));
            case.due_ms = now_ms.saturating_add(wait.min(LONGEST_WAIT_MS));
            case.failures = case.failures.saturating_add(1);
            case.delays = 0;
            case.trouble = Some(trouble);
            // Replicas of another row may have it.
            case.partition = None;
        }
    }

    /// Notes that the rows of a block could not be looked up. That says nothing about the block, so it
    /// is no failed repair at first: the block is tried again soon, and an earlier reason stays.
    pub fn delay(&mut self, trouble: Trouble, now_ms: u64) {
        let Some(case) = self.cases.get_mut(&trouble.hash) else {
            return;
        };
        if case.delays == MAX_DELAYS {
            return self.fail(trouble, now_ms);
        }
        case.delays += 1;
        case.due_ms = now_ms.saturating_add(FIRST_WAIT_MS);
        if case.failures == 0 {
            case.trouble = Some(trouble);
        }
    }

    /// Makes all blocks due now, because nodes may be back.
    pub fn hurry(&mut self) {
        self.cases.values_mut().for_each(|case| case.due_ms = 0);
    }

    /// Returns how many blocks wait.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Returns at most `limit` blocks that could not be repaired, and how many there are.
    pub fn troubles(&self, limit: usize) -> (Vec<Trouble>, usize) {
        let all = self.cases.values().filter_map(|case| case.trouble.as_ref());
        (all.clone().take(limit).cloned().collect(), all.count())
    }
}

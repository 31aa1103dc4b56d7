//! Which blocks wait to be mended, and since which failure. Pure: time is an argument.

use std::collections::BTreeMap;

use archipel_base::{BlockHash, PartitionId};
use archipel_storage::RowKey;
use serde::{Deserialize, Serialize};

/// Blocks that wait at most. What finds no room is found again by the next read or scrub.
pub(crate) const MAX_CASES: usize = 10_000;

/// How long a block that could not be mended waits; twice as long after each further failure.
const FIRST_WAIT_MS: u64 = 30_000;
const LONGEST_WAIT_MS: u64 = 3_600_000;

/// The blocks that wait.
#[derive(Default)]
pub(crate) struct Queue {
    cases: BTreeMap<BlockHash, Case>,
}

/// A block that waits.
#[derive(Clone, Default)]
struct Case {
    /// A partition with a row that refers to it, if whoever found it knew.
    partition: Option<PartitionId>,
    failures: u32,
    due_ms: u64,
    trouble: Option<Trouble>,
}

/// A block that could not be mended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trouble {
    /// The block.
    pub hash: BlockHash,
    /// Why.
    pub why: String,
    /// Some of the rows that refer to it.
    pub rows: Vec<RowKey>,
}

impl Queue {
    /// A block was found damaged or missing; tells whether that is news.
    pub fn note(&mut self, hash: BlockHash, partition: Option<PartitionId>) -> bool {
        if let Some(case) = self.cases.get_mut(&hash) {
            case.partition = partition.or(case.partition);
            return false;
        }
        if self.cases.len() >= MAX_CASES {
            return false;
        }
        let case = Case {
            partition,
            ..Case::default()
        };
        self.cases.insert(hash, case);
        true
    }

    /// What is to be tried now, `limit` at most.
    pub fn due(&self, now_ms: u64, limit: usize) -> Vec<(BlockHash, Option<PartitionId>)> {
        let due = self.cases.iter().filter(|(_, case)| {
            // A clock that was set back far does not hold anything up.
            case.due_ms <= now_ms || case.due_ms - now_ms > LONGEST_WAIT_MS
        });
        due.take(limit)
            .map(|(hash, case)| (*hash, case.partition))
            .collect()
    }

    /// A block is whole, or nobody needs it.
    pub fn settle(&mut self, hash: &BlockHash) {
        self.cases.remove(hash);
    }

    /// A block could not be mended; it is tried again later.
    pub fn fail(&mut self, trouble: Trouble, now_ms: u64) {
        if let Some(case) = self.cases.get_mut(&trouble.hash) {
            let wait = FIRST_WAIT_MS.saturating_mul(1 << case.failures.min(16));
            case.due_ms = now_ms.saturating_add(wait.min(LONGEST_WAIT_MS));
            case.failures = case.failures.saturating_add(1);
            case.trouble = Some(trouble);
        }
    }

    /// Everything is to be tried now: nodes may be back.
    pub fn hurry(&mut self) {
        self.cases.values_mut().for_each(|case| case.due_ms = 0);
    }

    /// How many blocks wait.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Those that could not be mended, `limit` at most, and how many there are.
    pub fn troubles(&self, limit: usize) -> (Vec<Trouble>, usize) {
        let all = self.cases.values().filter_map(|case| case.trouble.as_ref());
        (all.clone().take(limit).cloned().collect(), all.count())
    }
}

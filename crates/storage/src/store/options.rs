//! What a store is opened with, and how a transaction is asked for.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::Id;
use archipel_base::clock::WallClock;
use archipel_base::random::Random;

use crate::blocks::{BlockOptions, DiskConfig};
use crate::engine::{Durability, Result};
use crate::pool::Pool;

/// Tells how many bytes are free where the metadata engine's files are. May block shortly.
pub type FreeSpace = Arc<dyn Fn() -> Result<u64> + Send + Sync>;

/// Who runs transactions and reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// A committer thread of the store's own; reads run on the pool.
    Own,
    /// The caller, at once: for deterministic simulation on one thread.
    Inline,
}

/// What a [`Store`](super::Store) is opened with: components and settings.
pub struct StoreOptions {
    /// The metadata engine.
    pub engine: Arc<dyn crate::engine::Engine>,
    /// The disks for blocks. A store that only holds rows may have none.
    pub disks: Vec<DiskConfig>,
    /// Settings of the blocks; `owner` is set by the store.
    pub blocks: BlockOptions,
    /// Threads for reads and for disks.
    pub pool: Pool,
    /// Who runs transactions.
    pub threads: Threads,
    /// The time of day, for the status only.
    pub clock: Arc<dyn WallClock>,
    /// Makes the store's identity when it is opened for the first time.
    pub random: Arc<dyn Random>,
    /// The identity that the store must have (and gets, if it is new); `None` takes what it has.
    pub identity: Option<Id>,
    /// Free space of the metadata engine's disk; `None` if there is no such limit.
    pub metadata_space: Option<FreeSpace>,
    /// Limits of the committer.
    pub limits: Limits,
}

/// Bounds of what waits and of what is committed at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Transactions that wait or run; further callers wait to be queued.
    pub waiting_transactions: usize,
    /// The weight of transactions that wait or run, in bytes.
    pub waiting_bytes: usize,
    /// Transactions that one commit takes at most.
    pub batch_transactions: usize,
    /// Changed bytes after which a commit takes no further transaction.
    pub batch_bytes: usize,
    /// Free space of the metadata disk, in bytes, below which transactions that grow are refused.
    pub metadata_reserve_bytes: u64,
    /// How long buffered commits and freed blocks wait for a sync at most.
    pub sync_interval: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            waiting_transactions: 4096,
            waiting_bytes: 64 << 20,
            batch_transactions: 1024,
            batch_bytes: 8 << 20,
            metadata_reserve_bytes: 256 << 20,
            sync_interval: Duration::from_secs(1),
        }
    }
}

/// Whether a transaction may need more room than it gives back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// It may: refused while the disk is nearly full.
    Grows,
    /// It deletes, writes a tombstone, or keeps a record of bounded size: goes on as long as the engine can.
    Shrinks,
}

/// How a transaction is to be run. `Durability` converts into it.
#[derive(Clone, Copy, Debug)]
pub struct Transact {
    /// How far the commit goes before the answer.
    pub durability: Durability,
    /// Whether it needs room.
    pub growth: Growth,
    /// Roughly how many bytes it holds in memory while it waits.
    pub weight_bytes: usize,
}

impl Transact {
    /// A transaction that may grow.
    pub fn new(durability: Durability) -> Transact {
        Transact {
            durability,
            growth: Growth::Grows,
            weight_bytes: 1024,
        }
    }

    /// The same, marked as giving room back.
    pub fn shrinking(self) -> Transact {
        Transact {
            growth: Growth::Shrinks,
            ..self
        }
    }

    /// The same, marked as keeping a record of bounded size that the node cannot do without, mostly in place of an older one:
    /// a node whose disk is full must be able to start, and to follow the others.
    pub fn bounded(self) -> Transact {
        self.shrinking()
    }

    /// The same, with what it holds in memory while it waits.
    pub fn weighing(self, bytes: usize) -> Transact {
        Transact {
            weight_bytes: bytes,
            ..self
        }
    }
}

impl From<Durability> for Transact {
    fn from(durability: Durability) -> Transact {
        Transact::new(durability)
    }
}

//! Options of a store and of a transaction.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::Id;
use archipel_base::clock::WallClock;
use archipel_base::random::Random;

use crate::blocks::{BlockOptions, DiskConfig};
use crate::engine::{Durability, Result};
use crate::pool::Pool;

/// A function that returns the free bytes of the disk with the metadata engine's files. It may
/// block for a moment.
pub type FreeSpace = Arc<dyn Fn() -> Result<u64> + Send + Sync>;

/// The threads that run transactions and reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// The store's own committer thread for transactions, and the pool for reads.
    Own,
    /// The caller's thread: at once, or when the [`Pace`](crate::pool::Pace) of the pool lets it. This
    /// is for deterministic simulation on one thread.
    Inline,
}

/// The components and settings that a [`Store`](super::Store) is opened with.
pub struct StoreOptions {
    /// The metadata engine.
    pub engine: Arc<dyn crate::engine::Engine>,
    /// The disks for blocks. A store that holds only rows may have none.
    pub disks: Vec<DiskConfig>,
    /// The settings of the blocks. The store sets `owner` itself.
    pub blocks: BlockOptions,
    /// Threads for reads and for disks.
    pub pool: Pool,
    /// The threads that run transactions.
    pub threads: Threads,
    /// The time of day, which schedules syncs.
    pub clock: Arc<dyn WallClock>,
    /// Makes the store's identity when the store is first opened, and a token for each run.
    pub random: Arc<dyn Random>,
    /// The identity that the store must have, or gets if it is new. `None` accepts any.
    pub identity: Option<Id>,
    /// The free space of the metadata engine's disk; `None` if there is no limit.
    pub metadata_space: Option<FreeSpace>,
    /// The limits of the committer.
    pub limits: Limits,
}

/// Limits of batches.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest number of transactions in one commit.
    pub batch_transactions: usize,
    /// The number of changed bytes after which a batch takes no further transaction.
    pub batch_bytes: usize,
    /// The free space of the metadata disk, in bytes, below which growing transactions are refused.
    pub metadata_reserve_bytes: u64,
    /// The longest time that buffered commits and freed blocks wait for a sync.
    pub sync_interval: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            batch_transactions: 1024,
            batch_bytes: 8 << 20,
            metadata_reserve_bytes: 256 << 20,
            sync_interval: Duration::from_secs(1),
        }
    }
}

/// The effect of a transaction on disk space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// It may need more room than it gives back. It is refused while the disk is nearly full.
    Grows,
    /// It deletes, writes a tombstone, or keeps a record of bounded size. It runs as long as the
    /// engine can write.
    Shrinks,
}

/// The way in which a transaction is to be run. A `Durability` converts into it.
#[derive(Clone, Copy, Debug)]
pub struct Transact {
    /// The durability of the commit before the answer.
    pub durability: Durability,
    /// True if the transaction needs room.
    pub growth: Growth,
}

impl Transact {
    /// Describes a transaction that may grow.
    pub fn new(durability: Durability) -> Transact {
        Transact {
            durability,
            growth: Growth::Grows,
        }
    }

    /// Marks the transaction as giving room back.
    pub fn shrinking(self) -> Transact {
        Transact {
            growth: Growth::Shrinks,
            ..self
        }
    }

    /// Marks the transaction as keeping a record of bounded size that the node needs, mostly in
    /// place of an older one. A node with a full disk must still be able to start and to follow the
    /// other nodes.
    pub fn bounded(self) -> Transact {
        self.shrinking()
    }
}

impl From<Durability> for Transact {
    fn from(durability: Durability) -> Transact {
        Transact::new(durability)
    }
}

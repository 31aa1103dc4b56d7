//! Anti-entropy: this node pulls the rows that it lacks from other replicas.
//!
//! Each pass is with one other node. It compares digests of the partitions that both nodes hold.
//! Where digests differ, it descends to months, days, hours and stamps, and pulls the rows that are
//! newer there. A pass gives nothing: the other node pulls in its own passes.
//! `docs/internals/repair.md` states the protocol, why it is right and what it costs.
//!
//! | module | what it holds |
//! |---|---|
//! | `schedule` | which pass is due: pure |
//! | `driver` | runs passes when they are due |
//! | `pass` | one pass: compare, descend |
//! | `pull` | pulls newer rows and their blocks |
//! | `digests` | digests of partitions and windows, as the store keeps them |
//! | `serve`, `wire` | answers to another node's pass |
//! | `status` | progress, for people |
//! | `lagging` | tells replicas that missed a write |
//!
//! # Invariants
//! - A row is applied only once its blocks are here and durable.
//! - Applying a row is an acceptance: it obeys promises. If a promise keeps a row out, the row is
//!   read from a quorum instead.
//! - Nothing is dropped because another replica lacks it.
//! - Messages are bounded. Their number grows with the difference, not with the data.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

pub(super) mod digests;
mod driver;
mod lagging;
mod pass;
mod pull;
mod schedule;
mod serve;
mod status;
pub(super) mod wire;

#[cfg(test)]
mod tests;

pub use super::tombstone_gc::FloorProgress;
pub use status::{AntiEntropyStatus, PeerStatus};

use schedule::Schedule;
use status::Progress;

use super::tombstone_gc;
use crate::faults::Faults;
use crate::layout::StoreName;

/// The number of rows that may wait for their blocks at once.
const BLOCK_FETCHES: usize = 4;

/// The settings of anti-entropy and floors.
#[derive(Clone, Copy, Debug)]
pub struct AntiEntropyOptions {
    /// The time from a whole pass with a node to the next one, if nothing calls for it earlier.
    pub interval: Duration,
    /// The least age of tombstones and promises before a floor is moved for them. This age only
    /// gathers them: whether they may go, all replicas agree.
    pub floor_age: Duration,
    /// The time after which a node looks again whether a floor can be moved.
    pub floor_look: Duration,
    /// The time after which other stores are told this store's mark again. A rollback to a state
    /// before that is detected.
    pub mark_interval: Duration,
    /// Switches for checkers.
    #[doc(hidden)]
    pub faults: Faults,
}

impl Default for AntiEntropyOptions {
    fn default() -> AntiEntropyOptions {
        AntiEntropyOptions {
            interval: Duration::from_secs(600),
            floor_age: Duration::from_secs(3600),
            floor_look: Duration::from_secs(60),
            mark_interval: Duration::from_secs(60),
            faults: Faults::default(),
        }
    }
}

/// The state of anti-entropy on this node.
pub(crate) struct AntiEntropy {
    schedule: Mutex<Schedule>,
    progress: Mutex<Progress>,
    /// The partitions that a pass works on.
    claimed: Mutex<BTreeSet<PartitionId>>,
    block_fetches: Semaphore,
    pub(super) floors: tombstone_gc::TombstoneGc,
    lag: lagging::Lag,
    wake: Notify,
    begun: Instant,
    /// The last computed shares of other nodes.
    sharing: Mutex<Option<Sharing>>,
}

/// The stores that share partitions with this one in an epoch.
struct Sharing {
    epoch: u64,
    me: StoreName,
    shared: Arc<driver::Shared>,
}

impl Default for AntiEntropy {
    fn default() -> AntiEntropy {
        AntiEntropy {
            schedule: Mutex::default(),
            progress: Mutex::default(),
            claimed: Mutex::default(),
            block_fetches: Semaphore::new(BLOCK_FETCHES),
            floors: tombstone_gc::TombstoneGc::default(),
            lag: lagging::Lag::default(),
            wake: Notify::new(),
            begun: Instant::now(),
            sharing: Mutex::default(),
        }
    }
}

impl AntiEntropy {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock()
    }

    fn sharing(&self) -> MutexGuard<'_, Option<Sharing>> {
        self.sharing.lock()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    /// Makes the passes with all nodes due soon.
    pub fn hurry_all(&self) {
        self.schedule().hurry_all();
        self.wake.notify_one();
    }

    /// Makes the pass with a node due soon, because it says that this node may lack something.
    pub fn hurry(&self, node: &NodeId) {
        self.schedule().hurry(node);
        self.wake.notify_one();
    }
}

//! Anti-entropy: what this node lacks of rows that other replicas hold comes to it by itself.
//!
//! Each node compares, with one other at a time, fingerprints of the partitions that both hold, goes down
//! where they differ (months, days, hours, stamps), and pulls what the other has newer. It gives nothing: the other pulls, too.
//! `docs/internals/repair.md` states the protocol, why it is right and what it costs.
//!
//! | module | what it holds |
//! |---|---|
//! | `schedule` | with whom a pass is due: pure |
//! | `driver` | runs passes when they are due |
//! | `pass` | one pass: compare, go down |
//! | `pull` | the rows that are newer there, and their blocks |
//! | `prints` | fingerprints of partitions and windows, as the store keeps them |
//! | `serve`, `wire` | what another node's pass asks |
//! | `progress` | how it goes, for people |
//! | `lag` | replicas that missed a write are told |
//! | `floors` | tombstones go by agreement |
//!
//! # Invariants
//! - A row is taken only once its blocks are here and durable.
//! - Taking a row is an acceptance: it obeys promises. What a promise holds back is read, by a quorum, instead.
//! - Nothing is dropped because another does not have it.
//! - Messages are bounded, and their number grows with what differs, not with what is held.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::{NodeId, PartitionId};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

mod driver;
mod floors;
mod lag;
mod pass;
mod prints;
mod progress;
mod pull;
mod schedule;
mod serve;
mod wire;

#[cfg(test)]
mod tests;

pub use floors::FloorProgress;
pub(crate) use floors::{Litter, record};
pub(crate) use lag::is_settled;
pub use progress::{Healing, PeerHealing};

use progress::Progress;
use schedule::Schedule;

use crate::layout::StoreName;
use crate::register::Rules;

/// How many rows at once wait for their blocks.
const BLOCK_FETCHES: usize = 4;

/// How a node heals.
#[derive(Clone, Copy, Debug)]
pub struct HealOptions {
    /// How long after a whole pass with a node the next begins, if nothing calls for it earlier.
    pub interval: Duration,
    /// How old tombstones and promises are at least before a floor is moved for their sake. It only gathers them:
    /// that they may go is agreed by all replicas.
    pub floor_age: Duration,
    /// How often a node looks whether a floor can be moved.
    pub floor_look: Duration,
    /// How often others are told how far this store is: metadata that were put back to a state before that are noticed.
    pub mark_interval: Duration,
    /// How long a row that came may lie before it is taken; only for checkers: as with a slow disk or other node.
    #[doc(hidden)]
    pub dawdle: Duration,
    /// Others are not asked what this store was; only for checkers.
    #[doc(hidden)]
    pub trust_old: bool,
    /// The register's rules; broken ones only for checkers.
    #[doc(hidden)]
    pub rules: Rules,
}

impl Default for HealOptions {
    fn default() -> HealOptions {
        HealOptions {
            interval: Duration::from_secs(600),
            floor_age: Duration::from_secs(3600),
            floor_look: Duration::from_secs(60),
            mark_interval: Duration::from_secs(60),
            dawdle: Duration::ZERO,
            trust_old: false,
            rules: Rules::CORRECT,
        }
    }
}

/// The work of healing, and how it goes.
pub(crate) struct Heal {
    schedule: Mutex<Schedule>,
    progress: Mutex<Progress>,
    /// The partitions that a pass works on.
    claimed: Mutex<BTreeSet<PartitionId>>,
    block_fetches: Semaphore,
    floors: floors::Floors,
    lag: lag::Lag,
    wake: Notify,
    begun: Instant,
    /// Who shares partitions with this node, as it was last worked out.
    sharing: Mutex<Option<Sharing>>,
}

/// Who shares partitions with a store in an epoch.
struct Sharing {
    epoch: u64,
    me: StoreName,
    shared: Arc<driver::Shared>,
}

impl Default for Heal {
    fn default() -> Heal {
        Heal {
            schedule: Mutex::default(),
            progress: Mutex::default(),
            claimed: Mutex::default(),
            block_fetches: Semaphore::new(BLOCK_FETCHES),
            floors: floors::Floors::default(),
            lag: lag::Lag::default(),
            wake: Notify::new(),
            begun: Instant::now(),
            sharing: Mutex::default(),
        }
    }
}

impl Heal {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        lock(&self.schedule)
    }

    fn sharing(&self) -> MutexGuard<'_, Option<Sharing>> {
        lock(&self.sharing)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    /// Another node says that this one may lack something that it has.
    pub fn hurry(&self, node: &NodeId) {
        self.schedule().hurry(node);
        self.wake.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

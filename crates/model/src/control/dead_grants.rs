//! Grants of deleted access keys, users and roles. They permit nothing, and are removed from the
//! buckets after the deletion is answered, since there may be many.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The progress of the removal of dead grants on this node.
pub(crate) struct DeadGrants {
    /// Deletions so far. The start counts as one: the node may have crashed before it removed
    /// grants.
    deletions: AtomicU64,
    /// The deletions whose grants are gone.
    done: AtomicU64,
    wake: Notify,
}

impl DeadGrants {
    pub(crate) fn new() -> DeadGrants {
        DeadGrants {
            deletions: AtomicU64::new(1),
            done: AtomicU64::new(0),
            wake: Notify::new(),
        }
    }

    /// Asks for a removal: something that grants name was deleted.
    pub(crate) fn ask(&self) {
        self.deletions.fetch_add(1, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Waits until a removal was asked for since the last [`DeadGrants::done`]. Returns what to
    /// give to it.
    pub(crate) async fn asked(&self) -> u64 {
        while !self.are_left() {
            self.wake.notified().await;
        }
        self.deletions.load(Ordering::SeqCst)
    }

    /// Says that the dead grants of these deletions are gone.
    pub(crate) fn done(&self, deletions: u64) {
        self.done.store(deletions, Ordering::SeqCst);
    }

    /// Returns true until a removal that began after the last deletion has ended.
    pub(crate) fn are_left(&self) -> bool {
        self.done.load(Ordering::SeqCst) != self.deletions.load(Ordering::SeqCst)
    }
}

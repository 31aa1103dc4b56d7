//! Changing the layout: staging, planning, applying, moving data, and going on without a node that
//! is lost for good.
//!
//! | module | what it holds |
//! |---|---|
//! | `admission` | which nodes are answered |
//! | `change` | staging changes, applying them, the epochs so far |
//! | `plan` | the layout that staged changes lead to |
//! | `rebalance` | moves rows to their new replicas, and retires the older version |
//! | `staged` | staged changes |
//! | `remove_dead` | goes on without a node that is lost for good |
//! | `stuck` | a layout on top of a change that cannot end |
//! | `successor` | chooses the successor of an epoch, and finds one that nobody told |

use std::ops::Deref;
use std::sync::Arc;

mod admission;
pub mod change;
pub(crate) mod plan;
pub(crate) mod rebalance;
pub mod remove_dead;
mod staged;
mod stuck;
mod successor;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::data::Data;
use crate::layout::StoreName;
use rebalance::Rebalance;

/// Changes of the layout. Derefs to the [`Data`] that it works on.
pub struct LayoutChanges {
    data: Arc<Data>,
    rebalance: Rebalance,
    /// When a stranger last made this node look for a newer epoch.
    looked: Mutex<Option<Instant>>,
}

impl LayoutChanges {
    pub(crate) fn new(data: Arc<Data>) -> LayoutChanges {
        LayoutChanges {
            data,
            rebalance: Rebalance::default(),
            looked: Mutex::default(),
        }
    }

    /// Returns true if a store does not answer: its node is suspected, or has another store.
    fn is_away(&self, store: &StoreName) -> bool {
        let is_suspected = || {
            let peers = self.peers.as_ref();
            peers.is_none_or(|peers| peers.directory.is_suspected(&store.node))
        };
        self.has_other_store(store) || (store.node != self.me().node && is_suspected())
    }

    /// Returns true if the node of a store says that it has another one: its disks were lost, or
    /// rolled back. A node that has not told its store may have this one.
    fn has_other_store(&self, store: &StoreName) -> bool {
        let me = self.me();
        if store.node == me.node {
            return *store != me;
        }
        let peers = self.peers.as_ref();
        let told = peers.and_then(|peers| peers.directory.store_of(&store.node));
        told.is_some_and(|told| told != store.store)
    }
}

impl Deref for LayoutChanges {
    type Target = Arc<Data>;

    fn deref(&self) -> &Arc<Data> {
        &self.data
    }
}

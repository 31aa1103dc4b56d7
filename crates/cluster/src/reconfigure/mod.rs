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

use std::ops::Deref;
use std::sync::Arc;

mod admission;
pub mod change;
pub(crate) mod plan;
pub(crate) mod rebalance;
pub mod remove_dead;
mod staged;
mod stuck;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::data::Data;
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
}

impl Deref for LayoutChanges {
    type Target = Arc<Data>;

    fn deref(&self) -> &Arc<Data> {
        &self.data
    }
}

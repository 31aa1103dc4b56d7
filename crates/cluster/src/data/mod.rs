//! Rows, blocks and listings over all replicas: the work of a coordinator.
//!
//! | module | what it holds |
//! |---|---|
//! | `rows` | reads, writes and conditional writes of rows |
//! | `bundle` | sends the requests of operations that run together in one message |
//! | `replicate` | brings rows to single replicas |
//! | `companions` | rows that writes bring with them |
//! | `queues` | queues of updates, one for each row |
//! | `options`, `decision` | the options of a write; the decision of an update |
//! | `intents` | writes to which another row points |
//! | `driver` | drives one operation of the register: messages, hedging, retries |
//! | `block_writer` | sends blocks to all replicas at once |
//! | `block_reader` | reads blocks from the local store or another replica, verified |
//! | `list` | listings and scans: pages of a quorum, merged |
//! | `versions` | versions of objects: new ones, looks at one, decisions about one |
//! | `watch` | waits for changes of rows, at all of their replicas |
//! | `relay` | messages of this node's model for the nodes that ask; follows those of all nodes |
//! | `fetch` | fetches blocks and rows that the local replica lacks |
//! | `serve` | answers to other nodes |
//! | `local` | the local replica's answers, counters, the work queue |
//! | `local_work` | this node's share of work that replicas divide, and its buffers |

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::Semaphore;

pub(crate) mod block_reader;
pub(crate) mod block_writer;
pub(crate) mod bundle;
mod companions;
pub(crate) mod decision;
pub(crate) mod driver;
mod fetch;
mod intents;
pub(crate) mod list;
mod local;
mod local_work;
pub(crate) mod options;
mod queues;
pub(crate) mod relay;
mod replicate;
pub(crate) mod rows;
pub(crate) mod serve;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod versions;
pub(crate) mod watch;

use block_reader::SlowSources;
use fetch::Fetches;
pub(crate) use fetch::{Fetched, MOVED};

use crate::node::Node;
use queues::Queues;
use relay::Relay;
use watch::Watches;

/// The most copies of versions to other nodes that may outlive their callers.
const COPIES: usize = 64;

/// Rows, blocks and listings over all replicas. Derefs to the [`Node`] below.
pub struct Data {
    node: Arc<Node>,
    /// Updates of one row queue here, because they would only disturb one another. No guarantee
    /// depends on it.
    queues: Queues,
    fetches: Fetches,
    slow_sources: SlowSources,
    /// The traffic class of each fetch.
    #[cfg(test)]
    fetched_in: parking_lot::Mutex<Vec<Option<archipel_net::Class>>>,
    /// The permits for copies of versions to other nodes that may outlive their callers. Without one, a
    /// copy ends with its caller, and a suspected node is asked only if a quorum needs it.
    copies: Arc<Semaphore>,
    watches: Watches,
    relay: Relay,
}

impl Data {
    pub(crate) fn new(node: Arc<Node>) -> Data {
        Data {
            relay: Relay::new(node.replica.feed().run()),
            node,
            queues: Queues::default(),
            fetches: Fetches::default(),
            slow_sources: SlowSources::default(),
            #[cfg(test)]
            fetched_in: parking_lot::Mutex::default(),
            copies: Arc::new(Semaphore::new(COPIES)),
            watches: Watches::default(),
        }
    }
}

impl Deref for Data {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

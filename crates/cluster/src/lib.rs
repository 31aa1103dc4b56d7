//! The store as the model sees it: rows that are linearizable registers, blocks, listings, on all
//! nodes of a layout.
//!
//! | module | what it holds |
//! |---|---|
//! | [`register`] | the protocol: pure state machines |
//! | [`layout`] | who holds what: layout versions, epochs |
//! | [`placement`] | which nodes hold which partition: pure |
//! | [`merge`] | listings of several replicas as one: pure |
//! | [`change`], `moving`, [`skip`] | changing the layout; moving what must move; going on without who is lost |
//! | `cluster`, `rows`, `inner` | the handle; operations on rows; what handles share |
//! | `drive`, `group` | one operation, driven over the row's replicas |
//! | `upload`, `blocks` | blocks on their way in and out |
//! | `list` | listings and scans |
//! | `heal` | replicas bring one another up to date |
//! | `mend` | damaged blocks are replaced by good copies |
//! | `verify` | all nodes prove that what they hold is whole |
//! | `replica`, `service`, `wire` | this node's own replica, and what it answers to others |
//! | `epochs`, `empty` | the layout that this node knows; coming back under a new incarnation |
//! | `lineage` | metadata that were put back to an older state are noticed |
//! | [`members`] | who is there: gossip |
//! | `clock` | the time that the nodes have in common |
//! | `peers`, `planning` | the other nodes; from what is asked for to a layout |
//!
//! # Invariants
//! - An answer of a replica leaves after what it says is durable, and in the epoch of the request.
//! - What a row refers to is here before the row is.

mod blocks;
pub mod change;
mod clock;
mod cluster;
mod drive;
mod empty;
mod epochs;
mod error;
mod group;
mod heal;
mod inner;
mod lasting;
pub mod layout;
mod lineage;
mod list;
pub mod members;
mod memory;
mod mend;
pub mod merge;
mod moving;
mod peers;
pub mod placement;
mod planning;
pub mod register;
mod replica;
mod rows;
mod scan;
mod service;
pub mod skip;
mod throttle;
mod upload;
mod verify;
mod wire;

pub use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, Pin};
pub use blocks::BlockStream;
pub use clock::CommonClock;
pub use cluster::{Cluster, ClusterOptions, Hooks, Listener, Network};
pub use error::Error;
pub use heal::{FloorProgress, HealOptions, Healing, PeerHealing};
pub use lineage::{PutBack, accept_put_back};
pub use memory::{World, memory_store};
pub use mend::{Behind, Care, Mended, Mending, Scrubbing, Trouble};
pub use peers::Directory;
pub use rows::{Decision, How, Opened, State};
pub use scan::Scanned;
pub use upload::Upload;
pub use verify::{Findings, NodePart, Step, Verification};

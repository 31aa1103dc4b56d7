//! The store as the model sees it: rows that are linearizable registers, blocks, listings, on all
//! nodes of a layout.
//!
//! | module | what it holds |
//! |---|---|
//! | [`register`] | the protocol: pure state machines |
//! | [`layout`] | who holds what: layout versions, epochs |
//! | [`placement`] | which nodes hold which partition: pure |
//! | [`merge`] | listings of several replicas as one: pure |
//! | [`change`] | changing the layout, and moving what must move |
//! | `cluster`, `drive`, `group` | operations on rows, driven over their replicas |
//! | `upload`, `blocks` | blocks on their way in and out |
//! | `list` | listings and scans |
//! | `replica`, `service`, `wire` | this node's own replica, and what it answers to others |
//! | `epochs`, `empty` | the layout that this node knows; coming back under a new incarnation |
//! | [`members`] | who is there: gossip |
//! | `peers`, `planning` | the other nodes; from what is asked for to a layout |
//!
//! # Invariants
//! - An answer of a replica leaves after what it says is durable, and in the epoch of the request.
//! - What a row refers to is here before the row is.

mod blocks;
pub mod change;
mod cluster;
mod drive;
mod empty;
mod epochs;
mod error;
mod group;
pub mod layout;
mod list;
pub mod members;
mod memory;
pub mod merge;
mod peers;
pub mod placement;
mod planning;
pub mod register;
mod replica;
mod scan;
mod service;
mod upload;
mod wire;

pub use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, Pin};
pub use blocks::BlockStream;
pub use cluster::{
    Cluster, ClusterOptions, Decision, Hooks, How, Listener, Network, Opened, State,
};
pub use error::Error;
pub use memory::{World, memory_store};
pub use peers::Directory;
pub use scan::Scanned;
pub use upload::Upload;

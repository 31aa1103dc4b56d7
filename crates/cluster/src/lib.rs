//! The store as the model sees it: rows that are linearizable registers, blocks and listings, on
//! all nodes of a layout.
//!
//! | module | what it holds |
//! |---|---|
//! | [`register`] | the protocol: pure state machines |
//! | [`layout`] | layout versions, and the epochs in which they are live; pure |
//! | [`placement`] | chooses the nodes of each partition; pure |
//! | [`merge`] | merges the listings of several replicas; pure |
//! | `node` | this node: store, clock, epochs, replica, connections to other nodes |
//! | `data` | rows, blocks and listings over all replicas |
//! | `upkeep` | background work that keeps data whole: anti-entropy, tombstones, repair, verification |
//! | `reconfigure` | changes the layout and moves data |
//! | [`membership`] | the known nodes and their state: gossip |
//! | `founding` | the first layout of nodes that find each other |
//! | `server`, `cluster` | hands on the calls of other nodes; the facade |
//! | `memory` | nodes in memory, for tests and simulation |
//! | `error`, `faults` | the errors; switches for checkers |
//!
//! Each module may use those above it in this table. `cluster` composes them. `server`, which
//! answers calls for it, and those that act on a whole node, `founding`, `memory` and
//! `membership::follow`, use it in turn.
//!
//! # Invariants
//! - A replica's answer is sent after everything it says is durable, and in the epoch of the
//!   request.
//! - A row's blocks are on a node before the row is.

mod cluster;
mod data;
mod error;
mod faults;
mod founding;
pub mod layout;
pub mod membership;
mod memory;
pub mod merge;
mod node;
pub mod placement;
mod reconfigure;
pub mod register;
mod server;
mod upkeep;

pub use archipel_storage::{KeptKeys, ListEntry, ListQuery, ListStart, Listing, Pin};
pub use cluster::Cluster;
pub use data::Data;
pub use data::block_reader::BlockStream;
pub use data::block_writer::BlockWriter;
pub use data::bundle::Bundle;
pub use data::decision::{Current, Decision};
pub use data::list::Scanned;
pub use data::options::{Guard, PointingRow, Versioning, WriteOptions};
pub use data::relay::{Relay, Relayed};
pub use data::rows::{OpenRow, State};
pub use data::versions::{KeptVersions, VersionDecision, VersionSeen};
pub use data::watch::Watch;
pub use error::Error;
#[doc(hidden)]
pub use faults::Faults;
pub use founding::{FirstLayout, form};
pub use memory::{World, memory_store};
pub use node::Node;
pub use node::clock::CommonClock;
pub use node::companions::{Bringer, Brought, Companion, CompanionNews};
pub use node::options::{ClusterOptions, Hooks, Listener, Network, Taking, Topics, UsageLimit};
pub use node::own_history::Rollback;
pub use node::peers::Directory;
pub use node::replica::versions::split_kept;
pub use node::sizes::Sizes;
pub use node::times::Times;
pub use reconfigure::{LayoutChanges, change, remove_dead};
pub use register::Intent;
pub use register::coordinator::PastFate;
pub use register::versions::VersionReport;
pub use upkeep::Upkeep;
pub use upkeep::anti_entropy::{AntiEntropyOptions, AntiEntropyStatus, FloorProgress, PeerStatus};
pub use upkeep::repair::{
    BlockCopy, BlockReport, DiskSpace, Lagging, MaintenanceStatus, RepairRound, RepairStatus,
    ScrubStatus, Trouble,
};
pub use upkeep::rollback::accept_rollback;
pub use upkeep::verify::{Findings, NodePart, Step, Verification, VerificationState};

//! The store as the model sees it: rows that are linearizable registers, blocks, listings.
//!
//! [`Cluster`] drives the register protocol ([`register`]) over the replicas of a row. With one
//! node there is one replica, and it is local.

mod drive;
mod error;
mod local;
mod memory;
pub mod register;
mod replica;
mod scan;

pub use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, Pin, Upload};
pub use error::Error;
pub use local::{Cluster, ClusterOptions, Decision, OnReplace, State};
pub use scan::Scanned;

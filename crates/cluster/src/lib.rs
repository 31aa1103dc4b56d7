//! The store as the model sees it: rows that are linearizable registers, blocks, listings.
//!
//! [`Cluster`] drives the register protocol ([`register`]) over the replicas of a row. With one
//! node there is one replica, and it is local.

mod error;
mod list;
mod local;

pub use archipel_storage::{Pin, Upload};
pub use error::Error;
pub use list::{ListPage, ListRequest, ListStart, Listed, Scanned};
pub use local::{Cluster, ClusterOptions, Decision, State};

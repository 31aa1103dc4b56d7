//! Whole nodes in one thread: the product's `cluster` and `model` on disks in memory, over a simulated network.
//!
//! Time is tokio's, paused: it passes when nobody has anything to do. Machines crash and come back,
//! links are cut one way or both, clocks go wrong, clients go away in the middle; all of it follows from one seed.
//! Only what stands above `model` (HTTP) and below `storage`'s traits (files) is missing.
//!
//! | module | what it holds |
//! |---|---|
//! | [`power`] | engines and disks that stop with a power cut |
//! | [`machine`] | a machine: what outlives a crash, and what runs on it |
//! | [`world`] | machines, network, and what is noted of a run |
//! | [`faults`] | what goes wrong |
//! | [`client`] | what clients do |
//! | [`content`] | what objects hold |
//! | [`history`] | what clients asked and were told |
//! | [`listings`] | whether listings were right |
//! | [`backups`] | disks that are put back to an older state |
//! | [`operator`] | who changes the layout |
//! | [`judge`] | what must hold at the end |
//! | [`proof`] | nothing orphaned, every block whole, all that is derived exact |
//! | [`replicas`] | whether all replicas hold the same, and whole |

pub mod backups;
pub mod client;
pub mod content;
pub mod faults;
pub mod history;
pub mod judge;
pub mod listings;
pub mod machine;
pub mod operator;
pub mod power;
pub mod proof;
pub mod replicas;
pub mod world;

pub use judge::{Counts, Verdict};
pub use world::{Options, simulate};

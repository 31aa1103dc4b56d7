//! Whole nodes in one thread: the product's `cluster` and `model` on disks in memory, over a
//! simulated network.
//!
//! Time is tokio's, paused: it passes when no task has anything to do. Machines crash and come
//! back, links fail one way or both, clocks are wrong, and clients go away in the middle. All of it
//! follows from one seed. Only the layers above `model` (HTTP) and below `storage`'s traits (files)
//! are missing.
//!
//! | module | what it holds |
//! |---|---|
//! | [`power`] | engines and disks that stop with a power cut |
//! | [`machine`] | a machine: its disks, and the node that runs on it |
//! | [`clock`] | the clocks of machines |
//! | [`style`] | the settings that a seed draws for its run |
//! | [`world`] | machines, network, and the record of a run |
//! | [`disks`] | slow and full disks |
//! | [`faults`] | causes faults |
//! | [`client`] | runs clients |
//! | [`uploads`] | uploads that several clients complete and abort |
//! | [`buckets`] | buckets that clients make, fill, empty and delete |
//! | [`loose`] | a bucket whose commits are buffered |
//! | [`k2v`] | K2V items that clients write, read and poll |
//! | [`versions`] | versions, their settings, legal holds and lifecycle rules |
//! | [`content`] | the content of objects |
//! | [`history`] | requests of clients and their answers |
//! | [`listings`] | checks listings |
//! | [`backups`] | rolls disks back to an older state |
//! | [`operator`] | changes the layout |
//! | [`judge`] | the checks at the end |
//! | [`proof`] | checks that nothing is orphaned, every block is whole, and derived data is exact |
//! | [`replicas`] | checks that all replicas hold the same rows, with their content |

pub mod backups;
pub mod buckets;
pub mod client;
pub mod clock;
pub mod content;
pub mod disks;
pub mod faults;
pub mod history;
pub mod judge;
pub mod k2v;
pub mod listings;
pub mod loose;
pub mod machine;
pub mod operator;
pub mod power;
pub mod proof;
pub mod replicas;
pub mod style;
pub mod uploads;
pub mod versions;
pub mod world;

pub use judge::{Counts, Verdict};
pub use world::{Options, simulate};

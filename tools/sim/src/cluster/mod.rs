//! Whole clusters in one thread: virtual time, a seeded network, machines that crash.
//!
//! The register's state machines are the product's. The simulation controls time, messages, disks
//! and faults. All of it follows from one seed.
//!
//! | module | what it holds |
//! |---|---|
//! | [`message`] | messages between machines |
//! | [`machine`] | a replica on its disk, and the operations that it coordinates |
//! | [`run`] | the event loop: network, clients, faults, the operator |
//! | [`coordinate`] | the driver of operations |
//! | [`upkeep`] | anti-entropy, floors, layout changes |
//! | [`judge`] | the checks at the end |

pub mod coordinate;
pub mod judge;
pub mod machine;
pub mod message;
pub mod run;
pub mod upkeep;

pub use judge::{Counts, Verdict};
pub use run::{Options, simulate};

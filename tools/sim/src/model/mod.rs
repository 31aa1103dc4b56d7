//! The model checker: every interleaving of small scenarios, and random walks through larger ones.
//!
//! | module | what it holds |
//! |---|---|
//! | [`register`] | one row: reads, writes and conditional writes |
//! | [`uploads`] | an object and an upload of its key |
//! | [`versions`] | the versions of a key |
//! | [`protocol`] | the part that each of these three says of its own |
//! | [`scenario`] | scenarios: clients, their tasks, and the faults |
//! | [`world`] | the state of a scenario, and its possible next steps |
//! | [`network`] | messages, and the replicas that receive them |
//! | [`client`] | clients and the coordinators that serve them |
//! | [`floor`] | floor rounds |
//! | [`walk`] | random walks |
//!
//! The state machines and the rules at a replica are the product's. Only the driver is the model's
//! own.

pub mod client;
pub mod floor;
pub mod network;
pub mod protocol;
pub mod register;
pub mod scenario;
pub mod uploads;
pub mod versions;
pub mod walk;
pub mod world;

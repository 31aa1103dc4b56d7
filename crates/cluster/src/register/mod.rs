//! The register: one linearizable, conditionally writable value per key, without a leader.
//!
//! Everything here is pure: no I/O, no clock, no randomness, no async. A *driver* carries
//! requests and answers and commits rows; it decides nothing. The very same code is driven by the
//! product, by the model checker and by the simulator (`tools/sim`).
//! `docs/internals/consistency.md` states the promises and argues why they hold.
//!
//! | module | what it holds |
//! |---|---|
//! | [`message`] | what goes between a coordinator and a replica |
//! | [`quorum`] | sets of replicas, and what a quorum is: a majority in every live layout version |
//! | [`replica`] | the replica: what it answers, and what must be durable before it does |
//! | [`coordinator`] | reads, writes and conditional writes, from the side of the node that took the request |
//! | [`epoch`] | live layout versions, their succession, the fence, retirement |
//! | [`floor`] | how tombstones go: close, compare, agree |
//! | [`windows`] | anti-entropy: finding what two replicas do not share |
//! | [`rules`] | the rules of the protocol, each of which a test may break to see that a checker notices |
//!
//! # Invariants
//! - One stamp belongs to one write: no two values are ever accepted under the same stamp.
//! - A value is acted upon (returned, compared, built upon) only once a quorum holds it under one stamp.
//! - A replica's state is durable before its answer leaves.

pub mod coordinator;
pub mod epoch;
pub mod floor;
pub mod message;
pub mod quorum;
pub mod replica;
pub mod rules;
pub mod windows;

#[cfg(test)]
mod tests;

pub use coordinator::{Decision, NextStamp, Operation, Outcome, Output, Start};
pub use message::{Answer, Request, Version};
pub use quorum::{Quorums, ReplicaSet};
pub use replica::{Bounds, Cell, Recent, Step};
pub use rules::Rules;

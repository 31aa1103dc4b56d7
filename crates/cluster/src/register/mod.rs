//! The register: one linearizable, conditionally writable value per key, without a leader.
//!
//! Everything here is pure: no I/O, no clock, no randomness, no async. A *driver* carries requests
//! and answers and commits rows. It decides nothing. The product, the model checker and the
//! simulator (`tools/sim`) drive the same code. `docs/internals/consistency.md` states the
//! guarantees and argues why they hold.
//!
//! | module | what it holds |
//! |---|---|
//! | [`message`] | requests and answers between a coordinator and a replica |
//! | [`quorum`] | sets of replicas; a quorum is a majority in every live layout version |
//! | [`replica`] | the replica: its answers, and the state that must be durable before an answer leaves |
//! | [`coordinator`] | reads, writes and conditional writes, on the node that took the request |
//! | [`companion`] | companions: rows that a write brings with it |
//! | [`intent`] | intents: two rows change, and one of them decides |
//! | [`epoch`] | live layout versions, their succession, the fence, retirement |
//! | [`floor`] | floors: close, compare, freeze, agree; then tombstones are dropped |
//! | [`versions`] | versions of an object: what replicas keep, and decisions about versions |
//! | [`windows`] | anti-entropy: finds the rows in which two replicas differ |
//! | [`rules`] | the rules of the protocol; a test breaks each one, and a checker must notice |
//!
//! # Invariants
//! - One stamp belongs to one write: no two values are ever accepted under the same stamp.
//! - A value is returned, compared or built upon only after a quorum holds it under one stamp.
//! - A replica's state is durable before its answer leaves.

pub mod companion;
pub mod coordinator;
pub mod epoch;
pub mod floor;
pub mod intent;
pub mod message;
pub mod quorum;
pub mod replica;
pub mod rules;
pub mod versions;
pub mod windows;

#[cfg(test)]
mod tests;

pub use coordinator::{Decision, NextStamp, Operation, Outcome, Output, Repeat, RowValue, Start};
pub use intent::Intent;
pub use message::{Answer, Request, Version};
pub use quorum::{Quorums, ReplicaSet};
pub use replica::{Bounds, Cell, Recent, Step};
pub use rules::Rules;

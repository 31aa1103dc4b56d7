//! Rollback detection: metadata that were replaced by an older state are noticed.
//!
//! A store may be rolled back behind its back, by last week's copy of its folder or by a snapshot
//! of its disk. Then it has forgotten what it promised and accepted, and what was deleted since. It
//! must not answer as the store that it was.
//!
//! So each store keeps a **run history**: its runs, each with a random token and a **mark**, a
//! number that grows while the run changes anything. Other stores remember, durably, the last run
//! and mark that they heard of. After a start a store answers for its replicas only once half of
//! the others have told what they remember, and its own history contains it. If the history
//! contradicts it, the store is given a new name. To all other nodes its disk was lost. It comes
//! back, empty, when a layout names it.
//!
//! | module | what it holds |
//! |---|---|
//! | `driver` | asks the other stores, and tells them the mark |
//! | `wire` | the messages |
//! | `accept` | accepts stores that were rolled back together |
//!
//! # Invariants
//! - A mark is durable before it is told.
//! - The remembered mark of a store only grows, and contradicts no mark that was remembered before.
//! - A new name is durable before the store answers under it. The store never answers under an old
//!   name again.

mod accept;
mod driver;
pub(crate) mod wire;

#[cfg(test)]
mod tests;

pub use accept::accept_rollback;

/// Returns how many of `others` must have answered. A mark that more than half of them know is then
/// among the answers.
pub(crate) fn enough_of(others: usize) -> usize {
    others.div_ceil(2)
}

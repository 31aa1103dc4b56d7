//! Who is there: gossip between all nodes, and the suspicion that one is away.
//!
//! Each node tells others, by chance and three a second at most, what it knows: of each node a line (which run,
//! how often its facts changed, how long the run has lasted, and how long ago it said so), and of those that
//! the other knows less of also what they tell of themselves. A node of which nobody has had a sign of life for four
//! seconds, or that fails several calls in a row, is *suspected*: asked last, waited for by nobody. Nothing
//! that must be right rests on it.
//!
//! | module | what it holds |
//! |---|---|
//! | `state` | [`Membership`]: what one node knows of all; pure |
//! | `evidence` | what speaks for a node being there, and what against it; pure |
//! | `plan` | whom to ask when; pure |
//! | `exchange`, `message`, `facts` | what is said; pure |
//! | `driver` | [`Members`]: all this over calls |
//! | `follow` | learning newer layouts |
//!
//! # Invariants
//! - What a node tells of itself is changed by that node alone: by its run (`generation`), and within it by a number
//!   (`revision`) that grows. Others hand on the newest.
//! - A sign of life travels with its age, so it says the same wherever and however late it arrives: no clock is
//!   compared with another, a slow link looks like a fast one, and old news bring nobody back to life.
//! - Nodes of two clusters do not listen to each other. A node that is in none joins the first that it hears of.
//! - Messages, the number of nodes, and what each tells are bounded, and so is what a node sends in a second.

mod driver;
mod evidence;
mod exchange;
mod facts;
mod follow;
mod message;
mod plan;
mod state;

pub use driver::Members;
pub use facts::{Facts, MAX_ADDRESSES, MAX_TEXT_BYTES};
pub use plan::Target;
pub use state::{Member, Membership, TICK_MS};

#[cfg(test)]
mod tests;

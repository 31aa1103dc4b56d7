//! Membership: gossip between all nodes, and which of them are suspected.
//!
//! Each node tells others, chosen at random and three a second at most, what it knows. For each
//! node that is a line: its run, how often its node info changed, how long the run has lasted, and
//! how long ago the node said so. The message also holds the node info that the other lacks. A node
//! is *suspected* if no node has had a sign of life of it for four seconds, or if it fails several
//! calls in a row. It is asked last, and no operation waits for it. No guarantee depends on it.
//!
//! | module | what it holds |
//! |---|---|
//! | `state` | [`Membership`]: what one node knows of all; pure |
//! | `belief` | the nodes that a node believes, and those for which it has room; pure |
//! | `failure_detector` | decides which nodes are suspected; pure |
//! | `plan` | which node to ask when; pure |
//! | `exchange`, `message`, `node_info` | the messages; pure |
//! | `driver` | [`Members`]: all this over calls |
//! | `follow` | learns newer layouts |
//! | `heard` | the cluster of which a node without a layout has heard; pure |
//!
//! # Invariants
//! - Only a node itself changes its node info: by its run (`generation`), and within the run by a
//!   number (`revision`) that grows. Others pass on the newest. A node of a layout takes from nodes
//!   outside of it only what they tell of themselves.
//! - A sign of life travels with its age. So it means the same wherever and however late it
//!   arrives: no two clocks are compared, a slow link looks like a fast one, and old news revives
//!   no node.
//! - Nodes of two clusters do not listen to each other. A node that is in no cluster joins the
//!   first one that it hears of, until the node that told it is in none any more.
//! - Messages, the number of nodes, and each node's info are bounded, and so is what a node sends
//!   in a second.

mod belief;
mod driver;
mod exchange;
mod failure_detector;
mod follow;
mod heard;
mod message;
mod node_info;
mod plan;
mod state;

pub use driver::Members;
pub use node_info::{MAX_ADDRESSES, MAX_TEXT_BYTES, NodeInfo};
pub use plan::Target;
pub use state::{Member, Membership, TICK_MS};

#[cfg(test)]
mod tests;

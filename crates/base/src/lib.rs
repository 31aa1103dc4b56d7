//! The shared basis of all other crates: identifiers, hashes, stamps, clocks, randomness and
//! codecs.
//!
//! Nothing here does I/O except [`clock::SystemClock`] and [`random::SystemRandom`], the only two
//! places in the workspace that read the operating system's time and randomness. Everything else
//! takes [`clock::WallClock`] and [`random::Random`] as arguments, so that a simulation can control
//! them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`id`] | [`Id`](id::Id), 128-bit random names; [`PartitionId`](id::PartitionId) |
//! | [`node`] | [`NodeId`](node::NodeId), a node's public key |
//! | [`hash`] | [`BlockHash`](hash::BlockHash), the BLAKE3 name of a block; placement hashes |
//! | [`pieces`] | pieces of a block that can be verified one by one |
//! | [`stamp`] | [`Stamp`](stamp::Stamp), the total order of writes; the clock of stamps |
//! | [`clock`] | wall clocks: the system's, and a manual one |
//! | [`random`] | randomness: the system's, and a seeded one |
//! | [`size`] | sizes in bytes, as text |
//! | [`codec`] | versioned MessagePack for everything that is stored or sent |

pub mod clock;
pub mod codec;
pub mod hash;
pub mod id;
pub mod node;
pub mod pieces;
pub mod random;
pub mod size;
pub mod stamp;

pub use archipel_boxed::boxed;
pub use hash::BlockHash;
pub use id::{Id, PartitionId};
pub use node::NodeId;
pub use stamp::{Stamp, Writer};

#[cfg(test)]
mod tests;
